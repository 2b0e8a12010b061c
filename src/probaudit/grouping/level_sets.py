"""Rows of an event in bins and regions, what they lose by grouping, and how that varies when rows
are resampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.resampling import draw_units, sampling_units
from ..calibration.views import LensRows
from ..choices.partitions import Column, EqualWidth, Partition
from ..errors import InputError
from .bound import (
    BRIER,
    ONE_ROW,
    Averages,
    Bounds,
    Explained,
    Generator,
    Moments,
    RegionCounts,
    binned_calibration_loss,
    curve_noise,
    explained_loss,
    induced_bounds,
    induced_losses,
)
from .calibration_curve import BoxCurve, BoxPoints, Points, nearest_neighbours
from .features import Features
from .regions import GivenRegions, Level, Parting, Regions, halves, part_rows

BATCH = 2**18  # numbers of resamples that are in memory at a time
PARTS = ("lower_bound", "explained", "plugin", "bias", "induced", "calibration_loss")


def those(mask: np.ndarray) -> Any:
    """A mask as an index; of all rows, one that copies nothing."""
    return slice(None) if mask.all() else mask


@dataclass(frozen=True, eq=False)
class Plan:
    """How grouping loss is found: by which score, in which bins and regions, on which rows."""

    rule: Generator
    bins: Partition
    regions: Regions | Partition
    features: Features
    split: np.ndarray | str
    neighbours: bool
    whole: bool  # take off all that binning induces, whether the regions see it or not
    seed: int
    recalibrate: bool = False


@dataclass(frozen=True, eq=False)
class Event:
    """Rows of positive weight: outputs, whether the event happened (0 or 1), weights, places among
    all `total` rows, and the cluster of each row, if rows depend on each other."""

    outputs: np.ndarray
    hits: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, seen: LensRows, clusters: np.ndarray | None = None) -> list[Event]:
        """The event that is seen; of several classes, one for each. clusters : of all rows."""
        chosen = those(seen.weights > 0)
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
        """Values of these rows among all."""
        if len(values) == self.total:
            return values
        found = np.zeros(self.total, values.dtype)
        found[self.places] = values
        return found

    def isotonic(self, train: np.ndarray) -> np.ndarray:
        """All outputs recalibrated by isotonic regression on some of the rows."""
        from ..kernels.pooling import pool_adjacent_violators, read_curve

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
    """Of each bin that has rows: its number, its rows, the sums of weights, squared weights,
    outputs and hits; and, if rows are dependent, the moments of clusters."""

    number: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    squared: np.ndarray
    stated: np.ndarray
    hits: np.ndarray
    moments: Moments | None = None

    @classmethod
    def of(cls, bins: np.ndarray, *sums: np.ndarray) -> BinSums:
        """From the bins of rows or regions, and what each of these adds to the sums, in their
        order."""
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
    """An event in bins and regions, its calibration curve, and what they give.

    outputs : those judged, as they came or recalibrated; judged : the rows that count for the curve
        and the calibration loss.
    rows, stated : of each region, its rows and the weighted sum of their outputs.
    curve : where it is known, rising, and its values there. induced : what binning adds to the
        grouping loss, in the bins as a whole.
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
    points: Points
    curve: tuple[np.ndarray, np.ndarray]
    induced: float
    calibration: tuple[float, float, float]
    bounds: Bounds | None
    plan: Plan

    @property
    def searched(self) -> float:
        """The share of the rows that rate in level sets where regions were looked for."""
        weight = np.bincount(self.parting.level, self.counts.weight)
        looked = np.array([division.searched for _, _, division in self.parting.divisions])
        return float(weight[looked].sum() / weight.sum())

    @property
    def values(self) -> np.ndarray:
        """In the order of PARTS."""
        induced = self.induced if self.plan.whole else self.explained.induced
        return _parts(self.explained, induced, *self.calibration)


def _parts(explained: Explained, induced: Any, binned: Any, bias: Any, added: Any) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        calibration = np.asarray(binned - bias - added)
    # outputs of 0 or 1 that were wrong, in the log score
    calibration = np.where(np.isnan(calibration), np.inf, calibration)
    debiased = explained.debiased
    parts = (debiased - induced, debiased, explained.plugin, explained.bias, induced, calibration)
    return np.stack(np.broadcast_arrays(*parts))


def measure(event: Event, plan: Plan) -> Measured:
    """The rows of each bin split into regions, fold by fold, and all that follows."""
    bins, regions = plan.bins.cells(event.outputs), event.regions(plan.regions)
    tests = _tests(event, bins, plan)
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
    elif isinstance(regions, GivenRegions):  # there is nothing to learn: all rows rate
        tests, folds = [judged], [bins]
    kept = those(judged)
    o, h, w, b = (part[kept] for part in (outputs, event.hits, event.weights, bins))
    points = Points.of(o, h, w, b)
    c = None if event.clusters is None else event.clusters[kept]
    if plan.neighbours:
        curve, x, averages, noise = _near(o, h, w, b, plan)
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


def measure_joint(events: Sequence[Event], plan: Plan) -> list[Measured]:
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
        else _tests(first, bins, plan)
    )
    labels = np.column_stack([event.everywhere(w * event.hits) for event in events])
    known = Level(first.places, first.places[:0], first.everywhere(w), labels, False, plan.seed)
    parting = part_rows(regions, plan.features, [bins] * len(tests), tests, known)
    curve = BoxCurve.of(outputs, hits, w, bins, first.clusters)
    whole = curve.noise(np.arange(len(bins)), bins, w, scaled=True)
    # Regions were chosen by the labels of the other fold. A curve that saw these would deviate
    # where regions do.
    level = np.where(parting.region >= 0, parting.level[parting.region], -1)
    own_curve = BoxCurve.of(outputs, hits, w, level, first.clusters)
    seen = own_curve.noise(parting.region, level, w)  # errs low, and so does the bound
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


def _tests(event: Event, bins: np.ndarray, plan: Plan) -> list[np.ndarray]:
    """The rows that rate regions, for each fold."""
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
                "must leave clusters whole, all rows of one True or all False",
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
        sums, moments=Moments.of(np.searchsorted(sums.number, b), clusters, w, h, len(sums.number))
    )


def bounds_of(
    curve: np.ndarray, x: np.ndarray, averages: Averages, binned: float, plan: Plan
) -> Bounds | None:
    """For the Brier score; see `Bounds`."""
    if plan.rule is not BRIER:
        return None
    width = 1 / plan.bins.bins if isinstance(plan.bins, EqualWidth) else np.nan
    return induced_bounds(curve, x, averages, binned, width)


def _counts(
    event: Event, parting: Parting, outputs: np.ndarray, curve: np.ndarray
) -> tuple[RegionCounts, np.ndarray, np.ndarray]:
    rated = those(parting.region >= 0)
    region, w, h, o = (part[rated] for part in (parting.region, event.weights, event.hits, outputs))
    weight, hits, squared, sums, stated = (
        np.bincount(region, part) for part in (w, w * h, w * w, w * curve[rated], w * o)
    )
    moments = None
    if event.clusters is not None:
        c = event.clusters[rated]
        of_regions = Moments.of(region, c, w, h, len(weight))
        thin = of_regions.clusters(weight) <= ONE_ROW
        level = np.where(thin, -1, parting.level)[region]
        moments = of_regions, Moments.of(level, c, w, h, int(parting.level[-1]) + 1)
    return (
        RegionCounts(parting.level, weight, hits, squared, sums / weight, moments),
        np.bincount(region),
        stated,
    )


# its values, where, means over bins there, and what chance adds
Curve = tuple[np.ndarray, np.ndarray, Averages, float]


def local_curve(
    points: Points, plan: Plan, dependent: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
) -> Curve:
    """By local regression.

    dependent : the hits, weights and clusters of rows, if these depend on each other.
    """
    curve = points.curve(points.rates, plan.rule.name == "log")
    residuals = None if dependent is None else _residuals(points, curve, *dependent, plan.seed)
    noise = curve_noise(curve, points, plan.rule, residuals)
    return curve, points.outputs, Averages(points.level, points.weight), noise


def _residuals(
    points: Points,
    curve: np.ndarray,
    hits: np.ndarray,
    weights: np.ndarray,
    clusters: np.ndarray,
    seed: int,
) -> np.ndarray:
    """How far each unit of rows moves the rate of each point from the curve, [points, units]."""
    unit = sampling_units(len(hits), seed, clusters)
    units, place = int(unit.max()) + 1, points.of_row
    moved = weights * (hits - curve[place]) / points.weight[place]
    found = np.bincount(place * units + unit, moved, len(curve) * units).reshape(len(curve), units)
    return np.asarray(found * np.sqrt(units / max(1, units - 1)))


def _near(o: np.ndarray, h: np.ndarray, w: np.ndarray, b: np.ndarray, plan: Plan) -> Curve:
    curve = nearest_neighbours(o, h, w)
    for end in (o <= 0, o >= 1) if plan.rule.name == "log" else ():
        curve[end] = np.average(h[end], weights=w[end]) if end.any() else 0.0
    return curve, o, Averages(b, w), 0.0


def resampled(
    measured: Sequence[Measured], units: np.ndarray, resamples: int, seed: int
) -> np.ndarray:
    """PARTS summed over events, [resamples, parts], if units of rows are resampled. Regions, and
    what the curve is fitted to, stay where they are. `units` gives the unit of each of all rows."""
    size, rng = int(units.max()) + 1, np.random.default_rng(seed)
    redraws = [_Redraw(one, units, size) for one in measured]
    step = max(1, BATCH // max(size, *(len(one.parting.level) for one in measured)))
    found = []
    for first in range(0, resamples, step):
        counts = draw_units(size, min(step, resamples - first), rng).astype(np.float64)
        found.append(sum(redraw.parts(counts) for redraw in redraws))
    return np.concatenate(found, axis=1).T


class _Redraw:
    """Sums over regions and over points of the curve, for every unit of rows."""

    def __init__(self, measured: Measured, units: np.ndarray, size: int) -> None:
        self.measured, self.rule, self.points = measured, measured.plan.rule, measured.points
        # Resamples vary in bias by an order less than in the plugin. Only the closed form of
        # independent rows is found again.
        known = measured.event.clusters is not None or self.rule.name != "brier"
        found = measured.explained.bias, np.asarray(measured.calibration[1])
        self.biases = found if known else (None, None)
        self.averages = Averages(self.points.level, self.points.weight)
        event, rated = measured.event, those(measured.parting.region >= 0)
        unit = units[event.places]
        self.regions = _Sums(
            event, rated, unit, measured.parting.region[rated], size, len(measured.parting.level)
        )
        self.rows = _Sums(
            event, those(measured.judged), unit, self.points.of_row, size, len(self.points.weight)
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
        return _parts(
            explained,
            induced if self.measured.plan.whole else explained.induced,
            binned,
            bias,
            added,
        )


class _Sums:
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
        """For units drawn so often, [B, units]."""
        found = [counts @ table for table in self.tables]
        return found if len(found) == 3 else [*found, found[0] * self.scale]
