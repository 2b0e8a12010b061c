"""Measures of a single event's probabilities that other fields know, for binary problems or through
any lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..calibration import event
from ..choices.lenses import Binary, Lens, View
from ..choices.partitions import EqualMass
from ..choices.scores import as_score
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..errors import InputError
from ..estimate import Estimate
from ..states import CELLS
from .errors import calibration_error
from .fine_grid import FineGrid
from .kernel_regression import smoothed
from .views import Seen, look_at_event


@dataclass(frozen=True)
class _Event:
    p: np.ndarray
    y: np.ndarray
    w: np.ndarray
    seen: Seen

    @property
    def order(self) -> np.ndarray:
        return self.seen.order


def _event(
    y_true: Any,
    y_proba: Any,
    lens: Lens | None,
    options: RowOptions,
    *,
    weighted: bool = True,
    independent: str = "",
) -> _Event:
    """Outputs, labels and weights of the event that a lens shows. `independent` names a test or a
    standard error that holds for independent rows only."""
    if not weighted and options.get("sample_weight") is not None:
        raise InputError("sample_weight", "this measure is defined for rows of equal weight")
    predictions = rows_of(y_true, y_proba, **options)
    if independent and predictions.cluster_numbers is not None:
        rule = f"{independent} needs independent rows; `calibration_test` takes clusters"
        raise InputError("clusters", rule)
    if not independent and options.get("clusters") is not None:
        raise InputError(
            "clusters", "has no effect here: this measure has neither interval nor test"
        )
    if lens is None and predictions.n_classes != 2:
        raise InputError(
            "lens", "with more than two classes, say which event: TopLabel() or OneVsRest(k)"
        )
    seen = look_at_event(predictions, Binary() if lens is None else lens)
    return _Event(np.clip(seen.view.outputs, 0, 1), seen.view.labels, seen.weights, seen)


@documents_row_options
def spiegelhalter_test(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> event.Test:
    """Is the Brier score larger or smaller than it should be if the probabilities were true?

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> spiegelhalter_test(rng.random(1000) < p, p).p_value > 0.05
    True
    """
    rows = _event(
        y_true, y_proba, lens, options, weighted=False, independent="Spiegelhalter's test"
    )
    return event.spiegelhalter(rows.p, rows.y)


@documents_row_options
def hosmer_lemeshow_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    groups: int = 10,
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> event.Test:
    """Observed against expected events in groups of equally many rows (Hosmer & Lemeshow 1980).

    Counts of groups with fewer than five expected events, or non-events, are resampled from their
    exact distribution.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.05, 0.05, 1000)
    >>> hosmer_lemeshow_test(rng.random(1000) < p, p).p_value > 0.05
    True
    """
    rows = _event(
        y_true, y_proba, lens, options, weighted=False, independent="the Hosmer-Lemeshow test"
    )
    return event.hosmer_lemeshow(rows.p, rows.y, EqualMass(groups).cells(rows.p, rows.order))


@documents_row_options
def cumulative_differences(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> event.CumulativeDifferences:
    """The cumulated difference of events and probabilities (ECCE), with its Kolmogorov-Smirnov and
    Kuiper measures.

    No bins are needed (Arrieta-Ibarra et al. 2022).
    """
    rows = _event(y_true, y_proba, lens, options)
    return event.cumulative_differences(rows.p, rows.y, rows.w, rows.order)


@documents_row_options
def calibration_line(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> event.Line:
    """Calibration slope and intercept (Cox 1958), and calibration in the large."""
    rows = _event(
        y_true, y_proba, lens, options, independent="a standard error of the calibration line"
    )
    return event.calibration_line(rows.p, rows.y, rows.w)


@documents_row_options
def score_decomposition(
    y_true: Any,
    y_proba: Any = None,
    *,
    score: str = "brier",
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> event.Decomposition:
    """Miscalibration, discrimination and uncertainty by isotonic regression (CORP; Dimitriadis et
    al. 2021).

    The score is that of the event and its complement: "brier" is 2 (p - y)^2.

    >>> found = score_decomposition([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9])
    >>> round(found.miscalibration - found.discrimination + found.uncertainty - found.score, 12)
    0.0
    """
    rule = as_score(score)
    rows = _event(y_true, y_proba, lens, options)
    return event.corp(rows.p, rows.y, rows.w, rule)


# a kernel's width in cells of the grid; finer ones would not change a sixth digit
CELLS_A_WIDTH = 100


@dataclass(frozen=True)
class CalibrationIndices:
    """Mean, median and 90% point of |E[y | p] - p| over rows: ICI, E50 and E90 (Austin & Steyerberg
    2019)."""

    ici: float
    e50: float
    e90: float
    n: int
    definition: str


@documents_row_options
def calibration_indices(
    y_true: Any,
    y_proba: Any = None,
    *,
    bandwidth: float = 0.05,
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> CalibrationIndices:
    """ICI, E50 and E90, with E[y | p] by kernel regression on the fine grid, mirrored at 0 and 1.

    The authors use a loess curve; any smooth curve serves, and this one needs no sample of the
    rows.
    """
    rows = _event(y_true, y_proba, lens, options)
    grid = FineGrid.of_view(View(rows.p, rows.y), rows.w).coarse(
        int(min(CELLS, CELLS_A_WIDTH / bandwidth))
    )
    kept = grid.kept
    mass, hits = smoothed(
        np.stack([grid.weight, grid.targets]), "gaussian", bandwidth, reflect=True
    )[:, kept]
    gap = np.abs(hits / mass - grid.place)
    order = np.argsort(gap)
    below = np.cumsum(grid.share[order])
    half, most = (float(gap[order][np.searchsorted(below, q * (1 - 1e-12))]) for q in (0.5, 0.9))
    words = f"|E[y | p] - p|, Gaussian kernel of width {bandwidth:g}, mirrored"
    return CalibrationIndices(float((grid.share * gap).sum()), half, most, len(rows.p), words)


@documents_row_options
def sweep_calibration_error(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> Estimate:
    """ECE with as many equal-mass bins as keep observed frequencies rising (ECE-sweep; Roelofs et
    al. 2022)."""
    rows = _event(y_true, y_proba, lens, options, weighted=False)
    bins = event.sweep_bins(rows.y, rows.order)
    found = calibration_error(
        y_true, y_proba, lens=lens or Binary(), partition=EqualMass(bins), **options
    )
    return Estimate(found, n=found.n, definition=f"ECE-sweep, {bins} bins, {found.definition}")
