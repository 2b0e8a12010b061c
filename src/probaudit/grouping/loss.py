"""Grouping loss: the loss due to rows with the same output and different probabilities (Perez-Lebel
et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np

from ..calibration.resampling import percentile, sampling_units
from ..calibration.views import lens_rows
from ..choices.definitions import Definition, in_words
from ..choices.lenses import Classwise, Full, Lens, TopLabel, error_lens
from ..choices.partitions import Column, Edges, EqualMass, EqualWidth, KDTree, Partition
from ..choices.scores import Brier, Log, Score, as_score
from ..data.arrays import as_array, data_frame, estimate_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import Argument, InputError
from ..estimate import Estimate
from ..scoring.intervals import clopper_pearson
from ..states.evidence import Others
from ..text import ShownAsTable, TextTable, capitalised, counted, interval_text, number, percent
from .bootstrap import resampled_parts
from .event_loss import PARTS, Event, GroupingPlan, Measured, measure, measure_joint
from .lower_bound import BRIER, CLASS_LOG, LOG, Bounds, Generator
from .region_counting import count_all_rows
from .region_table import RegionTable, region_table
from .regions import GivenRegions, Regions, chosen_regions


@dataclass(frozen=True, eq=False, repr=False)
class GroupingRates(ShownAsTable):
    """The data of a grouping diagram (Perez-Lebel et al. 2023, Figure 5). Per bin: mean output,
    observed frequency, and rows. Per region: its bin, mean output, observed frequency with its 95%
    interval, rows, whether the frequency of the bin lies outside the interval, and its rule in
    words."""

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
    region_rule: np.ndarray

    def to_frame(self) -> Any:
        """A row for each region, with its bin, as a pandas DataFrame."""
        return data_frame(
            {
                "bin": self.region_bin,
                "bin_rows": self.rows[self.region_bin],
                "bin_predicted": self.stated[self.region_bin],
                "bin_observed": self.observed[self.region_bin],
                "rows": self.region_rows,
                "predicted": self.region_stated,
                "observed": self.region_observed,
                "low": self.region_low,
                "high": self.region_high,
                "differs": self.region_differs,
                "region": self.region_rule,
            }
        )

    def _text_table(self) -> TextTable:
        rows = [
            [
                f"{k + 1}: predicted {percent(self.stated[k])}, "
                f"observed {percent(self.observed[k])}",
                f"{self.region_rows[r]:,}",
                percent(self.region_stated[r]),
                percent(self.region_observed[r]),
                f"{percent(self.region_low[r])} to {percent(self.region_high[r])}",
                "differs" if self.region_differs[r] else "",
            ]
            for r, k in enumerate(self.region_bin.tolist())
        ]
        headers = ("bin", "rows of a region", "predicted", "observed", "95% interval", "")
        return TextTable("Regions of rows with similar predictions", headers, rows)


@dataclass(frozen=True, eq=False, repr=False)
class GroupingLoss(ShownAsTable):
    """The grouping loss that regions reveal, and the calibration loss. For a single event the Brier
    score is (p - y)^2; over classes it is summed.

    lower_bound : explained - induced, a lower bound of the grouping loss (Perez-Lebel et al. 2023,
        Eq. 13).
    explained : plugin - bias, the loss explained by differences between regions, without
        finite-sample bias (Proposition 4.3).
    induced : the part of `explained` that is due to outputs that differ within bins (see
        `lower_bound.explained_loss`).
    induced_by_bins : all that binning adds to the grouping loss, whether the regions explain it or
        not (Proposition C.1).
    calibration_loss : the debiased loss of the bins, minus what binning adds to it.
    binned_calibration_loss, calibration_bias, calibration_induced : the parts of it.
    bounds : bounds of CL_induced + GL_induced and of the squared error (Theorem C.1, Corollary
        C.2), for the Brier score of one event.
    regions : groups the model misjudges, see `RegionTable`; `region_of` gives the region of each
        row, -1 if it was not used.
    thin_regions : the number of regions of one row (or one cluster), which are left out.
    searched : the share of rows in level sets with enough rows to search for regions. If it is 0, a
        bound of 0 is no evidence. If it is below 1, the other rows may hide any loss.
    given_groups : whether the regions are known groups, not learned from features.
    recalibrated : the same after isotonic regression on the other half of the rows, if requested.
    deviations : of the resamples from their mean, [resamples, event_loss.PARTS].

    The interval is for the lower bound. The grouping loss itself may exceed its upper end, if the
    features do not reveal it.
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
    diagram: GroupingRates | None
    definition: str
    given_groups: bool = False
    recalibrated: GroupingLoss | None = None
    deviations: np.ndarray | None = None

    def __float__(self) -> float:
        return float(self.lower_bound)

    def _text_table(self) -> TextTable:
        parts = {
            "hidden groups cost at least": self.lower_bound,
            "  explained by regions": self.explained,
            "  induced by bins": self.induced,
            "miscalibration costs": self.calibration_loss,
        }
        few = "Too few rows to search for hidden groups: a bound of 0 is no evidence."
        found = f"{len(self.regions):,} regions: see `regions`." if self.searched else few
        return TextTable(
            f"Grouping loss, {counted(self.lower_bound.n)}",
            ("", "value", "95% interval"),
            [[name, number(x), interval_text(x.low, x.high)] for name, x in parts.items()],
            f"{found}\n{capitalised(in_words(self.definition))}.",
        )

    def to_frame(self) -> Any:
        """A row for each part of the loss, as a pandas DataFrame. `regions.to_frame()` has a row
        for each region."""
        return estimate_frame({name: getattr(self, name) for name in PARTS})


@takes_row_options
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
    """A lower bound of the loss due to rows with the same output and different probabilities
    (Perez-Lebel et al. 2023, Section 4).

    features : [rows, d] in any number format, a data frame, or a mapping of columns (text and
        booleans are categories); those of the `Predictions` unless given.
    lens : `TopLabel()` unless given; any lens with a single event; `Classwise()`, which sums over
        classes that are each binned by their own output (Appendix C.9); or `Full()`, the loss of
        the whole forecast (Definition 3.1), for the Brier score. With `Full()`, level sets are
        boxes of all outputs, and regions are learned from all classes at once. A regression within
        each box removes what differences between outputs explain. It has squares and products of
        outputs if the box has ten rows for each term. If the true curve is less smooth and the
        features predict the outputs, part of the curve counts as grouping loss.
    score : "brier", unbiased (Proposition 4.3); or "log", minus its mean for regions that do not
        differ.
    bins : the number of bins of equal width, or `EqualWidth`, `EqualMass` or `Edges`; with
        `Full()`, a `KDTree`, or the approximate number of boxes with equally many rows.
    regions : "tree", with one region for `region_ratio` rows or more (a bin with too few rows for
        three is split once, if each side keeps 5); "stump", two regions of two fifths of the rows
        or more; "balanced_stump", the halves of Perez-Lebel et al. 2023; "kmeans"; a list of column
        names, of the features or of the `Predictions`; any `Partition`; or a `Regions` choice.
    split : "cross-fit", where regions are learned from one half of the rows of each bin and
        evaluated on the other, both ways; "half", one way only, as in Perez-Lebel et al. 2023; or
        a boolean mask of the rows for evaluation. Known groups need no split. Clusters stay whole.
    curve : the continuous calibration curve: "local", local regression, whose variance is
        corrected for noise; or "knn", the nearest tenth of the rows (at most 2,000), as in the
        code of Perez-Lebel et al. 2023.
    induced : what binning adds to the explained loss: "regions", only the part that the regions
        explain; or "bins", all of it, as in Perez-Lebel et al. 2023, which gives a lower bound.
        Without any grouping loss the first bound is 0 on average, the second negative.
    recalibrate : also estimate the loss after isotonic recalibration.
    interval, resamples : 95% intervals from resampled rows (or clusters, see `Predictions`), with
        the regions held fixed.
    others : all rows, if these are a sample of them. All of them are then counted in the regions of
        the sample, and the interval of the sample is scaled by the root of the ratio of rows. This
        is how sources from `scan` with more rows than a sample are handled.

    >>> from probaudit import Binary
    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(10_000)
    >>> found = grouping_loss(world.y, world.scores, world.features, lens=Binary(), region_ratio=12)
    >>> bool(0.8 < found.lower_bound / world.grouping_loss < 1)
    True
    """
    joint = isinstance(lens, Full)
    rule, binning = _generator(score, lens or TopLabel()), _binning(bins, joint)
    if joint:
        _check_joint(rule, curve, recalibrate)
    _check_options(curve=curve, induced=induced, interval=interval, resamples=resamples)
    if (source := as_source(y_true, y_proba, **options)) is not None:
        _check_in_memory(features=features, split=None if isinstance(split, str) else split)
        evidence = Passing().evidence(source)
        predictions, others = evidence.sample, evidence.others
    else:
        predictions = rows_of(y_true, y_proba, **options)
        predictions.check_index("features", features)
    lens = error_lens(predictions, lens)
    choice, known = chosen_regions(regions, region_ratio, features, predictions)
    plan = GroupingPlan(
        rule=rule,
        bins=binning,
        regions=choice,
        features=known,
        split=_checked_split(split, len(predictions)),
        neighbours=curve == "knn",
        whole=induced == "bins",
        seed=seed,
    )
    words = Definition(
        lens, as_score(rule.name).words(), binning, _regions_words(choice), f"{curve} curve"
    )
    estimation = _Estimation(
        predictions=predictions,
        lens=lens,
        columns=tuple(regions) if isinstance(regions, (list, tuple)) else (),
        others=others,
        resamples=None if interval is None else resamples,
        words=words + f", induced in {induced}{_split_words(choice, split)}",
    )
    found = estimation.of(plan)
    if not recalibrate:
        return found
    return replace(found, recalibrated=estimation.of(replace(plan, recalibrate=True)))


@dataclass(frozen=True, eq=False)
class _Estimation:
    """The rows of a grouping loss, how they are resampled, and the definition in words.

    columns : the names of the columns whose values are the regions.
    others : see `grouping_loss`. resamples : None for no intervals.
    """

    predictions: Predictions
    lens: Lens
    columns: tuple[str, ...]
    others: Others | None
    resamples: int | None
    words: str

    def of(self, plan: GroupingPlan) -> GroupingLoss:
        """The grouping loss in the bins and regions of a plan."""
        joint, clusters = isinstance(self.lens, Full), _clusters(self.predictions)
        views = lens_rows(self.predictions, self.lens)
        events = [event for view in views for event in Event.of(view, clusters)]
        measured = (
            measure_joint(events, plan) if joint else [measure(event, plan) for event in events]
        )
        draws = None
        if self.resamples is not None:
            units = sampling_units(len(self.predictions), plan.seed, clusters)
            draws = resampled_parts(measured, units, self.resamples, plan.seed)
        classes = isinstance(self.lens, Classwise) or joint
        names = self.predictions.class_order if classes else None
        words = self.words + (", after isotonic regression" if plan.recalibrate else "")
        if self.others is None:
            return _assemble(measured, names, draws, words)
        if clusters is None and not joint:
            scale = _weight_scale(self.predictions, self.others)
            counted = count_all_rows(measured, self.others, self.lens, self.columns, scale)
            if counted is not None:
                return _of_all_rows(measured, *counted, names, draws, words)
        words += f", on a sample of {len(self.predictions):,} rows"
        return _assemble(measured, names, draws, words)


def _check_options(*, curve: Any, induced: Any, interval: Any, resamples: int) -> None:
    if curve not in ("local", "knn"):
        raise InputError("curve", 'must be "local" or "knn"', repr(curve))
    if induced not in ("regions", "bins"):
        raise InputError("induced", 'must be "regions" or "bins"', repr(induced))
    if interval not in ("percentile", None):
        raise InputError("interval", 'must be "percentile" or None', repr(interval))
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)


def _check_in_memory(**per_row: Any) -> None:
    """Raise if an argument with one value per row is given for rows that are not in memory."""
    for name, given in per_row.items():
        if given is not None:
            way_out = ("name columns of the source in `scan`",)
            raise InputError(name, "requires rows in memory", way_out=way_out)


def _split_words(choice: Regions | Partition, split: Any) -> str:
    if isinstance(choice, (GivenRegions, Partition)):
        return ""
    return f", {split}" if isinstance(split, str) else ", given split"


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
    level_sets: Partition = binning
    return level_sets


def _check_joint(rule: Generator, curve: str, recalibrate: bool) -> None:
    """Raise for options that `Full()` does not support."""
    if rule.name != "brier":
        # the regression within boxes may give probabilities below 0
        way_out = ("use ", Argument("lens", "Classwise()"))
        raise InputError("score", 'with Full() must be "brier"', repr(rule.name), way_out=way_out)
    if curve != "local":
        raise InputError("curve", 'with Full() must be "local"', repr(curve))
    if recalibrate:
        # isotonic regression has one output
        way_out = ("use a single event or ", Argument("lens", "Classwise()"))
        raise InputError("recalibrate", "with Full() must be False", True, way_out=way_out)


def _clusters(predictions: Predictions) -> np.ndarray | None:
    """The cluster of each row, if rows are dependent."""
    clusters = predictions.cluster_numbers
    if clusters is not None and len(np.unique(clusters[survey(predictions).good])) < 2:
        raise InputError(
            "clusters",
            "must be two or more for a grouping loss, as a single cluster has no variance",
        )
    return clusters


def _weight_scale(sample: Predictions, others: Others) -> float:
    """The factor from the weights of a sample, whose largest is 1, to those of the plan."""
    weights = others.plan.scaled(sample.sample_weight)
    return 1.0 if weights is None else float(weights[survey(sample).good].max())


def _of_all_rows(
    sample: list[Measured],
    measured: list[Measured],
    left_out: int,
    names: Sequence[Any] | None,
    draws: Any,
    words: str,
) -> GroupingLoss:
    """The loss of all rows (`measured`), with the resamples of the sample."""

    def size(one: Measured) -> float:
        return float(one.counts.weight.sum() ** 2 / one.counts.squared.sum())

    rows = int(sample[0].judged.sum())
    words += f", regions learned from a sample of {rows:,} rows and counted over all"
    words += f", {left_out:,} rows of groups that the sample lacks left out" if left_out else ""
    narrower = (size(sample[0]) / size(measured[0])) ** 0.5
    return _assemble(measured, names, draws, words, narrower)


def _regions_words(choice: Regions | Partition) -> str | Regions | Partition:
    return "given groups" if isinstance(choice, (GivenRegions, Column)) else choice


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
    """The result: sums over events as estimates, and the table of their regions.

    narrower : a factor of the deviations of resamples.
    """
    by_event = np.stack([one.values for one in measured])
    values = by_event.sum(axis=0)
    rated, judged = int(measured[0].rows.sum()), int(measured[0].bin_sums.rows.sum())
    thin = sum(int(one.explained.thin.sum()) for one in measured)
    unit = "row" if measured[0].event.clusters is None else "cluster"
    words += f", {thin} regions of one {unit} left out" if thin else ""
    searched = float(np.mean([one.searched for one in measured]))
    words += f", {searched:.0%} of the rows searched" if searched < 1 else ""
    deviations = None
    if draws is not None:
        # centred, because a resample has the bias of the rows and its own bias
        with np.errstate(invalid="ignore"):
            deviations = narrower * (draws - _finite_means(draws))
    estimates: dict[str, Any] = {}
    for k, (name, value) in enumerate(zip(PARTS, values, strict=True)):
        estimates[name] = Estimate(
            value,
            n=judged if name == "calibration_loss" else rated,
            definition=f"{name.replace('_', ' ')}, " + words,
            per_class={}
            if names is None
            else dict(zip(names, by_event[:, k].tolist(), strict=True)),
        )
        if deviations is not None and np.isfinite(value) and np.isfinite(deviations[:, k]).any():
            finite = deviations[np.isfinite(deviations[:, k]), k]
            estimates[name].low, estimates[name].high = percentile(finite + value)
    table, region_of = region_table(measured, names)
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
        diagram=_grouping_rates(measured[0]) if single else None,
        definition="grouping loss, " + words,
        given_groups=isinstance(measured[0].plan.regions, (GivenRegions, Column)),
        deviations=deviations,
    )


def _finite_means(draws: np.ndarray) -> np.ndarray:
    """The mean of each column's finite values."""
    finite = np.isfinite(draws)
    return np.asarray(np.where(finite, draws, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1))


def _grouping_rates(one: Measured) -> GroupingRates:
    assignment, counts, sums = one.assignment, one.counts, one.bin_sums
    observed, size = counts.hits / counts.weight, counts.weight**2 / counts.squared
    if counts.moments is not None:
        size = counts.moments[0].tested_size(observed, counts.weight, size)
    low, high = clopper_pearson(observed, size)
    expected = one.level_rate[assignment.level]
    return GroupingRates(
        stated=sums.predicted / sums.weight,
        observed=sums.hits / sums.weight,
        rows=sums.rows.astype(np.int64),
        region_bin=np.searchsorted(sums.number, assignment.bin),
        region_stated=one.predicted / counts.weight,
        region_observed=observed,
        region_low=low,
        region_high=high,
        region_rows=one.rows,
        region_differs=(expected < low) | (expected > high),
        region_rule=np.array([assignment.rule(int(one)) for one in assignment.group], object),
    )


def _checked_split(split: Any, rows: int) -> np.ndarray | str:
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


def grouping_rates(
    y_true: Any,
    y_proba: Any = None,
    features: Any = None,
    *,
    bins: int | Partition = 10,
    regions: Any = "stump",
    split: Any = "half",
    **options: Any,
) -> GroupingRates:
    """The data of a grouping diagram: the calibration curve, and two regions of each bin, learned
    from one half of the rows and evaluated on the other (Perez-Lebel et al. 2023, Figure 5). The
    arguments are those of `grouping_loss`, for a single event.
    """
    found = grouping_loss(
        y_true, y_proba, features, bins=bins, regions=regions, split=split, interval=None, **options
    )
    if found.diagram is None:
        raise InputError("lens", "must have a single event")
    return found.diagram
