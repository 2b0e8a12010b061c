"""Grouping loss: what is lost because rows with the same output have different chances (paper
1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np

from ..calibration.bootstrap import percentile, sampling_units
from ..calibration.views import look
from ..choices.lenses import Classwise, Full, Lens, TopLabel
from ..choices.partitions import Column, Edges, EqualMass, EqualWidth, KDTree, Partition
from ..choices.scores import Brier, Log, Score
from ..data.arrays import as_array
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import InputError
from ..estimate import Estimate
from ..states.evidence import Others
from .bound import BRIER, CLASS_LOG, LOG, Bounds, Generator, Moments
from .level_sets import PARTS, Event, Measured, Plan, measure, measure_joint, resampled, those
from .region_counting import counted
from .region_table import RegionTable, clopper_pearson
from .regions import GivenRegions, Regions, chosen_regions


@dataclass(frozen=True, eq=False)
class GroupingDiagram:
    """What a grouping diagram shows (Perez-Lebel et al. 2023, Figure 5). Per bin: mean output, how
    often the event happened, and rows. Per region: its bin, mean output, rate with its 95%
    interval, rows, and whether the bin's rate lies outside the interval."""

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
    """The grouping loss that regions reveal, and the calibration loss beside it. Of a single event
    the Brier score counts once, (p - y)^2; over classes it is summed.

    lower_bound : explained - induced; the grouping loss is at least this (Perez-Lebel et al. 2023,
        Eq. 13).
    explained : plugin - bias, what differences between regions explain, without what chance adds
        (Proposition 4.3).
    induced : what is explained only because outputs differ within bins (see
        `estimates.grouping.explained_loss`); `induced_by_bins` is all that binning adds to the
        grouping loss, whether the regions see it or not (Proposition C.1).
    calibration_loss : of the outputs themselves: that of the bins without chance, less what binning
        adds to it.
    binned_calibration_loss, calibration_bias, calibration_induced : its parts.
    bounds : of CL_induced + GL_induced and of the squared error (Theorem C.1, Corollary C.2); for
        the Brier score of one event.
    regions : groups the model misjudges, see `RegionTable`; `region_of` gives the region of each
        row, -1 if it was not used.
    thin_regions : regions of one row (or one cluster), left out.
    searched : the share of the rows in level sets with enough rows to look for regions. Where it is
        0, a bound of 0 means nothing; below 1, the rest of the rows may hide any loss.
    recalibrated : the same after isotonic regression on the other half of the rows, if asked for.
    deviations : of the resamples behind the intervals from their mean, [resamples,
        level_sets.PARTS].
    given_groups : whether the regions are groups known before, not learned from features.

    An interval is that of the lower bound. Its upper end does not cap the grouping loss, which may
    be larger where the features do not show it.
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
    searched: float
    diagram: GroupingDiagram | None
    definition: str
    recalibrated: GroupingLoss | None = None
    deviations: np.ndarray | None = None
    given_groups: bool = False

    def __float__(self) -> float:
        return float(self.lower_bound)

    def __repr__(self) -> str:
        low, high = self.lower_bound.interval
        span = f" [{low:.6g}, {high:.6g}]" if np.isfinite(low) else ""
        if not self.searched:
            return f"too few rows to look for hidden groups  ({self.definition}, n = {self.lower_bound.n:,})"
        return (
            f"at least {float(self.lower_bound):.6g}{span} is lost by grouping, {float(self.calibration_loss):.6g} by"
            f" miscalibration  ({self.definition}, n = {self.lower_bound.n:,})"
        )


@documents_row_options
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
    resamples: int = 200,
    seed: int = 0,
    others: Others | None = None,
    **options: Unpack[RowOptions],
) -> GroupingLoss:
    """How much is lost, at least, because rows with the same output have different probabilities
    (Perez-Lebel et al. 2023, Section 4).

    features : [rows, d] in any number format, a frame, or a mapping of columns (text and booleans
        are categories); those of the `Predictions` unless given.
    lens : `TopLabel()` unless given; any that shows a single event; `Classwise()`, which sums over
        classes that are each binned by their own output (Appendix C.9); or `Full()`, the loss of
        the whole forecast (Definition 3.1), for the Brier score: level sets are boxes of all
        outputs, regions are learned from all classes at once. What outputs that differ within a box
        explain is found by regression there, with squares and products of outputs where a box has
        ten rows for each term; if the calibrated outputs are more curved than that, and the
        features tell the outputs, a part of it is taken for grouping loss.
    score : "brier", without bias (Proposition 4.3); or "log", less what regions without a
        difference give on average.
    bins : so many of equal width, or `EqualWidth`, `EqualMass` or `Edges`; with `Full()`, a
        `KDTree`, or about how many boxes with equally many rows.
    regions : "tree", with one region for `region_ratio` rows or more (a bin with too few rows for
        three is split once, if each side keeps 5); "stump", two regions of two fifths of the rows
        or more; "balanced_stump", the paper's halves; "kmeans"; a list of names of columns, of the
        features or of the `Predictions`; any `Partition` that a calibration error takes; or a
        `Regions` choice.
    split : "cross-fit", where regions are learned from one half of the rows of each bin and rated
        by the other, both ways; "half", one way only, as in the paper; or a boolean mask of the
        rows that rate. Known groups need no split. Clusters are never split.
    curve : the continuous calibration curve: "local", local regression, with what chance adds to
        its variance taken off; or "knn", the nearest tenth of the rows (at most 2,000), as the
        paper's code does.
    induced : what binning adds to the explained loss: "regions", as far as these regions see it; or
        "bins", all of it, as in the paper, whose bound is lower. Without any grouping loss the
        first bound is 0 on average, the second is negative.
    recalibrate : find the same after isotonic recalibration too.
    interval, resamples : 95% intervals from resampled rows (or clusters, see `Predictions`), with
        the regions held fixed.
    others : the rows of which these are a sample. They are then counted too, in the regions of the
        sample, and the interval of the sample becomes narrower by the root of the ratio of rows. So
        it is if `y_true` is what `scan` makes of files or of a dask DataFrame that have more rows
        than a sample.

    >>> from probaudit import Binary
    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(10_000)
    >>> found = grouping_loss(world.y, world.scores, world.features, lens=Binary(), region_ratio=12)
    >>> bool(0.8 < found.lower_bound / world.grouping_loss < 1)
    True
    """
    lens = TopLabel() if lens is None else lens
    rule = _generator(score, lens)
    joint = isinstance(lens, Full)
    binning = _binning(bins, joint)
    if joint:
        _check_joint(rule, curve, recalibrate)
    if curve not in ("local", "knn"):
        raise InputError("curve", 'must be "local" or "knn"', repr(curve))
    if induced not in ("regions", "bins"):
        raise InputError("induced", 'must be "regions" or "bins"', repr(induced))
    if interval not in ("percentile", None):
        raise InputError("interval", 'must be "percentile" or None', repr(interval))
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)
    if (source := as_source(y_true, y_proba, **options)) is not None:
        per_row = {"features": features, "split": None if isinstance(split, str) else split}
        for name, given in per_row.items():
            if given is not None:
                raise InputError(
                    name, "per row needs rows in memory; columns of a source are named in `scan`"
                )
        evidence = Passing().evidence(source)
        predictions, others = evidence.sample, evidence.others
    else:
        predictions = rows_of(y_true, y_proba, **options)
    choice, known = chosen_regions(regions, region_ratio, features, predictions)
    halving, mask = _split(split, len(predictions)), not isinstance(split, str)
    plan = Plan(rule, binning, choice, known, halving, curve == "knn", induced == "bins", seed)
    clusters = _clusters(predictions)
    units = None if interval is None else sampling_units(len(predictions), seed, clusters)
    events = [event for seen in look(predictions, lens) for event in Event.of(seen, clusters)]
    names = predictions.class_order if isinstance(lens, Classwise) or joint else None
    words = f"{lens!r}, {rule.name} score, {binning!r}, {_said(choice)}, {curve} curve, induced in {induced}"
    words += (
        ""
        if isinstance(choice, (GivenRegions, Partition))
        else ", given split"
        if mask
        else f", {split}"
    )

    def found(plan: Plan) -> GroupingLoss:
        measured = (
            measure_joint(events, plan) if joint else [measure(event, plan) for event in events]
        )
        draws = None if units is None else resampled(measured, units, resamples, seed)
        said = words + (", after isotonic regression" if plan.recalibrate else "")
        if others is not None and clusters is None and not joint:
            columns = tuple(regions) if isinstance(regions, (list, tuple)) else ()
            if (
                more := counted(measured, others, lens, columns, _scale(predictions, others))
            ) is not None:
                return _of_all(measured, *more, names, draws, said)
        said += f", on a sample of {len(predictions):,} rows" if others is not None else ""
        return _assemble(measured, names, draws, said)

    raw = found(plan)
    return (
        raw
        if not recalibrate
        else replace(raw, recalibrated=found(replace(plan, recalibrate=True)))
    )


def _binning(bins: Any, joint: bool) -> Partition:
    """The level sets: bins of one output, or boxes of all."""
    number = isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)
    if number and joint:
        if bins < 1:
            raise InputError("bins", "must be at least 1", bins)
        return KDTree(1 / bins, split="median")
    binning = EqualWidth(bins) if number else bins
    if not isinstance(binning, KDTree if joint else (EqualWidth, EqualMass, Edges)):
        rule = (
            "with Full() must be a number or KDTree"
            if joint
            else "must be a number, EqualWidth, EqualMass or Edges"
        )
        raise InputError("bins", rule, repr(bins))
    found: Partition = binning
    return found


def _check_joint(rule: Generator, curve: str, recalibrate: bool) -> None:
    """What the whole forecast does not allow."""
    if rule.name != "brier":
        why = 'with Full() must be "brier": a regression within boxes may give calibrated outputs below 0, which have no'
        raise InputError("score", f"{why} log score; use Classwise()", repr(rule.name))
    if curve != "local":
        raise InputError("curve", 'with Full() must be "local"', repr(curve))
    if recalibrate:
        raise InputError(
            "recalibrate", "needs a single event or Classwise(): isotonic regression has one output"
        )


def _clusters(predictions: Predictions) -> np.ndarray | None:
    """The cluster of each row, if rows depend on each other."""
    clusters = predictions.cluster_numbers
    if clusters is not None and len(np.unique(clusters[survey(predictions).good])) < 2:
        raise InputError(
            "clusters",
            "need two or more for a grouping loss: the rows of one say nothing about chance",
        )
    return clusters


def _scale(sample: Predictions, others: Others) -> float:
    """What the weights of a sample, of which the largest is 1, are to be multiplied with to be on
    the scale of a plan."""
    weights = others.plan.scaled(sample.sample_weight)
    return 1.0 if weights is None else float(weights[survey(sample).good].max())


def _of_all(
    sample: list[Measured],
    measured: list[Measured],
    left_out: int,
    names: Sequence[Any] | None,
    draws: Any,
    words: str,
) -> GroupingLoss:
    """What was measured on all rows, with the draws of the sample."""

    def size(one: Measured) -> float:
        return float(one.counts.weight.sum() ** 2 / one.counts.squared.sum())

    words += f", regions learned from a sample of {int(sample[0].judged.sum()):,} rows and counted over all"
    words += f", {left_out:,} rows of groups that the sample lacks left out" if left_out else ""
    narrower = (size(sample[0]) / size(measured[0])) ** 0.5
    return _assemble(measured, names, draws, words, narrower)


def _said(choice: Regions | Partition) -> str:
    return "given groups" if isinstance(choice, (GivenRegions, Column)) else str(choice)


def _generator(score: str | Score, lens: Lens) -> Generator:
    score = score.name if isinstance(score, (Brier, Log)) else score
    if score not in ("brier", "log"):
        raise InputError("score", 'must be "brier" or "log"', repr(score))
    return BRIER if score == "brier" else CLASS_LOG if isinstance(lens, Classwise) else LOG


def _assemble(
    measured: list[Measured],
    names: Sequence[Any] | None,
    draws: np.ndarray | None,
    words: str,
    narrower: float = 1.0,
) -> GroupingLoss:
    """Sums over events as estimates, and the table of all their regions. Deviations of draws are
    multiplied by `narrower`."""
    by_event = np.stack([one.values for one in measured])
    values = by_event.sum(axis=0)
    rated, judged = int(measured[0].rows.sum()), int(measured[0].bin_sums.rows.sum())
    thin = sum(int(one.explained.thin.sum()) for one in measured)
    unit = "row" if measured[0].event.clusters is None else "cluster"
    words += f", {thin} regions of one {unit} left out" if thin else ""
    searched = float(np.mean([one.searched for one in measured]))
    words += f", {searched:.0%} of the rows searched" if searched < 1 else ""
    estimates: dict[str, Any] = {}
    with np.errstate(invalid="ignore"):  # a resample contains the bias of the rows and its own
        deviations = None if draws is None else narrower * (draws - _finite_means(draws))
    for k, (name, value) in enumerate(zip(PARTS, values, strict=True)):
        classes = {} if names is None else dict(zip(names, by_event[:, k].tolist(), strict=True))
        n = judged if name == "calibration_loss" else rated
        found = Estimate(
            value, n=n, definition=f"{name.replace('_', ' ')}, {words}", per_class=classes
        )
        if deviations is not None and np.isfinite(value) and np.isfinite(deviations[:, k]).any():
            found.low, found.high = percentile(deviations[np.isfinite(deviations[:, k]), k] + value)
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
        searched=searched,
        diagram=_diagram(measured[0]) if single else None,
        definition=f"grouping loss, {words}",
        deviations=deviations,
        given_groups=isinstance(measured[0].plan.regions, (GivenRegions, Column)),
    )


def _finite_means(draws: np.ndarray) -> np.ndarray:
    """The mean of each column's finite values."""
    finite = np.isfinite(draws)
    return np.asarray(np.where(finite, draws, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1))


def _table(measured: list[Measured], names: Sequence[Any] | None) -> tuple[RegionTable, np.ndarray]:
    """All groups of all events, and the group of each row for each event."""
    first, sums, sizes, origin = 0, [], [], []
    group_of = np.full((measured[0].event.total, len(measured)), -1)
    for k, one in enumerate(measured):
        event, parting, rated = one.event, one.parting, those(one.parting.region >= 0)
        region = parting.region[rated]
        known, number = np.unique(parting.group, return_inverse=True)
        number = number.reshape(-1)
        level_rate = np.bincount(parting.level, one.counts.hits) / np.bincount(
            parting.level, one.counts.weight
        )
        by_region = [
            one.rows,
            one.counts.weight,
            one.counts.squared,
            one.stated,
            one.counts.weight * level_rate[parting.level],
            one.counts.hits,
            one.explained.by_region,
        ]
        sums.append(np.stack([np.bincount(number, part) for part in by_region]))
        group_of[event.places[rated], k] = first + number[region]
        sizes.append(_size(one, rated, number[region], sums[-1]))
        in_one_bin = np.array_equal(parting.group, np.arange(len(number)))
        spans = _spans(one, rated) if in_one_bin else [""] * len(known)
        origin += [(one, int(own), k, span) for own, span in zip(known, spans, strict=True)]
        first += len(known)
    rows, weight, _, stated, expected, hits, loss = np.concatenate(sums, axis=1)

    def rule(number: int) -> str:
        one, own, k, _ = origin[number]
        return (
            one.parting.rule(own) if names is None else f"class {names[k]}: {one.parting.rule(own)}"
        )

    share = loss / loss.sum() if loss.sum() > 0 else np.zeros(len(loss))
    table = RegionTable.of(
        rule,
        lambda number: origin[number][3],
        rows,
        np.concatenate(sizes),
        stated / weight,
        expected / weight,
        hits / weight,
        share,
    )
    return table, group_of


def _size(one: Measured, rated: Any, group: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The effective number of rows of each group, as exact intervals and tests take it."""
    _, weight, squared, _, _, hits, _ = sums
    rows, event = weight**2 / squared, one.event
    if event.clusters is None:
        return rows
    moments = Moments.of(
        group, event.clusters[rated], event.weights[rated], event.hits[rated], len(weight)
    )
    return moments.tested_size(hits / weight, weight, rows)


def _spans(one: Measured, rated: Any) -> list[str]:
    """The outputs of each region's bin, in words."""
    bins, outputs = one.bins[rated], one.outputs[rated]
    size = 1 + max(int(bins.max()), int(one.parting.bin.max()))
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, bins, outputs)
    np.maximum.at(high, bins, outputs)
    spans = [f"stated {a:.3g} to {b:.3g}" if a <= b else "" for a, b in zip(low, high, strict=True)]
    return [spans[b] for b in one.parting.bin]


def _diagram(one: Measured) -> GroupingDiagram:
    parting, counts, sums = one.parting, one.counts, one.bin_sums
    observed, size = counts.hits / counts.weight, counts.weight**2 / counts.squared
    if counts.moments is not None:
        size = counts.moments[0].tested_size(observed, counts.weight, size)
    low, high = clopper_pearson(observed, size)
    level_rate = np.bincount(parting.level, counts.hits) / np.bincount(parting.level, counts.weight)
    expected = level_rate[parting.level]
    return GroupingDiagram(
        sums.stated / sums.weight,
        sums.hits / sums.weight,
        sums.rows.astype(np.int64),
        np.searchsorted(sums.number, parting.bin),
        one.stated / counts.weight,
        observed,
        low,
        high,
        one.rows,
        (expected < low) | (expected > high),
    )


def _split(split: Any, rows: int) -> np.ndarray | str:
    if isinstance(split, str):
        if split not in ("cross-fit", "half"):
            raise InputError(
                "split", 'must be "cross-fit", "half" or a boolean mask of the rows', repr(split)
            )
        return split
    mask = as_array(split, "split")
    if mask.shape != (rows,) or mask.dtype.kind != "b" or mask.all() or not mask.any():
        raise InputError(
            "split",
            f"must be a boolean mask of the {rows} rows, with some True and some False",
            repr(split)[:80],
        )
    return mask


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
    """What a grouping diagram shows: the calibration curve, and two regions of each bin, learned
    from one half of the rows and rated by the other (Perez-Lebel et al. 2023, Figure 5). Arguments
    as in `grouping_loss`, for a single event.
    """
    found = grouping_loss(
        y_true, y_proba, features, bins=bins, regions=regions, split=split, interval=None, **options
    )
    if found.diagram is None:
        raise InputError("lens", "must show a single event")
    return found.diagram
