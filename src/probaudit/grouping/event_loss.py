"""The grouping loss of one event, or of all classes jointly: bins, regions, calibration curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.resampling import sampling_units
from ..calibration.views import LensRows
from ..choices.partitions import Column, EqualWidth, Partition
from ..errors import InputError
from .assignment import Assignment, assign_rows, halves
from .calibration_curve import BoxCurve, BoxPoints, CurvePoints, nearest_neighbours
from .features import Features
from .lower_bound import (
    BRIER,
    ONE_ROW,
    Averages,
    Bounds,
    ClusterMoments,
    Explained,
    Generator,
    RegionCounts,
    binned_calibration_loss,
    curve_noise,
    explained_loss,
    induced_bounds,
    induced_losses,
)
from .regions import GivenRegions, Level, Regions

PARTS = ("lower_bound", "explained", "plugin", "bias", "induced", "calibration_loss")


def mask_index(mask: np.ndarray) -> Any:
    """A mask as an index; a slice if it selects all rows, which avoids a copy."""
    return slice(None) if mask.all() else mask


@dataclass(frozen=True, eq=False)
class GroupingPlan:
    """How the grouping loss is estimated.

    neighbours : whether the calibration curve is that of nearest neighbours, not local regression.
    whole : whether to subtract all that binning induces, explained by the regions or not.
    """

    rule: Generator
    bins: Partition
    regions: Regions | Partition
    features: Features
    split: np.ndarray | str
    neighbours: bool
    whole: bool
    seed: int
    recalibrate: bool = False


@dataclass(frozen=True, eq=False)
class Event:
    """One event on the rows of positive weight.

    hits : 0 or 1. places : the position of each row among all `total` rows.
    clusters : the cluster of each row, if rows are dependent.
    """

    outputs: np.ndarray
    hits: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, shown: LensRows, clusters: np.ndarray | None = None) -> list[Event]:
        """The event of a view; for several classes, one event each. clusters : of all rows."""
        chosen = mask_index(shown.weights > 0)
        outputs, labels = shown.view.outputs[chosen], shown.view.labels[chosen]
        places = shown.rows[chosen]
        rows: dict[str, Any] = {
            "weights": shown.weights[chosen],
            "places": places.astype(np.int64, copy=False),
            "total": shown.total,
            "clusters": None if clusters is None else clusters[places],
        }
        if outputs.ndim == 1:
            return [cls(outputs, labels.astype(np.float64), **rows)]
        return [
            cls(np.ascontiguousarray(outputs[:, k]), (labels == k).astype(np.float64), **rows)
            for k in range(outputs.shape[1])
        ]

    def everywhere(self, values: np.ndarray) -> np.ndarray:
        """Values of these rows as an array over all rows; 0 elsewhere."""
        if len(values) == self.total:
            return values
        everywhere = np.zeros(self.total, values.dtype)
        everywhere[self.places] = values
        return everywhere

    def isotonic(self, train: np.ndarray) -> np.ndarray:
        """All outputs recalibrated by isotonic regression on the training rows."""
        from ..kernels.isotonic import pool_adjacent_violators, read_curve

        order = np.flatnonzero(train)[np.argsort(self.outputs[train], kind="stable")]
        outputs, hits, weights = (part[order] for part in (self.outputs, self.hits, self.weights))
        return np.asarray(
            read_curve(pool_adjacent_violators(outputs, hits * weights, weights), self.outputs)
        )

    def regions(self, choice: Regions | Partition) -> Regions:
        """The choice of regions; a partition becomes known groups."""
        if isinstance(choice, Regions):
            return choice
        cells = choice.select(self.places, self.total).cells(self.outputs)
        if not isinstance(choice, Column):
            return GivenRegions(
                self.everywhere(cells), [f"cell {k}" for k in range(int(cells.max()) + 1)]
            )
        return GivenRegions.of_columns({"group": choice.values})


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over the rows of each bin that has any.

    number, rows : of each bin. weight, squared : sums of weights and of squared weights.
    predicted, hits : weighted sums of outputs and of hits.
    moments : of clusters, if rows are dependent.
    """

    number: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    squared: np.ndarray
    predicted: np.ndarray
    hits: np.ndarray
    moments: ClusterMoments | None = None

    @classmethod
    def of(cls, bins: np.ndarray, *sums: np.ndarray) -> BinSums:
        """From the bins of rows or regions, and their contributions to the sums, in order."""
        number, place = np.unique(bins, return_inverse=True)
        rows, weight, squared, predicted, hits = (
            np.bincount(place.reshape(-1), part) for part in sums
        )
        return cls(number, rows, weight, squared, predicted, hits)

    @classmethod
    def of_rows(
        cls,
        bins: np.ndarray,
        outputs: np.ndarray,
        hits: np.ndarray,
        weights: np.ndarray,
        clusters: np.ndarray | None,
    ) -> BinSums:
        """From the bin, output, hit, weight and cluster of each row."""
        w = weights
        sums = cls.of(bins, np.ones(len(bins)), w, w * w, w * outputs, w * hits)
        if clusters is None:
            return sums
        place, count = np.searchsorted(sums.number, bins), len(sums.number)
        return replace(sums, moments=ClusterMoments.of(place, clusters, w, hits, count))

    def calibration(self, rule: Generator) -> tuple[float, float]:
        """The calibration loss of the bins, and its bias."""
        size, share = self.weight**2 / self.squared, self.weight / self.weight.sum()
        rate = self.hits / self.weight
        if self.moments is not None:
            size = self.moments.size(rate, self.weight, size)
        binned, bias = binned_calibration_loss(
            rate, self.predicted / self.weight, size, share, rule
        )
        return float(binned), float(bias)


@dataclass(frozen=True, eq=False)
class Measured:
    """An event in bins and regions, its calibration curve, and the losses.

    outputs : original or recalibrated outputs.
    judged : the rows of the curve and of the calibration loss.
    rows, predicted : the rows of each region, and the weighted sum of their outputs.
    curve : the rising abscissas and the values of the calibration curve.
    induced : what binning adds to the grouping loss in whole bins.
    calibration : the calibration loss of the bins, its bias, and what binning adds to it.
    """

    event: Event
    outputs: np.ndarray
    bins: np.ndarray
    judged: np.ndarray
    assignment: Assignment
    counts: RegionCounts
    rows: np.ndarray
    predicted: np.ndarray
    bin_sums: BinSums
    explained: Explained
    points: CurvePoints
    curve: tuple[np.ndarray, np.ndarray]
    induced: float
    calibration: tuple[float, float, float]
    bounds: Bounds | None
    plan: GroupingPlan

    @property
    def searched(self) -> float:
        """The share of the evaluation rows in level sets that were searched for regions."""
        weight = np.bincount(self.assignment.level, self.counts.weight)
        searched = np.array([division.searched for _, _, division in self.assignment.divisions])
        return float(weight[searched].sum() / weight.sum())

    @property
    def level_rate(self) -> np.ndarray:
        """The observed rate of each level set."""
        level, counts = self.assignment.level, self.counts
        return np.bincount(level, counts.hits) / np.bincount(level, counts.weight)

    @property
    def values(self) -> np.ndarray:
        """In the order of PARTS."""
        induced = self.induced if self.plan.whole else self.explained.induced
        return parts_of_loss(self.explained, induced, *self.calibration)


def parts_of_loss(
    explained: Explained, induced: Any, binned: Any, bias: Any, added: Any
) -> np.ndarray:
    """The parts of the loss in the order of PARTS, from the parts of the calibration loss too."""
    with np.errstate(invalid="ignore"):
        calibration = np.asarray(binned - bias - added)
    # infinity minus infinity: wrong outputs of 0 or 1, by the log loss
    calibration = np.where(np.isnan(calibration), np.inf, calibration)
    debiased = explained.debiased
    parts = (debiased - induced, debiased, explained.plugin, explained.bias, induced, calibration)
    return np.stack(np.broadcast_arrays(*parts))


def measure(event: Event, plan: GroupingPlan) -> Measured:
    """Split the rows of each bin into regions, fold by fold, and estimate the losses."""
    bins, regions = plan.bins.cells(event.outputs), event.regions(plan.regions)
    tests = _test_rows(event, bins, plan)
    outputs, folds, judged = event.outputs, [bins] * len(tests), np.ones(len(bins), bool)
    if plan.recalibrate:
        if not all((~test).any() for test in tests):
            raise InputError("recalibrate", "requires two rows or more")
        curves = [event.isotonic(~test) for test in tests]
        folds = [plan.bins.cells(curve) for curve in curves]
        outputs, bins = np.select(tests, curves), np.select(tests, folds)
        judged = np.any(tests, axis=0)
    elif isinstance(regions, GivenRegions):  # nothing is learned: all rows are test rows
        tests, folds = [judged], [bins]
    kept = mask_index(judged)
    o, h, w, b = (part[kept] for part in (outputs, event.hits, event.weights, bins))
    c = None if event.clusters is None else event.clusters[kept]
    points = CurvePoints.of(o, h, w, b)
    if plan.neighbours:
        curve, x, averages, noise = _neighbour_curve(o, h, w, b, plan)
    else:
        curve, x, averages, noise = local_curve(points, plan, None if c is None else (h, w, c))
    assignment = assign_rows(
        regions, plan.features, folds, tests, _all_rows([event], plan, joint=False)
    )
    rising = np.argsort(x, kind="stable")
    line = x[rising], curve[rising]
    counted = _counts(event, assignment, outputs, np.interp(outputs, *line))
    explained = explained_loss(counted["counts"], plan.rule)
    grouping, added = induced_losses(curve, x, averages, plan.rule)
    sums = BinSums.of_rows(b, o, h, w, c)
    binned, bias = sums.calibration(plan.rule)
    return Measured(
        **counted,
        outputs=outputs,
        bins=bins,
        judged=judged,
        bin_sums=sums,
        explained=explained,
        points=points,
        curve=line,
        induced=float(grouping) - noise,
        calibration=(binned, bias, float(added) + noise),
        bounds=bounds_of(curve, x, averages, binned - bias + float(explained.debiased), plan),
        plan=plan,
    )


def measure_joint(events: Sequence[Event], plan: GroupingPlan) -> list[Measured]:
    """The classes of one forecast, with shared level sets and regions (Perez-Lebel et al. 2023,
    Definition 3.1): boxes of the outputs, split into regions by all classes at once. The loss is
    the sum over classes."""
    first = events[0]
    outputs, hits = (
        np.column_stack([getattr(event, name) for event in events]) for name in ("outputs", "hits")
    )
    w, bins, regions = first.weights, plan.bins.cells(outputs), first.regions(plan.regions)
    tests = (
        [np.ones(len(bins), bool)]
        if isinstance(regions, GivenRegions)
        else _test_rows(first, bins, plan)
    )
    folds = [bins] * len(tests)
    assignment = assign_rows(
        regions, plan.features, folds, tests, _all_rows(events, plan, joint=True)
    )
    curve = BoxCurve.of(outputs, hits, w, bins, first.clusters)
    bin_noise = curve.noise(np.arange(len(bins)), bins, w, scaled=True)
    # Regions were learned from the labels of the other fold. A curve fitted to these labels would
    # deviate where regions do.
    level = np.where(assignment.region >= 0, assignment.level[assignment.region], -1)
    fold_curve = BoxCurve.of(outputs, hits, w, level, first.clusters)
    # biased downwards, and so is the lower bound
    region_noise = fold_curve.noise(assignment.region, level, w)
    averages = Averages(bins, w)
    measured = []
    for k, event in enumerate(events):
        counted = _counts(event, assignment, event.outputs, fold_curve.fitted[:, k])
        explained = explained_loss(counted["counts"], plan.rule)
        fitted = np.ascontiguousarray(curve.fitted[:, k])
        grouping, added = induced_losses(fitted, event.outputs, averages, plan.rule)
        sums = BinSums.of_rows(bins, event.outputs, event.hits, w, event.clusters)
        points = _box_points(sums, bins)
        one = Measured(
            **counted,
            outputs=event.outputs,
            bins=bins,
            judged=np.ones(len(bins), bool),
            bin_sums=sums,
            explained=replace(explained, induced=explained.induced - region_noise[k]),
            points=points,
            curve=(points.outputs, points.rates),
            induced=float(grouping - bin_noise[k]),
            calibration=(*sums.calibration(plan.rule), float(added + bin_noise[k])),
            bounds=None,
            plan=plan,
        )
        measured.append(one)
    return measured


def _all_rows(events: Sequence[Event], plan: GroupingPlan, *, joint: bool) -> Level:
    """All rows as one level set, with the positions of the events' rows as training rows.

    joint : whether the events are the classes of one forecast.
    """
    first = events[0]
    hits = [event.everywhere(event.weights * event.hits) for event in events]
    return Level(
        train=first.places,
        test=first.places[:0],
        weights=first.everywhere(first.weights),
        hits=np.column_stack(hits) if joint else hits[0],
        by_log=plan.rule.name == "log",
        seed=plan.seed,
    )


def _box_points(sums: BinSums, bins: np.ndarray) -> BoxPoints:
    """Each box as a point of the curve."""
    return BoxPoints(
        outputs=sums.predicted / sums.weight,
        rates=sums.hits / sums.weight,
        weight=sums.weight,
        effective=sums.weight**2 / sums.squared,
        level=sums.number,
        of_row=np.searchsorted(sums.number, bins),
    )


def _test_rows(event: Event, bins: np.ndarray, plan: GroupingPlan) -> list[np.ndarray]:
    """The test rows of each fold, as masks."""
    split = plan.split
    if isinstance(split, str):
        second = halves(bins, plan.seed, event.clusters)
        return [second == 0, second == 1] if split == "cross-fit" else [second == 0]
    test = split[event.places]
    if event.clusters is not None:
        tested, learned = np.bincount(event.clusters, test), np.bincount(event.clusters, ~test)
        if broken := int(((tested > 0) & (learned > 0)).sum()):
            raise InputError(
                "split",
                "must keep clusters whole: all rows of a cluster True, or all False",
                f"{broken} are split",
            )
    return [test]


def bounds_of(
    curve: np.ndarray, x: np.ndarray, averages: Averages, binned: float, plan: GroupingPlan
) -> Bounds | None:
    """The bounds of what binning induces, for the Brier score; see `Bounds`."""
    if plan.rule is not BRIER:
        return None
    width = 1 / plan.bins.bins if isinstance(plan.bins, EqualWidth) else np.nan
    return induced_bounds(curve, x, averages, binned, width)


def _counts(
    event: Event, assignment: Assignment, outputs: np.ndarray, curve: np.ndarray
) -> dict[str, Any]:
    """The fields of `Measured` that count the rows of each region."""
    rated = mask_index(assignment.region >= 0)
    parts = (assignment.region, event.weights, event.hits, outputs)
    region, w, h, o = (part[rated] for part in parts)
    weight, hits, squared, sums, predicted = (
        np.bincount(region, part) for part in (w, w * h, w * w, w * curve[rated], w * o)
    )
    moments = None
    if event.clusters is not None:
        c = event.clusters[rated]
        of_regions = ClusterMoments.of(region, c, w, h, len(weight))
        thin = of_regions.clusters(weight) <= ONE_ROW
        level = np.where(thin, -1, assignment.level)[region]
        moments = of_regions, ClusterMoments.of(level, c, w, h, int(assignment.level[-1]) + 1)
    return {
        "event": event,
        "assignment": assignment,
        "counts": RegionCounts(assignment.level, weight, hits, squared, sums / weight, moments),
        "rows": np.bincount(region),
        "predicted": predicted,
    }


# values and abscissas of a calibration curve, means over bins, and the noise
Curve = tuple[np.ndarray, np.ndarray, Averages, float]


def local_curve(
    points: CurvePoints,
    plan: GroupingPlan,
    dependent: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> Curve:
    """The calibration curve by local regression.

    dependent : the hits, weights and clusters of rows, if rows are dependent.
    """
    curve = points.curve(points.rates, plan.rule.name == "log")
    residuals = None
    if dependent is not None:
        residuals = _residuals(points, curve, *dependent, seed=plan.seed)
    noise = curve_noise(curve, points, plan.rule, residuals)
    return curve, points.outputs, Averages(points.level, points.weight), noise


def _residuals(
    points: CurvePoints,
    curve: np.ndarray,
    hits: np.ndarray,
    weights: np.ndarray,
    clusters: np.ndarray,
    *,
    seed: int,
) -> np.ndarray:
    """The residual of each unit of rows from the curve at each point, [points, units]."""
    unit = sampling_units(len(hits), seed, clusters)
    units, place = int(unit.max()) + 1, points.of_row
    moved = weights * (hits - curve[place]) / points.weight[place]
    sums = np.bincount(place * units + unit, moved, len(curve) * units).reshape(len(curve), units)
    return np.asarray(sums * np.sqrt(units / max(1, units - 1)))


def _neighbour_curve(
    o: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray, plan: GroupingPlan
) -> Curve:
    curve = nearest_neighbours(o, h, w)
    for end in (o <= 0, o >= 1) if plan.rule.name == "log" else ():
        curve[end] = np.average(h[end], weights=w[end]) if end.any() else 0.0
    return curve, o, Averages(b, w), 0.0
