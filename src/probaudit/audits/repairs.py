"""Repairs compared: what each calibrator makes of rows it did not see, by proper scores and by
calibration errors."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
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
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss, default_calibrator
from ..calibrators.folds import FOLDS
from ..calibrators.one_standard_error import choose_calibrator, correction_words
from ..calibrators.outputs import Outputs, shares
from ..calibrators.registry import CONTROL, METHODS, calibrator_named
from ..calibrators.selection import default_candidates
from ..choices.lenses import Binary, Classwise, Groups, Lens, TopK, TopLabel
from ..choices.scores import Brier, Log
from ..data.predictions import Predictions
from ..data.work import Progress
from ..estimate import Estimate
from ..scoring.clusters import ClusteredRows, Clusters
from ..scoring.intervals import wilson
from ..scoring.proper_scores import brier_score
from ..states.evidence import RANKS, Evidence
from ..text import counted
from .lens_errors import WIDTH, LensError, binned_error, definition_of

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

SHOWN_RANK = 5
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Repair:
    """A calibrator as its out-of-fold probabilities show it; "identity" leaves the outputs
    uncalibrated.

    gain : the share of the log loss that it removes. That of the recommended one is corrected for
        the choice (see `one_standard_error.corrected_gain`), unless it is "identity", which
        gains nothing.
    worse_by : the log score less that of the best, for paired rows. brier_change : the Brier score
        less that of the uncalibrated outputs, likewise.
    ece, topk_ece : of the top label, and of the true class being among the k most probable (5, or 2
        where there are few classes), with 15 equal bins; `ece_chance`, `topk_chance` the 95% point
        of the same for a calibrated model.
    recommended : by the rule of `select_calibrator`: the simplest whose log score is within one
        standard error of the best.
    control : mean replacement, which is shown as a warning and never recommended.
    words : what is to be said about it.
    """

    name: str
    log_score: Estimate
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
    recommended: bool
    control: bool
    words: str

    @property
    def title(self) -> str:
        return title_of(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "recommended": self.recommended,
        }
        found |= {"control": self.control, "words": self.words}
        names = (
            "log_score",
            "brier_score",
            "accuracy",
            "gain",
            "worse_by",
            "ece",
            "classwise_ece",
            "topk_ece",
        )
        found |= {name: getattr(self, name).to_dict() for name in names}
        chance = {"ece_chance": self.ece_chance, "topk_chance": self.topk_chance}
        return found | {
            name: value if math.isfinite(value) else None for name, value in chance.items()
        }


def title_of(name: str) -> str:
    """What a calibrator is called in a sentence.

    >>> title_of("bias_corrected_temperature")
    'bias-corrected temperature'
    """
    words = calibrator_named(name).words()
    return f"{words} (control)" if name == CONTROL else words


def candidates(outputs: Outputs, *, pairs: bool = False) -> dict[str, Calibrator]:
    """The calibrators that are compared, from the simplest to the most flexible: the candidates of
    `select_calibrator`, and isotonic regression that may reach 0 and 1.

    pairs : of a stated confidence; to replace it by the mean accuracy is then to put all rows into
        one bin.
    """
    from ..calibrators.binning import HistogramBinning

    names = default_candidates(outputs, comparisons=True)
    found = {name: calibrator_named(name) for name in names}
    return found | ({CONTROL: HistogramBinning(bins=1)} if pairs else {})


def too_few(rows_by_class: np.ndarray) -> str:
    """Why rows are too few to try a calibrator on them; nothing if they are enough.

    >>> too_few(np.array([7, 1])), too_few(np.array([7, 2]))
    ('not tried: it needs two classes of two rows or more, one of them of five', '')
    """
    enough = (rows_by_class >= 2).sum() >= 2 and rows_by_class.max() >= FOLDS
    return (
        "" if enough else "not tried: it needs two classes of two rows or more, one of them of five"
    )


@dataclass(frozen=True, eq=False)
class Trial:
    """What a calibrator made of the sample: its log and Brier scores row by row, the share of each
    row, their clusters if they have any, and all but a comparison."""

    log: np.ndarray
    brier: np.ndarray
    share: np.ndarray
    clusters: Clusters | None
    numbers: dict[str, Any]


def group_column_of(sample: Predictions, regions: Any = None) -> str | None:
    """The column whose groups may have calibrators of their own: the one that `regions` names, or
    the only one there is."""
    columns = list(sample.columns or ())
    named = (
        [regions]
        if isinstance(regions, str)
        else list(regions)
        if isinstance(regions, (list, tuple))
        else columns
    )
    known = [name for name in named if isinstance(name, str) and name in columns]
    return known[0] if len(known) == len(named) == 1 else None


def compare_repairs(
    evidence: Evidence,
    tried: CalibrationLoss | None = None,
    *,
    regions: Any = None,
    progress: bool | None = None,
) -> tuple[Repair, ...]:
    """All candidates on the sample, out of the same folds. `tried` is what the usual calibrator has
    shown already.

    regions : as in `audit`; a single column, named there or the only one of the rows, offers a
        calibrator for each of its groups. Features of the rows offer group calibration.
    """
    sample, groups = evidence.sample, group_column_of(evidence.sample, regions)
    chosen = candidates(Outputs.of(sample, groups), pairs=sample.pairs)
    where = f"out of fold ({_fold_words(sample)}){evidence.sample_words}"
    trials = {}
    with Progress(len(chosen), progress, unit="calibrators") as bar:
        for name, calibrator in chosen.items():
            own = groups if calibrator.takes == "groups" else None
            trials[name] = _trial(sample, calibrator, own, tried, where)
            bar.advance(1)
    first, best = _choose(trials, where)
    raw, words = (
        trials["identity"].brier,
        f"Brier score less that of the uncalibrated outputs, paired rows, {where}",
    )
    changes = {name: _gap(trial.brier, raw, trial, words) for name, trial in trials.items()}
    lowest, words = (
        trials[best or "identity"].log,
        f"log score less that of the best repair, paired rows, {where}",
    )
    gaps = {name: _gap(trial.log, lowest, trial, words) for name, trial in trials.items()}
    found = []
    for name, trial in trials.items():
        control = name == CONTROL
        words = _words(
            name, first, best, gaps[name], trial.numbers["log_score"].infinite_rows, control
        )
        more: Any = {"recommended": name == first, "control": control, "words": words}
        found.append(
            Repair(
                name=name, **trial.numbers, worse_by=gaps[name], brier_change=changes[name], **more
            )
        )
    return tuple(found)


def _fold_words(sample: Predictions) -> str:
    from ..calibrators.folds import fold_words

    return fold_words(FOLDS, clustered=sample.clusters is not None, stratify=False)


def _choose(trials: dict[str, Trial], where: str) -> tuple[str, str]:
    """The names of the recommended and of the best one, by the rule of `select_calibrator`;
    corrects the gain of the former."""
    names = [name for name in trials if METHODS[name][1].role == "candidate"]
    raw = trials["identity"]
    clusters = None if raw.clusters is None else raw.clusters.number
    losses = {name: trials[name].log for name in names}
    found = choose_calibrator(losses, raw.log, raw.share, clusters, eligible=names)
    if found is None:
        return "", ""
    first, (value, low, high) = found.chosen, found.gain
    if first != "identity" and math.isfinite(value):
        removed = f"share of the log score removed by {title_of(first)}, {where}"
        words = f"{removed}, {correction_words(len(names))}"
        gain = Estimate(value, low=low, high=high, n=len(raw.log), definition=words)
        trials[first].numbers["gain"] = gain
    return first, found.best


def _trial(
    sample: Predictions,
    calibrator: Calibrator,
    groups: str | None,
    tried: CalibrationLoss | None,
    where: str,
) -> Trial:
    """Large arrays are let go of before the next is tried."""
    known = tried if type(calibrator) is type(default_calibrator()) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what becomes of a fit is seen in its scores
        found = (
            calibration_loss(sample, calibrator=calibrator, groups=groups, cv=FOLDS)
            if known is None
            else known
        )
    weights = None if sample.sample_weight is None else sample.sample_weight[found.rows]
    seen = Predictions(
        sample.codes[found.rows],
        np.clip(found.posteriors, 0, 1),
        sample_weight=weights,
        clusters=None if sample.clusters is None else sample.clusters[found.rows],
        tolerance=1e-6,
    )
    share = shares(np.ones(len(seen)) if weights is None else weights)
    clusters = None if seen.clusters is None else ClusteredRows(seen, np.arange(len(seen))).clusters
    log, brier = (rule.score(seen.probs, seen.codes) for rule in (Log(), Brier()))
    numbers = _numbers(seen, share, log, brier, found, where, clusters, pairs=sample.pairs)
    return Trial(log, brier, share, clusters, numbers)


def _numbers(
    seen: Predictions,
    share: np.ndarray,
    log: np.ndarray,
    brier: np.ndarray,
    found: CalibrationLoss,
    where: str,
    clusters: Clusters | None,
    *,
    pairs: bool,
) -> dict[str, Any]:
    """pairs : of a stated confidence, whose answer is right or wrong whatever becomes of the
    confidence."""
    n, k = len(seen), _rank(seen.n_classes)
    after, infinite = found.calibrated, int(np.isinf(log).sum())
    in_rows = seen.codes == 1 if pairs else seen.probs.argmax(axis=1) == seen.codes
    hits = float(share @ in_rows)
    right = "share of rows whose most probable class is the true one"
    right = "share of rows stated correct" if pairs else right
    low, high = wilson(hits, 1 / float(share @ share) / _widening(clusters, in_rows - hits) ** 2)
    top = _error(
        seen, Binary() if pairs else TopLabel(), definition_of(TopLabel()) + f", {where}", clusters
    )
    words = definition_of(f"true class among the {k} most probable") + f", {where}"
    rank = _error(seen, among(k), words, clusters) if k else None
    classwise = math.nan if pairs else float(calibration_error(seen, lens=Classwise()))
    return {
        "log_score": Estimate(
            after,
            low=after.low,
            high=after.high,
            n=n,
            definition=f"mean log score, {where}",
            infinite_rows=infinite,
        ),
        "brier_score": _tidy(brier_score(seen), f"mean Brier score, summed over classes, {where}"),
        "accuracy": Estimate(hits, low=low, high=high, n=n, definition=f"{right}, {where}"),
        "gain": _tidy(found.relative, f"share of the log score removed, {where}"),
        "ece": _tidy(top.estimate, top.estimate.definition),
        "ece_chance": top.null_high,
        "classwise_ece": Estimate(
            classwise, n=n, definition=definition_of(Classwise()) + f", {where}"
        ),
        "topk_ece": Estimate(math.nan) if rank is None else rank.estimate,
        "topk_chance": math.nan if rank is None else rank.null_high,
    }


def _tidy(x: Estimate, words: str) -> Estimate:
    """The same without rounding errors: of outputs that are as they were, or of one confidence for
    all."""
    value, low, high = (0.0 if abs(part) < ROUNDING else part for part in (float(x), x.low, x.high))
    return Estimate(value, low=low, high=high, n=x.n, definition=words)


def _widening(clusters: Clusters | None, influence: np.ndarray) -> float:
    return 1.0 if clusters is None else clusters.widening(influence)


def _gap(scores: np.ndarray, others: np.ndarray, trial: Trial, words: str) -> Estimate:
    """The mean of paired differences; infinite scores have no interval."""
    share, number = trial.share, None if trial.clusters is None else trial.clusters.number
    with np.errstate(invalid="ignore"):
        value = float(share @ scores) - float(share @ others)
        terms = unit_terms(mean_influence(scores - others, share), share, number)
        half = half_width(terms, quantile(number))
    return Estimate(value, low=value - half, high=value + half, n=len(scores), definition=words)


def _words(name: str, chosen: str, best: str, gap: Estimate, infinite: int, control: bool) -> str:
    if control:
        return (
            "control: everybody gets the same confidence, which no calibration error punishes;"
            " never recommended"
        )
    if name == chosen:
        return (
            "recommended: the best log loss"
            if name == best
            else f"recommended: simpler than {title_of(best)}, and as good"
        )
    if infinite:
        rows = counted(infinite)
        return f"in {rows} what happened has probability 0: an infinite log loss"
    if name == best:
        return "the best log loss, but tied with a simpler one"
    return "tied with the best" if gap.low <= 0 else "worse than the best"


def _rank(classes: int) -> int:
    """The k whose error is shown; 0 for two classes, where there is none."""
    return 0 if classes <= RANKS[0] else SHOWN_RANK if classes > SHOWN_RANK else RANKS[0]


def among(k: int) -> Lens:
    """Whether the true class is among the k most probable, as one event (Kirchenbauer et al. 2022,
    Eq. 4 and 5)."""
    return TopK(k) | Groups([[k], list(range(k))]) | Binary()


def _error(seen: Predictions, lens: Lens, words: str, clusters: Clusters | None) -> LensError:
    (view,) = lens.views(seen.probs, seen.codes)
    weights = (
        np.ones(len(seen))
        if seen.sample_weight is None
        else seen.sample_weight / seen.sample_weight.max()
    )
    event = None if clusters is None else DependentEvent(view, clusters)
    return binned_error(
        "ece", FineGrid.of_view(view, weights), WIDTH, words, resamples=FEWER_RESAMPLES, event=event
    )
