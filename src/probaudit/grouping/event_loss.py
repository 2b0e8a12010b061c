"""The grouping loss of one event, or of all classes jointly: bins, regions, calibration curve, and
the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.resampling import draw_units, sampling_units
from ..calibration.views import LensRows
from ..choices.partitions import Column, EqualWidth, Partition
from ..errors import InputError
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
from .regions import GivenRegions, Level, Parting, Regions, halves, part_rows

BATCH = 2**18  # values of resamples in memory at a time
PARTS = ("lower_bound", "explained", "plugin", "bias", "induced", "calibration_loss")


def mask_index(mask: np.ndarray) -> Any:
    """A mask as an index; a slice if it selects all rows, which avoids a copy."""
    return slice(None) if mask.all() else mask


@dataclass(frozen=True, eq=False)
class GroupingPlan:
    """How the grouping loss is estimated: the score, the bins, the regions and the split of
    rows."""

    rule: Generator
    bins: Partition
    regions: Regions | Partition
    features: Features
    split: np.ndarray | str
    neighbours: bool
    whole: bool  # subtract all that binning induces, whether the regions explain it or not
    seed: int
    recalibrate: bool = False


@dataclass(frozen=True, eq=False)
class Event:
    """Rows of positive weight: outputs, hits (0 or 1), weights, places among all `total` rows, and
    the cluster of each row, if rows are dependent."""

    outputs: np.ndarray
    hits: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, seen: LensRows, clusters: np.ndarray | None = None) -> list[Event]:
        """The event of a view; for several classes, one event each. clusters : of all rows."""
        chosen = mask_index(seen.weights > 0)
        outputs, labels, places = (
            seen.view.outputs[chosen],
            seen.view.labels[chosen],
            seen.rows[chosen],
        )
        rows = (
            places.astype(np.int64, copy=False),
            seen.total,
            None if clusters is None else clusters[places],
        )
        if outputs.ndim == 1:
            return [cls(outputs, labels.astype(np.float64), seen.weights[chosen], *rows)]
        return [
            cls(
                np.ascontiguousarray(outputs[:, k]),
                (labels == k).astype(np.float64),
                seen.weights[chosen],
                *rows,
            )
            for k in range(outputs.shape[1])
        ]

    def everywhere(self, values: np.ndarray) -> np.ndarray:
        """Values of these rows as an array over all rows; 0 elsewhere."""
        if len(values) == self.total:
            return values
        found = np.zeros(self.total, values.dtype)
        found[self.places] = values
        return found

    def isotonic(self, train: np.ndarray) -> np.ndarray:
        """All outputs recalibrated by isotonic regression on the training rows."""
        from ..kernels.isotonic import pool_adjacent_violators, read_curve

        order = np.flatnonzero(train)[np.argsort(self.outputs[train], kind="stable")]
        outputs, hits, weights = (part[order] for part in (self.outputs, self.hits, self.weights))
        return np.asarray(
            read_curve(pool_adjacent_violators(outputs, hits * weights, weights), self.outputs)
        )

    def regions(self, choice: Regions | Partition) -> Regions:
        """A partition as known groups."""
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
    """Of each bin with rows: its number, its rows, the sums of weights, squared weights, outputs
    and hits; and the moments of clusters, if rows are dependent."""

    number: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    squared: np.ndarray
    stated: np.ndarray
    hits: np.ndarray
    moments: ClusterMoments | None = None

    @classmethod
    def of(cls, bins: np.ndarray, *sums: np.ndarray) -> BinSums:
        """From the bins of rows or regions, and their contributions to the sums, in order."""
        number, place = np.unique(bins, return_inverse=True)
        rows, weight, squared, stated, hits = (
            np.bincount(place.reshape(-1), part) for part in sums
        )
        return cls(number, rows, weight, squared, stated, hits)

    def calibration(self, rule: Generator) -> tuple[float, float]:
        """The calibration loss of the bins, and its bias."""
        size, share = self.weight**2 / self.squared, self.weight / self.weight.sum()
        rate = self.hits / self.weight
        if self.moments is not None:
            size = self.moments.size(rate, self.weight, size)
        binned, bias = binned_calibration_loss(rate, self.stated / self.weight, size, share, rule)
        return float(binned), float(bias)


@dataclass(frozen=True, eq=False)
class Measured:
    """An event in bins and regions, its calibration curve, and the losses.

    outputs : original or recalibrated. judged : the rows of the curve and of the calibration loss.
    rows, stated : of each region, its rows and the weighted sum of their outputs.
    curve : its abscissas, rising, and its values. induced : what binning adds to the grouping loss
        in the whole bins.
    calibration : the calibration loss of the bins, its bias, and what binning adds to it.
    """

    event: Event
    outputs: np.ndarray
    bins: np.ndarray
    judged: np.ndarray
    parting: Parting
    counts: RegionCounts
    rows: np.ndarray
    stated: np.ndarray
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
        weight = np.bincount(self.parting.level, self.counts.weight)
        searched = np.array([division.searched for _, _, division in self.parting.divisions])
        return float(weight[searched].sum() / weight.sum())

    @property
    def values(self) -> np.ndarray:
        """In the order of PARTS."""
        induced = self.induced if self.plan.whole else self.explained.induced
        return _parts_of_loss(self.explained, induced, *self.calibration)


def _parts_of_loss(
    explained: Explained, induced: Any, binned: Any, bias: Any, added: Any
) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        calibration = np.asarray(binned - bias - added)
    # outputs of 0 or 1 that were wrong, in the log score
    calibration = np.where(np.isnan(calibration), np.inf, calibration)
    debiased = explained.debiased
    parts = (debiased - induced, debiased, explained.plugin, explained.bias, induced, calibration)
    return np.stack(np.broadcast_arrays(*parts))


def measure(event: Event, plan: GroupingPlan) -> Measured:
    """Split the rows of each bin into regions, fold by fold, and estimate the losses."""
    bins, regions = plan.bins.cells(event.outputs), event.regions(plan.regions)
    tests = _rating_rows(event, bins, plan)
    outputs, folds, judged = event.outputs, [bins] * len(tests), np.ones(len(bins), bool)
    if plan.recalibrate:
        if not all((~test).any() for test in tests):
            raise InputError("recalibrate", "needs two rows or more")
        curves = [event.isotonic(~test) for test in tests]
        folds = [plan.bins.cells(curve) for curve in curves]
        outputs, bins, judged = (
            np.select(tests, curves),
            np.select(tests, folds),
            np.any(tests, axis=0),
        )
    elif isinstance(regions, GivenRegions):  # nothing is learned: all rows are for evaluation
        tests, folds = [judged], [bins]
    kept = mask_index(judged)
    o, h, w, b = (part[kept] for part in (outputs, event.hits, event.weights, bins))
    points = CurvePoints.of(o, h, w, b)
    c = None if event.clusters is None else event.clusters[kept]
    if plan.neighbours:
        curve, x, averages, noise = _neighbour_curve(o, h, w, b, plan)
    else:
        curve, x, averages, noise = local_curve(points, plan, None if c is None else (h, w, c))
    weights, hits = event.everywhere(event.weights), event.everywhere(event.weights * event.hits)
    known = Level(event.places, event.places[:0], weights, hits, plan.rule.name == "log", plan.seed)
    parting = part_rows(regions, plan.features, folds, tests, known)
    rising = np.argsort(x, kind="stable")
    line = x[rising], curve[rising]
    counts, rows, stated = _counts(event, parting, outputs, np.interp(outputs, *line))
    explained = explained_loss(counts, plan.rule)
    grouping, added = induced_losses(curve, x, averages, plan.rule)
    sums = _bin_sums(o, h, w, b, c)
    binned, bias = sums.calibration(plan.rule)
    bounds = bounds_of(curve, x, averages, binned - bias + float(explained.debiased), plan)
    return Measured(
        event=event,
        outputs=outputs,
        bins=bins,
        judged=judged,
        parting=parting,
        counts=counts,
        rows=rows,
        stated=stated,
        bin_sums=sums,
        explained=explained,
        points=points,
        curve=line,
        induced=float(grouping) - noise,
        calibration=(binned, bias, float(added) + noise),
        bounds=bounds,
        plan=plan,
    )


def measure_joint(events: Sequence[Event], plan: GroupingPlan) -> list[Measured]:
    """The classes of one forecast, with level sets and regions that they share (Perez-Lebel et al.
    2023, Definition 3.1): boxes of the outputs, split into regions by all classes at once. The loss
    is the sum over classes."""
    first, rule = events[0], plan.rule
    outputs, hits = (
        np.column_stack([getattr(event, name) for event in events]) for name in ("outputs", "hits")
    )
    w, bins, regions = first.weights, plan.bins.cells(outputs), first.regions(plan.regions)
    tests = (
        [np.ones(len(bins), bool)]
        if isinstance(regions, GivenRegions)
        else _rating_rows(first, bins, plan)
    )
    labels = np.column_stack([event.everywhere(w * event.hits) for event in events])
    known = Level(first.places, first.places[:0], first.everywhere(w), labels, False, plan.seed)
    parting = part_rows(regions, plan.features, [bins] * len(tests), tests, known)
    curve = BoxCurve.of(outputs, hits, w, bins, first.clusters)
    whole = curve.noise(np.arange(len(bins)), bins, w, scaled=True)
    # Regions were learned from the labels of the other fold. A curve fitted to these would deviate
    # where regions do.
    level = np.where(parting.region >= 0, parting.level[parting.region], -1)
    own_curve = BoxCurve.of(outputs, hits, w, level, first.clusters)
    seen = own_curve.noise(parting.region, level, w)  # biased downwards, and so is the bound
    averages, judged = Averages(bins, w), np.ones(len(bins), bool)
    found = []
    for k, event in enumerate(events):
        o, h, c = event.outputs, event.hits, np.ascontiguousarray(curve.fitted[:, k])
        counts, rows, stated = _counts(event, parting, o, own_curve.fitted[:, k])
        explained = explained_loss(counts, rule)
        sums = _bin_sums(o, h, w, bins, event.clusters)
        grouping, added = induced_losses(c, o, averages, rule)
        binned, bias = sums.calibration(rule)
        place, size = np.searchsorted(sums.number, bins), sums.weight**2 / sums.squared
        points = BoxPoints(
            sums.stated / sums.weight,
            sums.hits / sums.weight,
            sums.weight,
            size,
            sums.number,
            place,
        )
        one = Measured(
            event=event,
            outputs=o,
            bins=bins,
            judged=judged,
            parting=parting,
            counts=counts,
            rows=rows,
            stated=stated,
            bin_sums=sums,
            explained=replace(explained, induced=explained.induced - seen[k]),
            points=points,
            curve=(points.outputs, points.rates),
            induced=float(grouping - whole[k]),
            calibration=(binned, bias, float(added + whole[k])),
            bounds=None,
            plan=plan,
        )
        found.append(one)
    return found


def _rating_rows(event: Event, bins: np.ndarray, plan: GroupingPlan) -> list[np.ndarray]:
    """The rows for evaluation, for each fold."""
    split = plan.split
    if isinstance(split, str):
        second = halves(bins, plan.seed, event.clusters)
        return [second == 0, second == 1] if split == "cross-fit" else [second == 0]
    test = split[event.places]
    if event.clusters is not None:
        rates, learns = np.bincount(event.clusters, test), np.bincount(event.clusters, ~test)
        if ((rates > 0) & (learns > 0)).any():
            broken = int(((rates > 0) & (learns > 0)).sum())
            raise InputError(
                "split",
                "must keep clusters whole: all rows of a cluster True, or all False",
                f"{broken} are split",
            )
    return [test]


def _bin_sums(
    o: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray, clusters: np.ndarray | None
) -> BinSums:
    sums = BinSums.of(b, np.ones(len(b)), w, w * w, w * o, w * h)
    if clusters is None:
        return sums
    return replace(
        sums,
        moments=ClusterMoments.of(
            np.searchsorted(sums.number, b), clusters, w, h, len(sums.number)
        ),
    )


def bounds_of(
    curve: np.ndarray, x: np.ndarray, averages: Averages, binned: float, plan: GroupingPlan
) -> Bounds | None:
    """For the Brier score; see `Bounds`."""
    if plan.rule is not BRIER:
        return None
    width = 1 / plan.bins.bins if isinstance(plan.bins, EqualWidth) else np.nan
    return induced_bounds(curve, x, averages, binned, width)


def _counts(
    event: Event, parting: Parting, outputs: np.ndarray, curve: np.ndarray
) -> tuple[RegionCounts, np.ndarray, np.ndarray]:
    rated = mask_index(parting.region >= 0)
    region, w, h, o = (part[rated] for part in (parting.region, event.weights, event.hits, outputs))
    weight, hits, squared, sums, stated = (
        np.bincount(region, part) for part in (w, w * h, w * w, w * curve[rated], w * o)
    )
    moments = None
    if event.clusters is not None:
        c = event.clusters[rated]
        of_regions = ClusterMoments.of(region, c, w, h, len(weight))
        thin = of_regions.clusters(weight) <= ONE_ROW
        level = np.where(thin, -1, parting.level)[region]
        moments = of_regions, ClusterMoments.of(level, c, w, h, int(parting.level[-1]) + 1)
    return (
        RegionCounts(parting.level, weight, hits, squared, sums / weight, moments),
        np.bincount(region),
        stated,
    )


# its values, its abscissas, means over bins, and the noise
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
    residuals = None if dependent is None else _residuals(points, curve, *dependent, plan.seed)
    noise = curve_noise(curve, points, plan.rule, residuals)
    return curve, points.outputs, Averages(points.level, points.weight), noise


def _residuals(
    points: CurvePoints,
    curve: np.ndarray,
    hits: np.ndarray,
    weights: np.ndarray,
    clusters: np.ndarray,
    seed: int,
) -> np.ndarray:
    """The residual of each unit of rows from the curve at each point, [points, units]."""
    unit = sampling_units(len(hits), seed, clusters)
    units, place = int(unit.max()) + 1, points.of_row
    moved = weights * (hits - curve[place]) / points.weight[place]
    found = np.bincount(place * units + unit, moved, len(curve) * units).reshape(len(curve), units)
    return np.asarray(found * np.sqrt(units / max(1, units - 1)))


def _neighbour_curve(
    o: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray, plan: GroupingPlan
) -> Curve:
    curve = nearest_neighbours(o, h, w)
    for end in (o <= 0, o >= 1) if plan.rule.name == "log" else ():
        curve[end] = np.average(h[end], weights=w[end]) if end.any() else 0.0
    return curve, o, Averages(b, w), 0.0


def resampled_parts(
    measured: Sequence[Measured], units: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """PARTS summed over events, [resamples, parts], for resampled units of rows. Regions and the
    points of the curve stay fixed. `units` has the unit of every row."""
    size, rng = int(units.max()) + 1, np.random.default_rng(seed)
    redraws = [_Resampler(one, units, size) for one in measured]
    step = max(1, BATCH // max(size, *(len(one.parting.level) for one in measured)))
    found = []
    for first in range(0, resamples, step):
        counts = draw_units(size, min(step, resamples - first), rng).astype(np.float64)
        found.append(sum(redraw.parts(counts) for redraw in redraws))
    return np.concatenate(found, axis=1).T


class _Resampler:
    """Sums over regions and over points of the curve, for every unit of rows."""

    def __init__(self, measured: Measured, units: np.ndarray, size: int) -> None:
        self.measured, self.rule, self.points = measured, measured.plan.rule, measured.points
        # The bias varies much less between resamples than the plugin. Only the closed form for
        # independent rows is recomputed.
        known = measured.event.clusters is not None or self.rule.name != "brier"
        found = measured.explained.bias, np.asarray(measured.calibration[1])
        self.biases = found if known else (None, None)
        self.averages = Averages(self.points.level, self.points.weight)
        event, rated = measured.event, mask_index(measured.parting.region >= 0)
        unit = units[event.places]
        self.regions = _SumsByUnit(
            event, rated, unit, measured.parting.region[rated], size, len(measured.parting.level)
        )
        self.rows = _SumsByUnit(
            event,
            mask_index(measured.judged),
            unit,
            self.points.of_row,
            size,
            len(self.points.weight),
        )

    def parts(self, counts: np.ndarray) -> np.ndarray:
        points, averages = self.points, self.averages
        known = self.measured.counts
        kept = ~self.measured.explained.thin
        weight, hits, squared = (part * kept for part in self.regions.drawn(counts))
        redrawn = RegionCounts(known.level, weight, hits, squared, known.curve)
        explained = explained_loss(redrawn, self.rule, self.biases[0])
        weight, hits, squared = self.rows.drawn(counts)
        rates = np.where(weight > 0, hits / np.where(weight > 0, weight, 1.0), points.rates)
        curve = points.curve(np.clip(rates, 0, 1), self.rule.name == "log")
        induced, added = induced_losses(curve, points.outputs, averages, self.rule)
        total, happened, stated, squares = (
            averages.sums(part) for part in (weight, hits, weight * points.outputs, squared)
        )
        some = np.where(total > 0, total, 1.0)
        share, bin_size = (
            total / total.sum(axis=1, keepdims=True),
            total**2 / np.where(total > 0, squares, 1.0),
        )
        rate = np.clip(happened / some, 0, 1)
        claimed = np.where(total > 0, stated / some, rate)
        binned, bias = binned_calibration_loss(
            rate, claimed, bin_size, share, self.rule, self.biases[1]
        )
        return _parts_of_loss(
            explained,
            induced if self.measured.plan.whole else explained.induced,
            binned,
            bias,
            added,
        )


class _SumsByUnit:
    """Weights, weights of hits and squared weights of rows, summed by unit and cell."""

    def __init__(
        self, event: Event, kept: Any, unit: np.ndarray, cell: np.ndarray, units: int, cells: int
    ) -> None:
        from scipy.sparse import csr_array

        unit, w = unit[kept].astype(np.int32), event.weights
        cell = cell.astype(np.int32)

        def table(values: np.ndarray) -> Any:
            some = np.flatnonzero(values[kept])
            return csr_array((values[kept][some], (unit[some], cell[some])), shape=(units, cells))

        self.tables = [table(w), table(w * event.hits)] + (
            [] if (w == w[0]).all() else [table(w * w)]
        )
        self.scale = float(w[0])

    def drawn(self, counts: np.ndarray) -> list[np.ndarray]:
        """Sums for units that are drawn `counts` times, [B, units]."""
        found = [counts @ table for table in self.tables]
        return found if len(found) == 3 else [*found, found[0] * self.scale]
