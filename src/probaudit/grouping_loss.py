"""Grouping loss: what is lost because rows with the same output have different chances (paper 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np

from .arrays import as_array
from .errors import InputError
from .estimates.estimate import Estimate
from .estimates.grouping import BRIER, CLASS_LOG, LOG, Averages, Bounds, Generator
from .estimates.intervals import percentile
from .estimates.region_table import RegionTable, clopper_pearson
from .lenses import Classwise, Lens, TopLabel
from .level_sets import PARTS, Event, Measured, Plan, measure, resampled, those
from .metrics import RowOptions, rows_of
from .partitions import Column, Edges, EqualMass, EqualWidth, Partition
from .predictions import Predictions
from .regions import Features, GivenRegions, KMeansRegions, Regions, StumpRegions, TreeRegions, named_columns
from .resampling import Bootstrap
from .scores import Brier, Log, Score
from .viewing import look


@dataclass(frozen=True, eq=False)
class GroupingDiagram:
    """What a grouping diagram shows (paper 1, Figure 5). Per bin: mean output, how often the event happened, and rows. Per
    region: its bin, mean output, rate with its 95% interval, rows, and whether the bin's rate lies outside the interval."""

    stated: np.ndarray
    observed: np.ndarray
    rows: np.ndarray
    region_bin: np.ndarray
    region_stated: np.ndarray
    region_observed: np.ndarray
    region_low: np.ndarray
    region_high: np.ndarray
    region_rows: np.ndarray
    region_differs: np.ndarray


@dataclass(frozen=True, eq=False)
class GroupingLoss:
    """The grouping loss that regions reveal, and the calibration loss beside it. Of a single event the Brier score counts once,
    (p - y)^2; over classes it is summed.

    lower_bound : explained - induced; the grouping loss is at least this (paper 1, Eq. 13).
    explained : plugin - bias, what differences between regions explain, without what chance adds (Proposition 4.3).
    induced : what is explained only because outputs differ within bins (see `estimates.grouping.explained_loss`);
        `induced_by_bins` is all that binning adds to the grouping loss, whether the regions see it or not (Proposition C.1).
    calibration_loss : of the outputs themselves: that of the bins without chance, less what binning adds to it.
    binned_calibration_loss, calibration_bias, calibration_induced : its parts.
    bounds : of CL_induced + GL_induced and of the squared error (Theorem C.1, Corollary C.2); for the Brier score of one event.
    regions : who is badly served, see `RegionTable`; `region_of` gives the region of each row, -1 if it was not used.
    thin_regions : regions of one row, left out.
    recalibrated : the same after isotonic regression on the other half of the rows, if asked for.
    """

    lower_bound: Estimate
    explained: Estimate
    plugin: Estimate
    bias: Estimate
    induced: Estimate
    calibration_loss: Estimate
    induced_by_bins: float
    binned_calibration_loss: float
    calibration_bias: float
    calibration_induced: float
    bounds: Bounds | None
    regions: RegionTable
    region_of: np.ndarray
    thin_regions: int
    diagram: GroupingDiagram | None
    definition: str
    recalibrated: GroupingLoss | None = None

    def __float__(self) -> float:
        return float(self.lower_bound)

    def __repr__(self) -> str:
        low, high = self.lower_bound.interval
        span = f" [{low:.6g}, {high:.6g}]" if np.isfinite(low) else ""
        return (
            f"at least {float(self.lower_bound):.6g}{span} is lost by grouping, {float(self.calibration_loss):.6g} by"
            f" miscalibration  ({self.definition}, n = {self.lower_bound.n:,})"
        )


def grouping_loss(
    y_true: Any,
    y_proba: Any = None,
    features: Any = None,
    *,
    lens: Lens | None = None,
    score: str | Score = "brier",
    bins: int | Partition = 15,
    regions: str | Sequence[str] | Regions | Partition = "tree",
    region_ratio: float = 30,
    split: Any = "cross-fit",
    curve: Literal["local", "knn"] = "local",
    induced: Literal["regions", "bins"] = "regions",
    recalibrate: bool = False,
    interval: Literal["percentile"] | None = "percentile",
    groups: Any = None,
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> GroupingLoss:
    """How much is lost, at least, because rows with the same output differ in what they should be told (paper 1, Section 4).

    features : [rows, d] in any number format, a frame, or a mapping of columns (text and booleans are categories); those of the
        `Predictions` unless given.
    lens : `TopLabel()` unless given; any that shows a single event, or `Classwise()`, which sums over classes (Appendix C.9).
    score : "brier", or "log", whose bias is found by the jackknife.
    bins : so many of equal width, or `EqualWidth`, `EqualMass` or `Edges`.
    regions : "tree", with one region for `region_ratio` rows or more; "stump"; "kmeans"; a list of names of columns, of the
        features or of the `Predictions`; any `Partition` that a calibration error takes; or a `Regions` choice.
    split : "cross-fit", where regions are learned from one half of the rows of each bin and rated by the other, both ways;
        "half", one way only, as in the paper; or a boolean mask of the rows that rate. Known groups need no split.
    curve : the continuous calibration curve: "local", local regression, with what chance adds to its variance taken off; or
        "knn", the nearest tenth of the rows (at most 2,000), as the paper's code does.
    induced : what binning adds to the explained loss: "regions", as far as these regions see it; or "bins", all of it, as in
        the paper, whose bound is lower. Without any grouping loss the first bound is 0 on average, the second is negative.
    recalibrate : find the same after isotonic recalibration too.
    interval, groups, resamples : 95% intervals from rows (or whole groups of them) drawn again, with the regions held fixed.

    >>> from probaudit import Binary
    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(10_000)
    >>> found = grouping_loss(world.y, world.scores, world.features, lens=Binary(), region_ratio=12)
    >>> bool(0.8 < found.lower_bound / world.grouping_loss < 1)
    True
    """
    lens = TopLabel() if lens is None else lens
    rule = _generator(score, lens)
    binning = EqualWidth(bins) if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool) else bins
    if not isinstance(binning, (EqualWidth, EqualMass, Edges)):
        raise InputError("bins", "must be a number, EqualWidth, EqualMass or Edges", repr(bins))
    if curve not in ("local", "knn"):
        raise InputError("curve", 'must be "local" or "knn"', repr(curve))
    if induced not in ("regions", "bins"):
        raise InputError("induced", 'must be "regions" or "bins"', repr(induced))
    if interval not in ("percentile", None):
        raise InputError("interval", 'must be "percentile" or None', repr(interval))
    bootstrap = Bootstrap.of(interval, groups, resamples, seed)
    predictions = rows_of(y_true, y_proba, **options)
    choice, known = _regions(regions, region_ratio, features, predictions)
    halving, mask = _split(split, len(predictions)), not isinstance(split, str)
    plan = Plan(rule, binning, choice, known, halving, curve == "knn", induced == "bins", seed)
    units = None if bootstrap is None else bootstrap.units(len(predictions))
    events = [Event.of(seen) for seen in look(predictions, lens)]
    names = predictions.class_order if isinstance(lens, Classwise) else None
    words = f"{lens!r}, {rule.name} score, {binning!r}, {_said(choice)}, {curve} curve, induced in {induced}"
    words += "" if isinstance(choice, (GivenRegions, Partition)) else ", given split" if mask else f", {split}"

    def found(plan: Plan) -> GroupingLoss:
        measured = [measure(event, plan) for event in events]
        draws = None if units is None else resampled(measured, units, resamples, seed)
        return _assemble(measured, names, draws, words + (", after isotonic regression" if plan.recalibrate else ""))

    raw = found(plan)
    return raw if not recalibrate else replace(raw, recalibrated=found(replace(plan, recalibrate=True)))


def _said(choice: Regions | Partition) -> str:
    return "given groups" if isinstance(choice, (GivenRegions, Column)) else str(choice)


def _generator(score: str | Score, lens: Lens) -> Generator:
    score = score.name if isinstance(score, (Brier, Log)) else score
    if score not in ("brier", "log"):
        raise InputError("score", 'must be "brier" or "log"', repr(score))
    return BRIER if score == "brier" else CLASS_LOG if isinstance(lens, Classwise) else LOG


def _assemble(measured: list[Measured], names: Sequence[Any] | None, draws: np.ndarray | None, words: str) -> GroupingLoss:
    """Sums over events as estimates, and the table of all their regions."""
    by_event = np.stack([one.values for one in measured])
    values, rated, judged = by_event.sum(axis=0), measured[0].parting.region >= 0, measured[0].judged
    thin = sum(int(one.explained.thin.sum()) for one in measured)
    words += f", {thin} regions of one row left out" if thin else ""
    estimates: dict[str, Any] = {}
    for k, (name, value) in enumerate(zip(PARTS, values, strict=True)):
        classes = {} if names is None else dict(zip(names, by_event[:, k].tolist(), strict=True))
        n = int((judged if name == "calibration_loss" else rated).sum())
        found = Estimate(value, n=n, definition=f"{name.replace('_', ' ')}, {words}", per_class=classes)
        if draws is not None and np.isfinite(value) and np.isfinite(draws[:, k]).any():
            drawn = draws[np.isfinite(draws[:, k]), k]
            found.low, found.high = percentile(drawn - drawn.mean() + value)  # a resample adds chance of its own
        estimates[name] = found
    table, region_of = _table(measured, names)
    single = len(measured) == 1
    binned, bias, added = np.sum([one.calibration for one in measured], axis=0).tolist()
    return GroupingLoss(
        **estimates,
        induced_by_bins=float(sum(one.induced for one in measured)),
        binned_calibration_loss=binned,
        calibration_bias=bias,
        calibration_induced=added,
        bounds=measured[0].bounds if single else None,
        regions=table,
        region_of=region_of[:, 0] if single else region_of,
        thin_regions=thin,
        diagram=_diagram(measured[0]) if single else None,
        definition=f"grouping loss, {words}",
    )


def _table(measured: list[Measured], names: Sequence[Any] | None) -> tuple[RegionTable, np.ndarray]:
    """All groups of all events, and the group of each row for each event."""
    first, sums, origin = 0, [], []
    group_of = np.full((measured[0].event.total, len(measured)), -1)
    for k, one in enumerate(measured):
        event, parting, rated = one.event, one.parting, those(one.parting.region >= 0)
        region = parting.region[rated]
        known, number = np.unique(parting.group, return_inverse=True)
        number = number.reshape(-1)
        level_rate = np.bincount(parting.level, one.counts.hits) / np.bincount(parting.level, one.counts.weight)
        by_region = [
            np.bincount(region),
            one.counts.weight,
            one.counts.squared,
            np.bincount(region, event.weights[rated] * one.outputs[rated]),
            one.counts.weight * level_rate[parting.level],
            one.counts.hits,
            one.explained.by_region,
        ]
        sums.append(np.stack([np.bincount(number, part) for part in by_region]))
        group_of[event.places[rated], k] = first + number[region]
        in_one_bin = np.array_equal(parting.group, np.arange(len(number)))
        spans = _spans(one, rated) if in_one_bin else [""] * len(known)
        origin += [(one, int(own), k, span) for own, span in zip(known, spans, strict=True)]
        first += len(known)
    rows, weight, squared, stated, expected, hits, loss = np.concatenate(sums, axis=1)

    def rule(number: int) -> str:
        one, own, k, _ = origin[number]
        return one.parting.rule(own) if names is None else f"class {names[k]}: {one.parting.rule(own)}"

    share = loss / loss.sum() if loss.sum() > 0 else np.zeros(len(loss))
    table = RegionTable.of(
        rule,
        lambda number: origin[number][3],
        rows,
        weight**2 / squared,
        stated / weight,
        expected / weight,
        hits / weight,
        share,
    )
    return table, group_of


def _spans(one: Measured, rated: Any) -> list[str]:
    """The outputs of each region's bin, in words."""
    bins, outputs = one.bins[rated], one.outputs[rated]
    low, high = np.full(int(bins.max()) + 1, np.inf), np.full(int(bins.max()) + 1, -np.inf)
    np.minimum.at(low, bins, outputs)
    np.maximum.at(high, bins, outputs)
    return [f"stated {low[b]:.3g} to {high[b]:.3g}" for b in one.parting.bin]


def _diagram(one: Measured) -> GroupingDiagram:
    event, parting, judged, rated = one.event, one.parting, those(one.judged), those(one.parting.region >= 0)
    whole = Averages(one.bins[judged], event.weights[judged])
    region, counts = parting.region[rated], one.counts
    observed, size = counts.hits / counts.weight, counts.weight**2 / counts.squared
    low, high = clopper_pearson(observed, size)
    known = np.unique(one.bins[judged])
    level_rate = np.bincount(parting.level, counts.hits) / np.bincount(parting.level, counts.weight)
    expected = level_rate[parting.level]
    return GroupingDiagram(
        whole(one.outputs[judged]),
        whole(event.hits[judged]),
        np.bincount(whole.number),
        np.searchsorted(known, parting.bin),
        np.bincount(region, event.weights[rated] * one.outputs[rated]) / counts.weight,
        observed,
        low,
        high,
        np.bincount(region),
        (expected < low) | (expected > high),
    )


def _split(split: Any, rows: int) -> np.ndarray | str:
    if isinstance(split, str):
        if split not in ("cross-fit", "half"):
            raise InputError("split", 'must be "cross-fit", "half" or a boolean mask of the rows', repr(split))
        return split
    mask = as_array(split, "split")
    if mask.shape != (rows,) or mask.dtype.kind != "b" or mask.all() or not mask.any():
        raise InputError("split", f"must be a boolean mask of the {rows} rows, with some True and some False", repr(split)[:80])
    return mask


def features_of(predictions: Predictions) -> Any:
    """The features that came with the rows, by name if they have names."""
    names, features = predictions.feature_names, predictions.features
    if names is None:
        return features
    columns = features.T if features.dtype != object else (np.array(column.tolist()) for column in features.T)
    return dict(zip(names, columns, strict=True))


def _regions(regions: Any, ratio: float, features: Any, predictions: Predictions) -> tuple[Regions | Partition, Features]:
    """The choice of regions, and the features if it needs any."""
    rows = len(predictions)
    features = features_of(predictions) if features is None else features
    if isinstance(regions, Partition):
        return regions, Features.none(rows)
    if isinstance(regions, (list, tuple)):
        columns = dict(predictions.columns or {}) | (named_columns(features, "features") or {})
        missing = [name for name in regions if name not in columns]
        if missing or not regions:
            raise InputError("regions", "must name columns of the features or of the Predictions", repr(missing or regions))
        chosen = {name: columns[name] for name in regions}
        for name, column in chosen.items():
            if column.shape != (rows,):
                raise InputError("regions", f"column {name!r} needs one value per row ({rows})", f"has shape {column.shape}")
        return GivenRegions.of_columns(chosen), Features.none(rows)
    named = {"tree": TreeRegions(ratio), "stump": StumpRegions(), "kmeans": KMeansRegions()}
    if not isinstance(regions, Regions) and (not isinstance(regions, str) or regions not in named):
        raise InputError("regions", f"must be one of {', '.join(named)}, names of columns, or a Regions choice", repr(regions))
    choice = regions if isinstance(regions, Regions) else named[regions]
    if isinstance(choice, GivenRegions):
        return choice, Features.none(rows)
    if features is None:
        raise InputError("features", "are needed to part rows into regions")
    return choice, Features.of(features, rows)


def grouping_diagram(
    y_true: Any,
    y_proba: Any = None,
    features: Any = None,
    *,
    bins: int | Partition = 10,
    regions: Any = "stump",
    split: Any = "half",
    **options: Any,
) -> GroupingDiagram:
    """What a grouping diagram shows: the calibration curve, and two regions of each bin, learned from one half of the rows and
    rated by the other (paper 1, Figure 5). Arguments as in `grouping_loss`, for a single event.
    """
    found = grouping_loss(y_true, y_proba, features, bins=bins, regions=regions, split=split, interval=None, **options)
    if found.diagram is None:
        raise InputError("lens", "must show a single event")
    return found.diagram
