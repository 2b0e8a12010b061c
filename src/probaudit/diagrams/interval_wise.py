"""Calibration errors within intervals of the output, such as low, medium and high (Kirchenbauer et
al. 2022, Section 5.3, Figures 5, 6 and 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibration.views import LensRows, PreparedRows, event_rows
from ..calibrators.outputs import shares
from ..choices.definitions import Definition
from ..choices.distances import Distance, InterInterval, as_distance
from ..choices.lenses import Lens, default_lens
from ..choices.partitions import EqualWidth, Partition, checked_partition
from ..choices.selections import OutputIn, Selection
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..text import number, significant, whole_percent
from .diagram import EXPECTED, HIGH, LIMIT, LOW, SHARE, Diagram
from .picture import Axis, Bars, Panel, Picture, Points

OUTSIDE = "outside the range"
LANE = 0.13  # from the middle of a category to each of its two lanes
NUMBERS = (
    *("start", "stop", "rows", "share", "stated", "observed"),
    *("error", "low", "high", "null", "null_high", "beyond", "beyond_low", "beyond_high"),
)


@dataclass(frozen=True, eq=False)
class IntervalWise(Diagram):
    """Each interval of outputs that has rows, [start, stop), the last one closed.

    rows, share : the number of rows in the interval, and their share of the weight (Figure 6).
    stated, observed : mean predicted probability, and observed rate of the event.
    error, low, high : the calibration error of these rows (Figure 13), with a 95% interval (see
        `Estimate.error_bar`). null, null_high : its mean and 95% limit for a calibrated model with
        the same outputs.
    beyond, beyond_low, beyond_high : the distance of the observed rates from the interval, by
        `InterInterval` (Figure 5). If it is 0, observed rates lie in the interval.
    """

    percents = (SHARE,)

    name: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    rows: np.ndarray
    share: np.ndarray
    stated: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null: np.ndarray
    null_high: np.ndarray
    beyond: np.ndarray
    beyond_low: np.ndarray
    beyond_high: np.ndarray
    definition: str

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "interval": self.name,
            "from": self.start,
            "to": self.stop,
            "rows": self.rows,
            SHARE: self.share,
            "predicted": self.stated,
            "observed": self.observed,
            "calibration error": self.error,
            LOW: self.low,
            HIGH: self.high,
            EXPECTED: self.null,
            LIMIT: self.null_high,
            OUTSIDE: self.beyond,
            "outside, 95% low": self.beyond_low,
            "outside, 95% high": self.beyond_high,
        }

    def picture(self) -> Picture:
        at, zero = np.arange(len(self.name)) * 1.0, np.zeros(len(self.name))
        rows = (
            Bars.lying(
                at,
                zero,
                self.share,
                role="density",
                detail={"interval": self.name, "rows": self.rows},
            ),
        )
        names = Axis("", categories=tuple(self.name.tolist()))
        panels = (
            Panel(self._errors(at), Axis("calibration error", 0.0), names, share=0.65),
            Panel(rows, Axis("rows", 0.0, percent=True), names, share=0.35),
        )
        caption = (
            "Each range of predicted probabilities has its own calibration error. If observed "
            "rates lie outside the range itself, the lower mark shows by how much, on average. "
            "Lines are 95% intervals."
        )
        title = "Calibration error by confidence range"
        return Picture(panels, title, self._description(), caption)

    def _errors(self, at: np.ndarray) -> tuple[Points, ...]:
        """Two lanes for each range: the error with its limit, and the distance from the range."""
        error, outside = at - LANE, at + LANE
        detail = {
            "interval": self.name,
            "predicted": self.stated,
            "observed": self.observed,
            "error": self.error,
            LIMIT: self.null_high,
            OUTSIDE: self.beyond,
        }
        shown: dict[str, Any] = {"across": True, "detail": detail}
        ends = (self.low, self.high), (self.beyond_low, self.beyond_high)
        return (
            Points(self.null_high, error, role="limit", name=LIMIT, **shown),
            Points(self.error, error, *ends[0], role="observed", name="error", **shown),
            Points(self.beyond, outside, *ends[1], role="calibration", name=OUTSIDE, **shown),
        )

    def _description(self) -> str:
        words = [
            f"{name}: {whole_percent(share)} of rows, error {number(error, 3)}"
            f" (95% limit if calibrated {number(null, 3)}),"
            f" {OUTSIDE} {number(beyond, 3)}"
            for name, share, error, null, beyond in zip(
                self.name, self.share, self.error, self.null_high, self.beyond, strict=True
            )
        ]
        return (
            f"Calibration errors within intervals of the output, {self.definition}. "
            + "; ".join(words)
            + "."
        )


@takes_row_options
def interval_wise_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    edges: Any = (0.0, 1 / 3, 2 / 3, 1.0),
    names: Sequence[str] | None = None,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> IntervalWise:
    """The calibration error of the rows in each interval of the output, and how far observed rates
    lie outside the interval.

    edges : increasing from 0 to 1; thirds by default. names : of the intervals, such as
        "low", "medium", "high".
    lens : a lens with a single event; by default the second of two classes, or else the top label.
    partition, distance : as in `calibration_error`.

    If no bin crosses an edge, the errors weighted by share sum to the error of all rows.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 2)
    >>> names = ["low", "medium", "high"]
    >>> found = interval_wise_diagram(world.y, world.mcs, names=names, resamples=20)
    >>> from probaudit import Binary
    >>> whole = calibration_error(world.y, world.mcs, lens=Binary())
    >>> abs(found.share @ found.error - whole) < 1e-12
    np.True_
    """
    ends = _valid_edges(edges, names)
    given = rows_of(y_true, y_proba, **options)
    prepared = PreparedRows.of(given, default_lens(given, lens))
    partition = prepared.partition(checked_partition(partition, EqualWidth(15)))
    rows = event_rows(prepared.predictions, prepared.lens)
    weight = shares(rows.weights)
    choices: dict[str, Any] = {"distance": distance, "resamples": resamples, "seed": seed}
    labels, numbers = [], []
    for place, (start, stop) in enumerate(pairwise(ends.tolist())):
        where = OutputIn(start, 1.0) if stop == 1 else OutputIn(start, 1.0) & ~OutputIn(stop, 1.0)
        inside = where.mask(rows.view) & (weight > 0)
        if inside.any():
            words = f"{significant(start, 2)} to {significant(stop, 2)}"
            labels.append(words if names is None else str(names[place]))
            errors = _interval_errors(
                prepared, rows.rows[inside], partition, where, (start, stop), choices
            )
            numbers.append((start, stop, *_interval_means(rows, weight, inside), *errors))
    columns = dict(zip(NUMBERS, np.array(numbers).T, strict=True))
    columns["rows"] = columns["rows"].astype(np.int64)
    definition = Definition(prepared.lens, partition, as_distance(distance))
    return IntervalWise(np.array(labels), **columns, definition=definition.words(pairs=given.pairs))


def _interval_means(rows: LensRows, weight: np.ndarray, inside: np.ndarray) -> tuple[float, ...]:
    """Number of rows, share of the weight, mean output and observed rate in an interval."""
    share = weight[inside]
    total = share.sum()
    outputs, labels = rows.view.outputs[inside], rows.view.labels[inside]
    return inside.sum(), total, share @ outputs / total, share @ labels / total


def _interval_errors(
    prepared: PreparedRows,
    rows: np.ndarray,
    partition: Partition,
    where: Selection,
    ends: tuple[float, float],
    choices: dict[str, Any],
) -> tuple[float, ...]:
    """The error with its interval, its mean and 95% limit if calibrated, and the distance from the
    interval of outputs with its interval."""
    choices = choices | {"lens": prepared.lens}
    selected = choices | {"partition": partition, "where": where, "interval": True}
    error = calibration_error(prepared.predictions, **selected)
    beyond = calibration_error(
        prepared.predictions, **selected | {"distance": InterInterval(*ends)}
    )
    own = partition.select(rows, len(prepared.predictions))
    test = calibration_test(prepared.predictions.take(rows), partition=own, **choices)
    return *error.error_bar, test.null_mean, test.null_high, *beyond.error_bar


def _valid_edges(edges: Any, names: Sequence[str] | None) -> np.ndarray:
    ends = as_numbers(edges, "edges").astype(np.float64)
    rising = ends.ndim == 1 and len(ends) > 1 and bool((np.diff(ends) > 0).all())
    if not rising or ends[0] != 0 or ends[-1] != 1:
        raise InputError("edges", "must increase from 0 to 1", ends.tolist())
    if names is not None and len(names) != len(ends) - 1:
        rule = f"must have one name for each of the {len(ends) - 1} intervals"
        raise InputError("names", rule, len(names))
    return ends
