"""Count all rows, in two passes, in the regions learned from a sample.

Trees, clusters and bins are those of the sample. The first pass counts all rows at the points of
the calibration curve. Otherwise the noise in the sample's curve would look like grouping loss,
however many rows there are. The second pass assigns the rows outside the sample to folds by their
numbers, places them in regions, and adds them to the counts of the sample. All sums are integers,
so that results are identical on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.views import views_of_block
from ..choices.lenses import Lens, View
from ..choices.partitions import Cuts, Partition
from ..data.populations import Ranges
from ..data.predictions import Predictions
from ..engines.totals import from_ticks, in_ticks
from ..states import Plan
from ..states.evidence import Others
from ..states.sampling import priority, within
from .assignment import Assignment, Levels
from .calibration_curve import CurvePoints
from .event_loss import BinSums, Measured, bounds_of, local_curve
from .features import Features, features_of
from .lower_bound import RegionCounts, explained_loss, induced_losses
from .regions import Division, GivenRegions, given_regions

FOLD_BIT = np.uint64(31)  # the bit of a row's priority that decides its fold

Place = Callable[[Features, np.ndarray], np.ndarray]
# the regions of some rows, numbered within their bin; -1 for none
Own = Callable[[Place | None, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Placing:
    """Places the rows of an event in bins and regions, by the division of each bin in each fold.

    places : for each bin of each fold, a function that gives the regions of rows; None for known
        groups.
    starts : the number of the first region of each bin of each fold, among all `size`.
    curve : see `Measured`.
    """

    bins: Partition
    bin_count: int
    places: tuple[Place | None, ...]
    starts: np.ndarray
    size: int
    curve: tuple[np.ndarray, np.ndarray]

    def sums(self, view: View, fold: np.ndarray, weights: np.ndarray, own_of: Own) -> np.ndarray:
        """The rows of each region, and sums of weights, hits, squared weights, outputs and the
        curve, in ticks. The last entry is for rows without a region."""
        level = fold * self.bin_count + self.bins.cells(view.outputs)
        region = np.full(len(level), self.size)
        # 16-bit numbers use a radix sort
        few = len(self.places) <= np.iinfo(np.int16).max
        order = np.argsort(level.astype(np.int16) if few else level, kind="stable")
        for rows in (
            np.split(order, np.flatnonzero(np.diff(level[order])) + 1) if len(order) else ()
        ):
            here = level[rows[0]]
            own = own_of(self.places[here], rows)
            region[rows] = np.where(own >= 0, self.starts[here] + own, self.size)
        o, h = view.outputs.astype(np.float64), view.labels
        parts = (weights, weights * h, weights**2, weights * o, weights * np.interp(o, *self.curve))
        rows_of = np.bincount(region, minlength=self.size + 1)
        return np.column_stack(
            [rows_of, *(in_ticks(region, part, self.size + 1) for part in parts)]
        )


@dataclass(frozen=True, eq=False)
class PointCounting:
    """The job for a block: for each event, the sums of weights, squared weights, outputs and hits
    at the points of a curve."""

    plan: Plan
    lens: Lens
    cuts: tuple[Cuts, ...]

    def __call__(self, start: int, rows: Predictions) -> list[np.ndarray]:
        _, views, weights = views_of_block(self.plan, self.lens, start, rows)
        if not views:
            return [np.zeros((cuts.count, 8), np.int64) for cuts in self.cuts]
        found = []
        for view, cuts in zip(views, self.cuts, strict=True):
            o, place = view.outputs.astype(np.float64), cuts.cells(view.outputs)
            parts = (weights, weights**2, weights * o, weights * view.labels)
            found.append(np.column_stack([in_ticks(place, part, cuts.count) for part in parts]))
        return found


def _cuts(one: Measured) -> Cuts:
    """Cuts between the points of the sample's curve. Outputs of 0 and 1 stay separate points."""
    least = np.full(len(one.points.outputs), np.inf)
    np.minimum.at(least, one.points.of_row, one.outputs[one.judged])
    if one.points.outputs[0] <= 0 and len(least) > 1:
        least[1] = np.nextafter(0, 1)
    return Cuts(least[1:])


def _points_of_all_rows(points: CurvePoints, sums: np.ndarray) -> CurvePoints:
    """The points of a curve, from all rows."""
    # weights are positive: each point has a row of the sample
    weight, squared, predicted, hits = np.maximum(from_ticks(sums), np.finfo(float).tiny).T
    sure = (points.outputs <= 0) | (points.outputs >= 1)
    mean = np.clip(predicted / weight, np.finfo(float).tiny, np.nextafter(1, 0))
    return replace(
        points,
        outputs=np.where(sure, points.outputs, mean),
        rates=np.clip(hits / weight, 0, 1),
        weight=weight,
        effective=np.maximum(weight**2 / squared, 1.0),
    )


def _with_all_rows(one: Measured, sums: np.ndarray) -> Measured:
    """The curve of all rows, and the losses of the bins that follow from it."""
    points = _points_of_all_rows(one.points, sums)
    curve, x, averages, noise = local_curve(points, one.plan)
    grouping, added = induced_losses(curve, x, averages, one.plan.rule)
    bounds = bounds_of(
        curve,
        x,
        averages,
        one.calibration[0] - one.calibration[1] + float(one.explained.debiased),
        one.plan,
    )
    calibration = (*one.calibration[:2], float(added) + noise)
    return replace(
        one,
        points=points,
        curve=(x, curve),
        induced=float(grouping) - noise,
        calibration=calibration,
        bounds=bounds,
    )


@dataclass(frozen=True, eq=False)
class RegionCounting:
    """The job for a block: the sums of each event over the rows that are not in the sample.

    bound : of the priorities of rows in the sample. form : of the features.
    columns, numbers : the columns whose values are the groups, and the numbers of the groups in the
        sample; empty for learned regions.
    """

    plan: Plan
    bound: np.uint64
    lens: Lens
    folds: int
    placings: tuple[Placing, ...]
    form: Features
    columns: tuple[str, ...]
    numbers: Mapping[tuple[Any, ...], int]
    ranges: Mapping[str, Ranges]

    def __call__(self, start: int, rows: Predictions) -> list[np.ndarray]:
        good, views, weights = views_of_block(self.plan, self.lens, start, rows)
        outside = np.ones(len(rows), bool)
        outside[within(start, len(rows), self.bound)] = False
        kept = np.flatnonzero(outside[good])
        if not len(kept):
            return [np.zeros((placing.size + 1, 11), np.int64) for placing in self.placings]
        places = good[kept]
        fold = ((priority(start + places) >> FOLD_BIT) % np.uint64(self.folds)).astype(np.int64)
        own_of = self._own_of(rows, places)
        kept_views = (View(view.outputs[kept], view.labels[kept]) for view in views)
        return [
            placing.sums(view, fold, weights[kept], own_of)
            for placing, view in zip(self.placings, kept_views, strict=True)
        ]

    def _own_of(self, rows: Predictions, places: np.ndarray) -> Own:
        """A function that gives the regions of some of these rows, within their bin."""
        if self.columns:
            given = given_regions(self.columns, rows, ranges=self.ranges)
            number = np.array([self.numbers.get(key, -1) for key in given.numbers], np.int64)[
                given.groups[places]
            ]
            return lambda place, some: number[some]
        features = self.form.read(features_of(rows), len(rows))
        return lambda place, some: (
            np.asarray(place(features, places[some]))
            if place is not None
            else np.zeros(len(some), int)
        )


def count_all_rows(
    measured: Sequence[Measured], others: Others, lens: Lens, columns: tuple[str, ...], scale: float
) -> tuple[list[Measured], int] | None:
    """The measured events with all rows in the counts of the sample's regions, and the number of
    rows left out because the sample has no row of their group; None if other rows cannot be placed.

    columns : the names of the columns whose values are the groups; empty for learned regions.
    scale : the factor from the sample's weights to the plan's.
    """
    plan = measured[0].plan
    choice = measured[0].event.regions(plan.regions)
    given = isinstance(choice, GivenRegions)
    divisions = [division for one in measured for _, _, division in one.assignment.divisions]
    if plan.recalibrate or plan.neighbours or not isinstance(plan.split, str):
        return None
    if not columns if given else any(division.place is None for division in divisions):
        return None
    sums = others.total(PointCounting(others.plan, lens, tuple(_cuts(one) for one in measured)))
    measured = [_with_all_rows(one, part) for one, part in zip(measured, sums, strict=True)]
    laid_out = [_laid_out(one, choice) for one in measured]
    job = RegionCounting(
        plan=others.plan,
        bound=others.bound,
        lens=lens,
        folds=1 + max(fold for fold, _, _ in laid_out[0][0]),
        placings=tuple(placing for _, placing in laid_out),
        form=measured[0].plan.features.form,
        columns=columns,
        numbers=choice.numbers if isinstance(choice, GivenRegions) else {},
        ranges=choice.ranges if isinstance(choice, GivenRegions) else {},
    )
    totals = others.total(job)
    parts = zip(measured, laid_out, totals, strict=True)
    counted = [
        _with_counts(one, levels, placing, total, scale) for one, (levels, placing), total in parts
    ]
    return counted, int(totals[0][-1, 0])


def _laid_out(one: Measured, choice: object) -> tuple[Levels, Placing]:
    """All bins of all folds, and the numbers of all possible regions. A bin without rows of the
    sample is one region."""
    bins = one.plan.bins.placed(one.event.outputs)
    known = {(fold, cell): division for fold, cell, division in one.assignment.divisions}
    empty = next(iter(known.values())) if isinstance(choice, GivenRegions) else Division.unsplit(0)
    folds = 1 + max(fold for fold, _ in known)
    levels = [
        (fold, cell, known.get((fold, cell), empty))
        for fold in range(folds)
        for cell in range(bins.count)
    ]
    ends = np.cumsum([division.size for _, _, division in levels])
    places = tuple(division.place for _, _, division in levels)
    return levels, Placing(bins, bins.count, places, np.r_[0, ends[:-1]], int(ends[-1]), one.curve)


def _with_counts(
    one: Measured, levels: Levels, placing: Placing, total: np.ndarray, scale: float
) -> Measured:
    """The counts of the sample and of all other rows, for regions with rows."""
    old, counts = one.assignment, one.counts
    fold, cell = np.array([(fold, cell) for fold, cell, _ in old.divisions]).T
    index = placing.starts[(fold * placing.bin_count + cell)[old.level]] + old.own
    sums = np.column_stack([total[:-1, 0], from_ticks(total[:-1, 1:])])
    w, o = one.event.weights, one.outputs
    rated = old.region >= 0
    curve = np.bincount(old.region[rated], (w * np.interp(o, *one.curve))[rated], len(index))
    known = (one.rows, counts.weight, counts.hits, counts.squared * scale, one.predicted, curve)
    sums[index] += np.column_stack([known[0], *(part * scale for part in known[1:])])
    kept = np.flatnonzero(sums[:, 1])
    rows, weight, hits, squared, predicted, curve = sums[kept].T
    level = np.searchsorted(placing.starts, kept, side="right") - 1
    own = kept - placing.starts[level]
    place = np.zeros(placing.size, np.int64)
    place[kept] = np.arange(len(kept))
    region = np.where(old.region >= 0, place[index[old.region]], -1)
    choice = one.event.regions(one.plan.regions)
    used, level = np.unique(level, return_inverse=True)
    divided = Assignment.of(region, level.reshape(-1), own, [levels[i] for i in used], choice)
    found = RegionCounts(divided.level, weight, np.minimum(hits, weight), squared, curve / weight)
    bins = BinSums.of(divided.bin, rows, weight, squared, predicted, hits)
    return replace(
        one,
        assignment=divided,
        counts=found,
        rows=rows.astype(np.int64),
        predicted=predicted,
        bin_sums=bins,
        explained=explained_loss(found, one.plan.rule),
        calibration=(*bins.calibration(one.plan.rule), one.calibration[2]),
    )
