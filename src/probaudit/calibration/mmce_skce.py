"""Calibration errors as norms in a reproducing kernel Hilbert space, without bins: MMCE and
SKCE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from ..choices.definitions import Definition
from ..choices.lenses import Full, Lens, View, checked_lens, error_lens
from ..data.inputs import RowOptions, check_equal_weights, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.clusters import clusters_unused
from .views import event_rows, lens_rows


@dataclass(frozen=True)
class KernelTest:
    """An unbiased estimate of the squared kernel calibration error, and its p-value under
    calibration.

    value : the mean over all pairs of rows (SKCE_uq) or over disjoint pairs (SKCE_ul). It may be
        negative.
    p_value : from a t test of the means of disjoint blocks of about sqrt(n) rows, or from a normal
        approximation for disjoint pairs.
    """

    value: float
    p_value: float
    n: int
    definition: str


def _check_width(width: float) -> None:
    if not 0 < width < np.inf:
        raise InputError("width", "must be positive and finite", width)


@takes_row_options
def maximum_mean_calibration_error(
    y_true: Any,
    y_proba: Any = None,
    *,
    width: float = 0.4,
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """MMCE (Kumar et al. 2018): the norm of the mean residual in the space of the kernel exp(-|p -
    q| / width).

    Sampling noise biases it upwards, as with every plain calibration error.

    >>> round(maximum_mean_calibration_error([1, 0], [0.5, 0.5]), 12)
    0.0
    """
    _check_width(width)
    if options.get("clusters") is not None:
        raise clusters_unused("MMCE, which has no interval")
    predictions = rows_of(y_true, y_proba, **options)
    lens = error_lens(predictions, lens)
    shown = event_rows(predictions, lens)
    value = mmce(shown.view.outputs, shown.view.labels, shown.weights, shown.order, width)
    return Estimate(
        value,
        n=len(shown.rows),
        definition=Definition("MMCE", lens, f"exponential kernel of width {width:g}"),
    )


@takes_row_options
def kernel_calibration_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    width: float = 1.0,
    pairs: Literal["all", "disjoint"] = "all",
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> KernelTest:
    """The unbiased squared kernel calibration error (SKCE) and a test of calibration (Widmann et
    al. 2019).

    pairs : "all" (quadratic in the rows) or "disjoint" (linear, for many rows).
    lens : `Full()` by default, which tests all classes together.

    The test splits rows into blocks in the given order, so the order must be random.
    """
    _check_width(width)
    if pairs not in ("all", "disjoint"):
        raise InputError("pairs", 'must be "all" or "disjoint"', repr(pairs))
    predictions = rows_of(y_true, y_proba, **options)
    check_equal_weights(predictions, "the SKCE test", "`calibration_test`")
    if predictions.clusters is not None:
        raise InputError(
            "clusters",
            "this test needs independent rows",
            way_out=("use `calibration_test` or `audit` for clusters",),
        )
    (shown,) = lens_rows(predictions, Full() if lens is None else checked_lens(lens))
    return skce(shown.view, width) if pairs == "all" else linear_skce(shown.view, width)


def mmce(
    p: np.ndarray, y: np.ndarray, w: np.ndarray, order: np.ndarray, width: float = 0.4
) -> float:
    """MMCE: the root of the mean of r_i r_j exp(-|p_i - p_j| / width) over all pairs, with
    r = y - p.

    Because the kernel is exponential, the double sum over sorted outputs is one pass in each
    direction.
    """
    from ..kernels.laplace_kernel import decayed_products

    r = (w * (y - p))[order] / w.sum()
    return math.sqrt(max(0.0, decayed_products(r, p[order], width)))


def skce(view: View, width: float = 1.0, block: int = 1024) -> KernelTest:
    """SKCE over all pairs, with the kernel exp(-(total variation distance) / width) times the
    identity matrix."""
    outputs = (
        view.outputs
        if view.outputs.ndim == 2
        else np.column_stack([1 - view.outputs, view.outputs])
    )
    residual = np.eye(outputs.shape[1])[view.labels] - outputs
    n = len(outputs)
    total = 0.0
    for start in range(0, n, block):
        part = slice(start, start + block)
        total += float(_terms(outputs[part], residual[part], outputs, residual, width).sum())
    own = float((residual**2).sum())
    value = (total - own) / (n * (n - 1)) if n > 1 else math.nan
    p_value = _block_test(outputs, residual, width)
    return KernelTest(
        value, p_value, n, f"SKCE, exponential kernel of total variation, width {width:g}"
    )


def linear_skce(view: View, width: float = 1.0, block: int = 4096) -> KernelTest:
    """SKCE over disjoint pairs of consecutive rows (SKCE_ul): linear in the rows, but with less
    power."""
    outputs = (
        view.outputs
        if view.outputs.ndim == 2
        else np.column_stack([1 - view.outputs, view.outputs])
    )
    pairs = len(outputs) // 2
    terms = []
    for start in range(0, pairs, block):
        rows = slice(2 * start, 2 * min(start + block, pairs))
        (g, h), (a, b) = ((part[rows][0::2], part[rows][1::2]) for part in (outputs, view.labels))
        at = np.arange(len(a))
        # <e_a - g, e_b - h>, without computing the residuals
        products = (
            (a == b)
            - h[at, a].astype(np.float64)
            - g[at, b]
            + np.einsum("ik,ik->i", g, h, dtype=np.float64)
        )
        terms.append(np.exp(-np.abs(g - h).sum(axis=1, dtype=np.float64) / (2 * width)) * products)
    values = np.concatenate(terms) if terms else np.empty(0)
    value = float(values.mean()) if pairs else math.nan
    spread = float(values.std(ddof=1)) / math.sqrt(pairs) if pairs > 1 else 0.0
    p_value = math.erfc(value / spread / math.sqrt(2)) / 2 if spread > 0 else math.nan
    words = f"SKCE from pairs of rows, exponential kernel of total variation, width {width:g}"
    return KernelTest(value, p_value, len(outputs), words)


def _block_test(outputs: np.ndarray, residual: np.ndarray, width: float) -> float:
    """The p-value of a one-sided t test of the blocks' unbiased errors (a B-test)."""
    from scipy.special import stdtr

    size = math.isqrt(len(outputs))
    if size < 2:
        return math.nan
    means = []
    for start in range(0, len(outputs) - size + 1, size):
        g, r = outputs[start : start + size], residual[start : start + size]
        terms = _terms(g, r, g, r, width)
        means.append((terms.sum() - np.trace(terms)) / (size * (size - 1)))
    spread = np.std(means, ddof=1) / math.sqrt(len(means))
    return float(stdtr(len(means) - 1, -np.mean(means) / spread)) if spread > 0 else math.nan


def _terms(g: np.ndarray, r: np.ndarray, h: np.ndarray, s: np.ndarray, width: float) -> np.ndarray:
    """k(g_i, h_j) <r_i, s_j> for all i and j."""
    distance = np.zeros((len(g), len(h)))
    for k in range(g.shape[1]):
        distance += np.abs(g[:, k, None] - h[None, :, k])
    return np.exp(-distance / (2 * width)) * (r @ s.T)
