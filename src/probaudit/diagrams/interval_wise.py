"""Calibration errors within intervals of the output, as words such as low, medium, high stand for
them (Kirchenbauer et al. 2022, Section 5.3, Figures 5, 6 and 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibration.views import event_rows
from ..calibrators.calibration_loss import shares
from ..choices.distances import Distance, InterInterval, as_distance
from ..choices.lenses import Binary, Lens, TopLabel
from ..choices.partitions import EqualWidth, Partition
from ..choices.selections import OutputIn
from ..data.arrays import as_numbers
from ..data.inputs import RowOptions, rows_of
from ..errors import InputError
from .diagram import Diagram
from .group_errors import around
from .judged import Judged
from .picture import Axis, Bars, Panel, Picture, Points
from .wording import in_words

NUMBERS = (
    *("start", "stop", "rows", "share", "stated", "observed"),
    *("error", "low", "high", "null", "null_high", "beyond", "beyond_low", "beyond_high"),
)


@dataclass(frozen=True, eq=False)
class IntervalWise(Diagram):
    """Of each interval of outputs that has rows, [start, stop), the last one closed.

    rows, share : how many rows state such an output, and their share of the weight (Figure 6).
    stated, observed : mean output, and how often the event happened.
    error, low, high : the calibration error of these rows (Figure 13), with a 95% interval as in
        `GroupErrors`; `null` and `null_high` are its mean and 95% point for a calibrated model with
        the same outputs.
    beyond, beyond_low, beyond_high : the part of it that leads out of the interval, with distance
        `InterInterval` (Figure 5): if it is 0, the word for the interval is right.
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
        upper, lower = at - 0.18, at + 0.18
        detail = {
            "interval": self.name,
            "stated": self.stated,
            "observed": self.observed,
            "error": self.error,
        }
        detail |= {"chance, up to": self.null_high}
        beyond = {"interval": self.name, "observed": self.observed, "beyond": self.beyond}
        errors = (
            Bars.lying(
                upper,
                zero,
                self.error,
                thickness=0.32,
                role="observed",
                name="error",
                detail=detail,
            ),
            Bars.lying(
                upper,
                zero,
                self.null_high,
                thickness=0.42,
                faint=True,
                role="chance",
                name="chance alone, up to",
                detail=detail,
            ),
            Points(self.error, upper, self.low, self.high, across=True, role="reference"),
            Bars.lying(
                lower,
                zero,
                self.beyond,
                thickness=0.32,
                role="over",
                name="beyond the interval",
                detail=beyond,
            ),
            Points(
                self.beyond, lower, self.beyond_low, self.beyond_high, across=True, role="reference"
            ),
        )
        rows = (
            Bars.lying(
                at,
                zero,
                self.share,
                role="density",
                detail={"interval": self.name, "rows": self.rows},
            ),
        )
        names = Axis("stated", categories=tuple(self.name.tolist()))
        panels = (
            Panel(errors, Axis("calibration error", 0.0), names, share=0.65),
            Panel(rows, Axis("rows", 0.0, percent=True), names, share=0.35),
        )
        caption = "Beyond the interval: the observed rate does not fit what the interval says. Lines are 95% intervals."
        return Picture(panels, "Errors by what is stated", self._said(), caption)

    def _said(self) -> str:
        words = [
            f"{name}: {share:.0%} of rows, error {error:.3g} (chance up to {null:.3g}), beyond the interval {beyond:.3g}"
            for name, share, error, null, beyond in zip(
                self.name, self.share, self.error, self.null_high, self.beyond, strict=True
            )
        ]
        return (
            f"Calibration errors within intervals of the output, {self.definition}. "
            + "; ".join(words)
            + "."
        )


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
    """The calibration error of the rows whose output lies in each interval, and how far it leads
    out of the interval.

    edges : from 0 to 1, rising; thirds unless given. names : of the intervals between them, such as
        "low", "medium", "high".
    lens : one that shows a single event; `Binary()` for two classes, else `TopLabel()`, unless
        given.
    partition, distance : as in `calibration_error`.

    Where bins do not reach over an edge, the errors weighted by share sum to the error of all rows.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 2)
    >>> found = interval_wise_diagram(world.y, world.mcs, names=["low", "medium", "high"], resamples=20)
    >>> abs(found.share @ found.error - calibration_error(world.y, world.mcs, lens=Binary())) < 1e-12
    np.True_
    """
    ends = as_numbers(edges, "edges").astype(np.float64)
    if (
        ends.ndim != 1
        or len(ends) < 2
        or ends[0] != 0
        or ends[-1] != 1
        or not (np.diff(ends) > 0).all()
    ):
        raise InputError("edges", "must rise from 0 to 1", ends.tolist())
    if names is not None and len(names) != len(ends) - 1:
        raise InputError(
            "names", f"needs one name for each of the {len(ends) - 1} intervals", len(names)
        )
    given = rows_of(y_true, y_proba, **options)
    judged = Judged.of(
        given, (Binary() if given.n_classes == 2 else TopLabel()) if lens is None else lens
    )
    predictions, chosen = judged.predictions, judged.lens
    partition = judged.partition(EqualWidth(15) if partition is None else partition)
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
        parts = (*around(error), test.null_mean, test.null_high, *around(beyond))
        labels.append(f"{start:.2g} to {stop:.2g}" if names is None else f"{names[number]}")
        found.append((start, stop, inside.sum(), share.sum(), *means, *parts))
    columns = dict(zip(NUMBERS, np.array(found).T, strict=True))
    columns["rows"] = columns["rows"].astype(np.int64)
    said = in_words(f"{chosen}, {partition!r}, {as_distance(distance)!r}", pairs=given.pairs)
    return IntervalWise(np.array(labels), **columns, definition=said)
