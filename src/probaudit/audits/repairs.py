"""Repairs: calibrators compared out of fold, by proper scores and by calibration errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration.dependent_event import DependentEvent
from ..calibration.errors import calibration_error
from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import (
    FEWER_RESAMPLES,
    half_width,
    mean_influence,
    quantile,
    unit_terms,
)
from ..calibration.validation import agreement
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss, default_calibrator
from ..calibrators.folds import FOLDS, Folds, folds_of
from ..calibrators.one_standard_error import choose_calibrator, correction_words
from ..calibrators.outputs import Outputs, shares
from ..calibrators.registry import CONTROL, METHODS, calibrator_named
from ..calibrators.selection import default_candidates
from ..choices.lenses import Binary, Classwise, Groups, Lens, TopK, TopLabel, default_lens
from ..choices.scores import Brier, Log
from ..data.populations import MOST_VALUES
from ..data.predictions import Predictions
from ..data.work import Progress
from ..engines.good_rows import survey
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.clusters import ClusteredRows, Clusters
from ..scoring.events import EventTable
from ..scoring.expected_scores import estimate_score
from ..scoring.intervals import wilson
from ..scoring.proper_scores import brier_score, log_score
from ..states.evidence import RANKS, Evidence
from ..text import counted
from .lens_error import WIDTH, LensError, binned_error, definition_of

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

SHOWN_RANK = 5
DEFAULT = "bias_corrected_temperature"  # the calibrator of the calibration loss
ROUNDING = 1e-12
TIED = "tied with the best"
VISIBLE = 0.0005  # share of the log loss from which the table shows a difference
FAR = 0.2  # share of the log loss from which a difference is never called a tie


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """The calibrated probabilities of the rows of a calibration loss. `pairs` : whether these are
    confidences in stated answers."""

    loss: CalibrationLoss
    calibrated: Predictions
    pairs: bool = False

    def grid(self, lens: Lens) -> FineGrid:
        """The event of a lens on a fine grid."""
        return _grid(self.calibrated, lens)

    @cached_property
    def judged(self) -> EventTable:
        """The judged event."""
        return EventTable.of(self.calibrated, default_lens(self.calibrated))

    @cached_property
    def top(self) -> EventTable:
        """Whether the most probable class is true, or the stated answer right."""
        same = self.pairs or default_lens(self.calibrated) == TopLabel()
        return self.judged if same else EventTable.of(self.calibrated, TopLabel())


@dataclass(frozen=True, eq=False)
class Repair:
    """The out-of-fold performance of a calibrator; "identity" leaves the outputs uncalibrated.

    normalized : the log loss divided by that of the base-rate forecast.
    gain : the share of the log loss that it removes. The gain of the selected calibrator is
        corrected for the choice (see `one_standard_error.corrected_gain`), unless it is
        "identity", which gains nothing. Its `log_score` and `normalized` have the same correction:
        `normalized` is that of the original outputs (of all rows, if these are a sample) times
        1 - gain.
    worse_by : the log loss minus that of the best calibrator, for paired rows.
    brier_change : the Brier score minus that of the uncalibrated outputs, for paired rows.
    ece, topk_ece : the calibration errors of the top label, and of the event that the true class is
        among the k most probable (k = 5, or 2 with few classes), with 15 equal bins.
    ece_chance, topk_chance : the 95% points of these errors for a calibrated model.
    predicted, observed, gap : the mean output and the rate of the judged event, and their
        difference.
    grid : the judged event on a fine grid, for diagrams.
    out_of_fold : the calibrated rows, of the selected calibrator only.
    selected : by the rule of `select_calibrator`: the simplest calibrator whose log loss is within
        one standard error of the best.
    recommended : whether the verdict advises it (see `advised`).
    control : mean replacement, shown as a warning and never recommended.
    words : a comment for the report.
    """

    name: str
    log_score: Estimate
    normalized: Estimate
    brier_score: Estimate
    accuracy: Estimate
    gain: Estimate
    worse_by: Estimate
    brier_change: Estimate
    ece: Estimate
    ece_chance: float
    classwise_ece: Estimate
    topk_ece: Estimate
    topk_chance: float
    predicted: Estimate
    observed: Estimate
    gap: Estimate
    selected: bool
    recommended: bool
    control: bool
    words: str
    grid: FineGrid = field(repr=False)
    out_of_fold: OutOfFold | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        return title_of(self.name)

    @property
    def gloss(self) -> str:
        """What the calibrator does."""
        return METHODS[self.name][1].gloss

    @property
    def corrects_groups(self) -> bool:
        """Whether it uses groups or features."""
        return bool(METHODS[self.name][0].needs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "selected": self.selected,
            "recommended": self.recommended,
            "control": self.control,
            "words": self.words,
        }
        names = (
            "log_score",
            "normalized",
            "brier_score",
            "accuracy",
            "gain",
            "worse_by",
            "ece",
            "classwise_ece",
            "topk_ece",
            "predicted",
            "observed",
            "gap",
        )
        values |= {name: getattr(self, name).to_dict() for name in names}
        limits = {"ece_chance": self.ece_chance, "topk_chance": self.topk_chance}
        return values | {
            name: value if math.isfinite(value) else None for name, value in limits.items()
        }


def helps(repair: Repair | None, material: float) -> bool:
    """Whether the selected calibrator removes a material share of the log loss."""
    if repair is None or repair.name == "identity":
        return False
    if not math.isfinite(repair.gain):  # the log loss was infinite
        return math.isfinite(repair.log_score)
    return repair.gain >= material and repair.gain.low > 0


def advised(repairs: Sequence[Repair], grade: str) -> tuple[Repair, ...]:
    """The repairs after the verdict: the selected one is recommended if the grade is "recalibrate";
    to change nothing, if it is "use"; nothing, if the probabilities are useless or the rows cannot
    tell."""
    selected = next((one.name for one in repairs if one.selected), None)
    named = {"recalibrate": selected, "use": selected and "identity"}.get(grade)
    return tuple(
        replace(one, recommended=one.name == named, words=_words_by_grade(one, grade))
        for one in repairs
    )


def _words_by_grade(repair: Repair, grade: str) -> str:
    """The comment on a repair, once the grade is known."""
    if grade == "use" and repair.name == "identity":
        return "recommended: no repair is needed"
    if not repair.selected or repair.name == "identity":
        return repair.words
    return {
        "use": "the best choice, but its gain is too small or too uncertain to matter",
        "cannot_tell": "the best choice so far, not distinguishable from the original",
        "do_not_use": "the best choice, but no better than the base-rate forecast",
    }.get(grade, repair.words)


def title_of(name: str) -> str:
    """The name of a calibrator in a sentence.

    >>> title_of("bias_corrected_temperature")
    'bias-corrected temperature'
    """
    words = calibrator_named(name).words()
    return f"{words} (control)" if name == CONTROL else words


def candidates(outputs: Outputs, *, pairs: bool = False) -> dict[str, Calibrator]:
    """The calibrators to compare, from the simplest to the most flexible: the candidates of
    `select_calibrator`, isotonic regression that may reach 0 and 1, and the control.

    pairs : whether outputs are confidences. Mean replacement then puts all rows into one bin.
    """
    from ..calibrators.binning import HistogramBinning

    names = default_candidates(outputs, comparisons=True)
    chosen = {name: calibrator_named(name) for name in names}
    return chosen | ({CONTROL: HistogramBinning(bins=1)} if pairs else {})


@dataclass(frozen=True, eq=False)
class Trial:
    """One calibrator on the sample, out of fold.

    log, brier : the scores of each row. share : the share of each row in a mean.
    clusters : of the rows, if they are dependent.
    numbers : the fields of `Repair` that need no comparison with other calibrators.
    """

    log: np.ndarray
    brier: np.ndarray
    share: np.ndarray
    clusters: Clusters | None
    numbers: dict[str, Any]
    out_of_fold: OutOfFold


def group_columns_of(sample: Predictions, regions: Any = None) -> str | tuple[str, ...] | None:
    """The columns whose groups a calibrator may use: those that `regions` names, or all, without
    columns that have missing or too many values."""
    columns = list(sample.columns or ())
    named = (
        [regions]
        if isinstance(regions, str)
        else list(regions)
        if isinstance(regions, (list, tuple))
        else columns
    )
    if not all(isinstance(name, str) and name in columns for name in named):
        return None
    named = [name for name in named if _has_groups((sample.columns or {})[name])]
    return tuple(named) if len(named) > 1 else named[0] if named else None


def _has_groups(values: np.ndarray) -> bool:
    from ..calibrators.combining import group_column, group_values, range_edges

    try:
        groups = group_column(values, len(values))
    except InputError:
        return False
    return len(np.unique(group_values(groups, range_edges(groups)))) <= MOST_VALUES


def compare_repairs(
    evidence: Evidence,
    default_loss: CalibrationLoss | None = None,
    *,
    regions: Any = None,
    every: bool = True,
    progress: bool | None = None,
) -> tuple[Repair, ...]:
    """All candidates on the sample, with the same folds.

    default_loss : the calibration loss of the default calibrator, if already known.
    regions : as in `audit`. A single column, named here or the only one of the rows, adds a
        calibrator for each of its groups. Columns add multicalibration, and features of the rows
        add group calibration and multicalibration.
    every : whether to compare all candidates, or only the default one with the original outputs.
    """
    sample, groups = evidence.sample, group_columns_of(evidence.sample, regions)
    outputs = Outputs.of(sample, groups)
    folds = folds_of(outputs, FOLDS, len(sample), seed=0)
    chosen: dict[str, Calibrator] = (
        candidates(outputs, pairs=sample.pairs)
        if every
        else {name: calibrator_named(name) for name in ("identity", DEFAULT)}
    )
    where = f"out of fold ({folds.words}){evidence.sample_words}"
    trials = {}
    with Progress(len(chosen), progress, unit="calibrators") as bar:
        for name, calibrator in chosen.items():
            known = default_loss if type(calibrator) is type(default_calibrator()) else None
            loss = _out_of_fold(sample, calibrator, groups, folds) if known is None else known
            trials[name] = _trial(sample, loss, where)
            bar.advance(1)
    selected, best = _choose(trials, where)
    _correct_scores(trials, selected, evidence)
    raw, lowest = trials["identity"].brier, trials[best or "identity"].log
    brier_words = f"Brier score less that of the uncalibrated outputs, paired rows, {where}"
    log_words = f"log score less that of the best repair, paired rows, {where}"
    repairs: list[Repair] = []
    for name, trial in trials.items():
        worse_by = _gap(trial.log, lowest, trial, log_words)
        same = next(
            (one for one in repairs if np.array_equal(trials[one.name].log, trial.log)), None
        )
        comment = _comment(
            name,
            selected=selected,
            best=best,
            worse=worse_by.low > VISIBLE * float(lowest @ trials[name].share),
            far=worse_by > FAR * float(lowest @ trials[name].share),
            gain=trial.numbers["gain"],
            infinite_rows=trial.numbers["log_score"].infinite_rows,
        )
        if same is not None and selected not in (name, same.name):
            comment = f"the same as {same.title}"
        repairs.append(
            Repair(
                name=name,
                **trial.numbers,
                worse_by=worse_by,
                brier_change=_gap(trial.brier, raw, trial, brier_words),
                selected=name == selected,
                recommended=name == selected,
                control=name == CONTROL,
                words=comment,
                out_of_fold=trial.out_of_fold if name == selected else None,
            )
        )
    return _with_simpler_ties(repairs) if selected == best else tuple(repairs)


def _with_simpler_ties(repairs: list[Repair]) -> tuple[Repair, ...]:
    """The repairs; the best one says which simpler one is tied with it, if one is: the first."""
    place = next((k for k, one in enumerate(repairs) if one.selected), 0)
    simpler = [one.title for one in repairs[:place] if one.words == TIED]
    if simpler:
        words = f"{repairs[place].words}; {simpler[0]} is simpler and tied with it"
        repairs[place] = replace(repairs[place], words=words)
    return tuple(repairs)


def _choose(trials: dict[str, Trial], where: str) -> tuple[str, str]:
    """The names of the selected calibrator, by the rule of `select_calibrator`, and of the best.
    Corrects the gain of the former."""
    names = [name for name in trials if METHODS[name][1].role == "candidate"]
    raw = trials["identity"]
    clusters = None if raw.clusters is None else raw.clusters.number
    losses = {name: trials[name].log for name in names}
    choice = choose_calibrator(losses, raw.log, raw.share, clusters, eligible=names)
    if choice is None:
        return "", ""
    first, (value, low, high) = choice.chosen, choice.gain
    if first != "identity" and len(names) > 2 and math.isfinite(value):
        removed = f"share of the log score removed by {title_of(first)}, {where}"
        words = f"{removed}, {correction_words(len(names))}"
        gain = Estimate(value, low=low, high=high, n=len(raw.log), definition=words)
        trials[first].numbers["gain"] = gain
    return first, choice.best


def _correct_scores(trials: dict[str, Trial], selected: str, evidence: Evidence) -> None:
    """Let the log loss of the selected calibrator agree with its gain."""
    if selected in ("", "identity"):
        return
    numbers = trials[selected].numbers
    left = 1 - float(numbers["gain"])
    whole = estimate_score(evidence.summary, Log(), normalize=True)
    if not (math.isfinite(left) and math.isfinite(whole)):
        return
    raw = float(trials["identity"].numbers["log_score"])
    for name, value in (("log_score", raw * left), ("normalized", whole * left)):
        numbers[name] = numbers[name].moved_to(value)


def _out_of_fold(
    sample: Predictions,
    calibrator: Calibrator,
    groups: str | tuple[str, ...] | None,
    folds: Folds,
) -> CalibrationLoss:
    groups = groups if "groups" in calibrator.takes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores show whether a fit failed
        return calibration_loss(sample, calibrator=calibrator, groups=groups, cv=folds)


def _trial(sample: Predictions, loss: CalibrationLoss, where: str) -> Trial:
    """The scores of each row and the estimates of one calibrator. `where` ends the definitions."""
    weights = None if sample.sample_weight is None else sample.sample_weight[loss.rows]
    calibrated = Predictions(
        sample.codes[loss.rows],
        np.clip(loss.posteriors, 0, 1),
        sample_weight=weights,
        clusters=None if sample.clusters is None else sample.clusters[loss.rows],
        tolerance=1e-6,
        event=sample.event_column,
    )
    survey(calibrated)  # one pass for all numbers
    n = len(calibrated)
    share = shares(np.ones(n) if weights is None else weights)
    clusters = None
    if calibrated.clusters is not None:
        clusters = ClusteredRows(calibrated, np.arange(n)).clusters
    log, brier = (rule.score(calibrated.probs, calibrated.codes) for rule in (Log(), Brier()))
    brier_words = f"mean Brier score, summed over classes, {where}"
    shared = replace(loss, posteriors=calibrated.probs)  # one copy of the outputs
    out_of_fold = OutOfFold(shared, calibrated, sample.pairs)
    numbers = {
        "log_score": Estimate(
            loss.calibrated,
            low=loss.calibrated.low,
            high=loss.calibrated.high,
            n=n,
            definition=f"mean log score, {where}",
            infinite_rows=int(np.isinf(log).sum()),
        ),
        "normalized": _normalized(calibrated, where),
        "brier_score": _tidy(brier_score(calibrated), brier_words),
        **_agreement(out_of_fold.judged, where),
        "accuracy": _accuracy(calibrated, share, clusters, where, pairs=sample.pairs),
        "gain": _tidy(loss.relative, f"share of the log score removed, {where}"),
        **_errors(calibrated, clusters, where, pairs=sample.pairs),
    }
    return Trial(log, brier, share, clusters, numbers, out_of_fold)


def _normalized(calibrated: Predictions, where: str) -> Estimate:
    x = log_score(calibrated, normalize=True)
    return Estimate(x, low=x.low, high=x.high, n=x.n, definition=f"{x.definition}, {where}")


def _agreement(event: EventTable, where: str) -> dict[str, Estimate]:
    return {
        name: Estimate(x, low=x.low, high=x.high, n=x.n, definition=f"{x.definition}, {where}")
        for name, x in agreement(event).items()
    }


def _accuracy(
    calibrated: Predictions,
    share: np.ndarray,
    clusters: Clusters | None,
    where: str,
    *,
    pairs: bool,
) -> Estimate:
    """pairs : whether outputs are confidences. Recalibration does not change whether an answer is
    right."""
    right = calibrated.codes == 1 if pairs else calibrated.probs.argmax(axis=1) == calibrated.codes
    value = float(share @ right)
    low, high = wilson(value, 1 / float(share @ share) / _widening(clusters, right - value) ** 2)
    what = "share of rows whose most probable class is the true one"
    words = f"{'share of rows stated correct' if pairs else what}, {where}"
    return Estimate(value, low=low, high=high, n=len(calibrated), definition=words)


def _errors(
    calibrated: Predictions, clusters: Clusters | None, where: str, *, pairs: bool
) -> dict[str, Any]:
    """The calibration errors of the event or the top label, of each class on average, and of the k
    most probable classes."""
    k = _rank(calibrated.n_classes)
    lens = default_lens(calibrated)
    words = definition_of(TopLabel() if pairs else lens) + f", {where}"
    judged = _error(calibrated, lens, words, clusters)
    rank_words = definition_of(f"true class among the {k} most probable") + f", {where}"
    rank = _error(calibrated, among(k), rank_words, clusters) if k else None
    classwise = math.nan if pairs else float(calibration_error(calibrated, lens=Classwise()))
    classwise_words = definition_of(Classwise()) + f", {where}"
    return {
        "grid": _grid(calibrated, lens),
        "ece": _tidy(judged.estimate, judged.estimate.definition),
        "ece_chance": judged.null_high,
        "classwise_ece": Estimate(classwise, n=len(calibrated), definition=classwise_words),
        "topk_ece": Estimate(math.nan) if rank is None else rank.estimate,
        "topk_chance": math.nan if rank is None else rank.null_high,
    }


def _tidy(x: Estimate, words: str) -> Estimate:
    """The estimate without rounding errors, which occur for unchanged outputs and for a constant
    confidence."""
    value, low, high = (0.0 if abs(part) < ROUNDING else part for part in (float(x), x.low, x.high))
    return Estimate(value, low=low, high=high, n=x.n, definition=words)


def _widening(clusters: Clusters | None, influence: np.ndarray) -> float:
    return 1.0 if clusters is None else clusters.widening(influence)


def _gap(scores: np.ndarray, others: np.ndarray, trial: Trial, words: str) -> Estimate:
    """The mean of paired differences. Infinite scores have no interval."""
    share, number = trial.share, None if trial.clusters is None else trial.clusters.number
    with np.errstate(invalid="ignore"):
        value = float(share @ scores) - float(share @ others)
        terms = unit_terms(mean_influence(scores - others, share), share, number)
        half = half_width(terms, quantile(number))
    return Estimate(value, low=value - half, high=value + half, n=len(scores), definition=words)


def _comment(
    name: str,
    *,
    selected: str,
    best: str,
    worse: bool,
    far: bool,
    gain: Estimate,
    infinite_rows: int,
) -> str:
    """The comment on a calibrator in the report. If none is selected, each is compared with the
    original outputs. far : whether the loss is much larger than the lowest, clearly or not."""
    if name == CONTROL:
        return "control, never recommended: every row gets the same confidence"
    if name == selected == "identity":
        return "no calibrator is clearly better"
    if name == selected:
        return (
            "recommended: the best log loss"
            if name == best
            else f"recommended: simpler than {title_of(best)}, and within one standard error of it"
        )
    if infinite_rows:
        return f"infinite log loss: in {counted(infinite_rows)} the outcome has probability 0"
    if selected == "identity" and gain.low <= 0:
        if gain.high < 0:
            return f"{'worse' if gain.high < -VISIBLE else 'hardly worse'} than the original"
        return "tied with the original"
    if name == best:
        return "the best log loss, but tied with a simpler one"
    if far and not worse:  # the interval is wide
        return "possibly worse than the best"
    return "worse than the best" if worse else TIED


def _rank(classes: int) -> int:
    """The k whose error is shown; 0 for two classes, for which there is none."""
    return 0 if classes <= RANKS[0] else SHOWN_RANK if classes > SHOWN_RANK else RANKS[0]


def among(k: int) -> Lens:
    """The event that the true class is among the k most probable (Kirchenbauer et al. 2022, Eq. 4
    and 5)."""
    return TopK(k) | Groups([[k], list(range(k))]) | Binary()


def _grid(calibrated: Predictions, lens: Lens) -> FineGrid:
    (view,) = lens.views(calibrated.probs, calibrated.codes)
    weights = (
        np.ones(len(calibrated))
        if calibrated.sample_weight is None
        else calibrated.sample_weight / calibrated.sample_weight.max()
    )
    return FineGrid.of_view(view, weights)


def _error(calibrated: Predictions, lens: Lens, words: str, clusters: Clusters | None) -> LensError:
    (view,) = lens.views(calibrated.probs, calibrated.codes)
    event = None if clusters is None else DependentEvent(view, clusters)
    grid = _grid(calibrated, lens)
    return binned_error("ece", grid, WIDTH, words, resamples=FEWER_RESAMPLES, event=event)
