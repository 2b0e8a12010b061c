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
from ..calibration.views import PreparedRows, event_rows
from ..calibrators.outputs import shares
from ..choices.definitions import Definition
from ..choices.distances import Distance, InterInterval, as_distance
from ..choices.lenses import Binary, Lens, TopLabel
from ..choices.partitions import EqualWidth, Partition
from ..choices.selections import OutputIn
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..errors import InputError
from .diagram import Diagram
from .group_errors import error_interval
from .picture import Axis, Bars, Mark, Panel, Picture, Points

NUMBERS = (
    *("start", "stop", "rows", "share", "stated", "observed"),
    *("error", "low", "high", "null", "null_high", "beyond", "beyond_low", "beyond_high"),
)


@dataclass(frozen=True, eq=False)
class IntervalWise(Diagram):
    """Each interval of outputs that has rows, [start, stop), the last one closed.

    rows, share : the number of rows in the interval, and their share of the weight (Figure 6).
    stated, observed : mean output, and observed rate of the event.
    error, low, high : the calibration error of these rows (Figure 13), with a 95% interval as in
        `GroupErrors`; `null` and `null_high` are its mean and 95% point for a calibrated model with
        the same outputs.
    beyond, beyond_low, beyond_high : the distance of the observed rates from the interval, by
        `InterInterval` (Figure 5). If it is 0, the name of the interval describes its rows.
    """

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
        return {"interval": self.name} | {name: getattr(self, name) for name in NUMBERS}

    def picture(self) -> Picture:
        at, zero = np.arange(len(self.name)) * 1.0, np.zeros(len(self.name))
        errors = (*self._error_marks(at - 0.18), *self._outside_marks(at + 0.18))
        rows = (
            Bars.lying(
                at,
                zero,
                self.share,
                role="density",
                detail={"interval": self.name, "rows": self.rows},
            ),
        )
        names = Axis("predicted", categories=tuple(self.name.tolist()))
        panels = (
            Panel(errors, Axis("calibration error", 0.0), names, share=0.65),
            Panel(rows, Axis("rows", 0.0, percent=True), names, share=0.35),
        )
        caption = "Outside the interval: distance of observed rates from it. "
        caption += "Lines are 95% intervals."
        title = "Calibration error by confidence range"
        return Picture(panels, title, self._description(), caption)

    def _error_marks(self, at: np.ndarray) -> tuple[Mark, ...]:
        zero, detail = (
            np.zeros(len(at)),
            {
                "interval": self.name,
                "predicted": self.stated,
                "observed": self.observed,
                "error": self.error,
                "95% limit if calibrated": self.null_high,
            },
        )
        limit: dict[str, Any] = {"role": "chance", "name": "95% limit if calibrated"}
        error: dict[str, Any] = {"role": "observed", "name": "error"}
        return (
            Bars.lying(at, zero, self.error, thickness=0.32, detail=detail, **error),
            Bars.lying(
                at, zero, self.null_high, thickness=0.42, faint=True, detail=detail, **limit
            ),
            Points(self.error, at, self.low, self.high, across=True, role="reference"),
        )

    def _outside_marks(self, at: np.ndarray) -> tuple[Mark, ...]:
        detail = {"interval": self.name, "observed": self.observed, "outside": self.beyond}
        style: dict[str, Any] = {"role": "over", "name": "outside the interval", "detail": detail}
        ends = self.beyond_low, self.beyond_high
        return (
            Bars.lying(at, np.zeros(len(at)), self.beyond, thickness=0.32, **style),
            Points(self.beyond, at, *ends, across=True, role="reference"),
        )

    def _description(self) -> str:
        words = [
            f"{name}: {share:.0%} of rows, error {error:.3f} (95% limit if calibrated {null:.3f}),"
            f" outside the interval {beyond:.3f}"
            for name, share, error, null, beyond in zip(
                self.name, self.share, self.error, self.null_high, self.beyond, strict=True
            )
        ]
        return (
            f"Calibration errors within intervals of the output, {self.definition}. "
            + "; ".join(words)
            + "."
        )


@documents_row_options
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
    lens : a lens with a single event; by default `Binary()` for two classes, else `TopLabel()`.
    partition, distance : as in `calibration_error`.

    If no bin crosses an edge, the errors weighted by share sum to the error of all rows.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 2)
    >>> names = ["low", "medium", "high"]
    >>> found = interval_wise_diagram(world.y, world.mcs, names=names, resamples=20)
    >>> whole = calibration_error(world.y, world.mcs, lens=Binary())
    >>> abs(found.share @ found.error - whole) < 1e-12
    np.True_
    """
    ends = _valid_edges(edges, names)
    given = rows_of(y_true, y_proba, **options)
    prepared = PreparedRows.of(
        given, (Binary() if given.n_classes == 2 else TopLabel()) if lens is None else lens
    )
    predictions, chosen = prepared.predictions, prepared.lens
    partition = prepared.partition(EqualWidth(15) if partition is None else partition)
    seen = event_rows(predictions, chosen)
    weight, outputs = shares(seen.weights), seen.view.outputs
    choices: dict[str, Any] = {"lens": chosen, "resamples": resamples, "seed": seed}
    labels, found = [], []
    for number, (start, stop) in enumerate(pairwise(ends.tolist())):
        where = OutputIn(start, 1.0) if stop == 1 else OutputIn(start, 1.0) & ~OutputIn(stop, 1.0)
        inside = where.mask(seen.view) & (weight > 0)
        if not inside.any():
            continue
        share, places = weight[inside], seen.rows[inside]
        kept: dict[str, Any] = {"partition": partition, "where": where, "interval": True}
        error = calibration_error(predictions, distance=distance, **choices, **kept)
        beyond = calibration_error(
            predictions, distance=InterInterval(start, stop), **choices, **kept
        )
        own = partition.select(places, len(predictions))
        test = calibration_test(
            predictions.take(places), distance=distance, partition=own, **choices
        )
        means = (
            share @ outputs[inside] / share.sum(),
            share @ seen.view.labels[inside] / share.sum(),
        )
        parts = (*error_interval(error), test.null_mean, test.null_high, *error_interval(beyond))
        labels.append(f"{start:.2g} to {stop:.2g}" if names is None else f"{names[number]}")
        found.append((start, stop, inside.sum(), share.sum(), *means, *parts))
    columns = dict(zip(NUMBERS, np.array(found).T, strict=True))
    columns["rows"] = columns["rows"].astype(np.int64)
    definition = Definition(chosen, partition, as_distance(distance)).words(pairs=given.pairs)
    return IntervalWise(np.array(labels), **columns, definition=definition)


def _valid_edges(edges: Any, names: Sequence[str] | None) -> np.ndarray:
    ends = as_numbers(edges, "edges").astype(np.float64)
    rising = ends.ndim == 1 and len(ends) > 1 and bool((np.diff(ends) > 0).all())
    if not rising or ends[0] != 0 or ends[-1] != 1:
        raise InputError("edges", "must increase from 0 to 1", ends.tolist())
    if names is not None and len(names) != len(ends) - 1:
        rule = f"must have one name for each of the {len(ends) - 1} intervals"
        raise InputError("names", rule, len(names))
    return ends
