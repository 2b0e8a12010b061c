"""Calibration errors of kernel spaces, as functions of (y_true, y_proba): MMCE and SKCE."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np

from ..choices.definitions import Definition
from ..choices.lenses import Full, Lens, TopLabel
from ..data.inputs import RowOptions, rows_of
from ..errors import InputError
from ..estimate import Estimate
from .kernel_tests import KernelTest, linear_skce, mmce, skce
from .views import look, look_at_event


def _check_width(width: float) -> None:
    if not 0 < width < np.inf:
        raise InputError("width", "must be positive and finite", width)


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

    It is biased upwards, by chance, like every plain error.

    >>> round(maximum_mean_calibration_error([1, 0], [0.5, 0.5]), 12)
    0.0
    """
    _check_width(width)
    if options.get("clusters") is not None:
        rule = "have no effect on MMCE, which has no interval; leave them out"
        raise InputError("clusters", rule)
    lens = TopLabel() if lens is None else lens
    seen = look_at_event(rows_of(y_true, y_proba, **options), lens)
    value = mmce(seen.view.outputs, seen.view.labels, seen.weights, seen.order, width)
    return Estimate(
        value,
        n=len(seen.rows),
        definition=Definition("MMCE", lens, f"exponential kernel of width {width:g}"),
    )


def kernel_calibration_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    width: float = 1.0,
    pairs: Literal["all", "disjoint"] = "all",
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> KernelTest:
    """The squared kernel calibration error SKCE, without bias, and a test of calibration (Widmann
    et al. 2019).

    pairs : "all", whose time grows with the square of the rows, or "disjoint" for many rows.
    lens : `Full()` unless given, so all classes are tested together. The test takes rows in blocks
        as they come, so they must be in no particular order.
    """
    _check_width(width)
    if pairs not in ("all", "disjoint"):
        raise InputError("pairs", 'must be "all" or "disjoint"', repr(pairs))
    if options.get("sample_weight") is not None:
        raise InputError("sample_weight", "this test is defined for rows of equal weight")
    predictions = rows_of(y_true, y_proba, **options)
    if predictions.clusters is not None:
        raise InputError(
            "clusters",
            "this test needs independent rows; `calibration_test` and `audit` take clusters",
        )
    (seen,) = look(predictions, Full() if lens is None else lens)
    return skce(seen.view, width) if pairs == "all" else linear_skce(seen.view, width)
