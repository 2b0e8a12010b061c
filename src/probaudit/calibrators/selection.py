"""Choose a calibrator by cross-validation.

`select_calibrator`, the audit's table of repairs, the loss budget and `probaudit calibrate` take
their candidates from `default_candidates`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.resampling import quantile
from ..choices.lenses import Binary, Classwise, Lens, default_lens
from ..choices.scores import Score, as_score
from ..data.arrays import data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import InputError, in_a_list
from ..estimate import Estimate
from ..text import MISSING, ShownAsTable, TextTable, counted, number, percent
from .folds import FOLDS, folds_of, out_of_fold
from .one_standard_error import Choice, choose_calibrator, correction_words, mean_losses
from .outputs import Outputs, shares
from .registry import METHODS, Entry, calibrator_named

if TYPE_CHECKING:
    from .base import Calibrator

# Group calibration, the slowest, is a default candidate only up to this number of outputs.
MOST_GROUPED_VALUES = 2_000_000

Candidates = Sequence[str] | Mapping[str, "Calibrator"] | None


def default_candidates(
    outputs: Outputs, *, features_given: bool = False, comparisons: bool = False
) -> list[str]:
    """The method names that are tried unless others are given, from the simplest to the most
    flexible; the control comes last.

    features_given : whether the caller passed features in order to use them. They must then be
        numbers, for any number of rows. Otherwise unusable features are ignored.
    comparisons : whether to include methods that are shown but cannot be chosen.
    """
    usable = _usable_features(outputs, features_given)
    return [
        name
        for name, (entry, method) in METHODS.items()
        if method.default_from <= outputs.n_classes <= method.default_up_to
        and _has_needs(entry, outputs, usable)
        and (comparisons or method.role != "comparison")
    ]


def _has_needs(entry: Entry, outputs: Outputs, usable_features: bool) -> bool:
    """Whether the outputs have what a class of calibrators uses."""
    one_column = outputs.groups is not None and outputs.groups.ndim == 1
    groups = outputs.groups is not None and (one_column or entry.overlapping)
    available = {"features": usable_features, "groups": groups}
    if "features" in entry.needs and outputs.features is not None and not usable_features:
        return False  # it would be given all features
    return not entry.needs or any(available[name] for name in entry.needs)


def _usable_features(outputs: Outputs, features_given: bool) -> bool:
    from .feature_rows import feature_table

    if outputs.features is None:
        return False
    if outputs.values.size > MOST_GROUPED_VALUES and not features_given:
        return False
    try:
        feature_table(outputs.features, None, None)
    except InputError:
        if features_given:
            raise
        return False
    return True


@dataclass(frozen=True)
class Candidate:
    """A calibrator and the scores of its out-of-fold posteriors.

    worse_by, low, high : the mean score minus that of the best, with a 95% interval for paired
        rows.
    tied : whether `worse_by` is at most one standard error.
    """

    name: str
    score: float
    normalized: float
    worse_by: float
    low: float
    high: float
    tied: bool
    ece: float
    classwise_ece: float
    accuracy: float
    accuracy_change: float
    seconds: float
    control: bool
    remark: str


@dataclass(frozen=True, eq=False, repr=False)
class CalibratorChoice(ShownAsTable):
    """The candidates, which of them was chosen and why, and the chosen one fitted to all rows
    (`calibrator`).

    score, score_words : the name of the score, and its name for people.
    gain : the share of the score that the chosen calibrator removes, corrected for the choice (see
        `one_standard_error.corrected_gain`); its definition names the calibrator and the folds.
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    calibrator: Calibrator
    score: str
    score_words: str
    n: int
    why: str
    gain: Estimate

    def table(self) -> dict[str, list[Any]]:
        """The candidates as columns, for any data frame."""
        names = Candidate.__dataclass_fields__
        return {name: [getattr(candidate, name) for candidate in self.candidates] for name in names}

    def to_frame(self) -> Any:
        """The candidates as a pandas DataFrame."""
        return data_frame(self.table())

    def _text_table(self) -> TextTable:
        names = (self.score_words, "worse by", "95% interval", "normalised", "ECE", "classwise")
        return TextTable(
            f"Calibrators out of fold, {counted(self.n)}",
            ("", *names, "accuracy", "seconds", "remark"),
            [
                [
                    f"{'*' if c.name == self.chosen else ' '} {c.name}",
                    number(c.score),
                    number(c.worse_by) if c.worse_by else "best",
                    f"{number(c.low)} to {number(c.high)}" if 0 < c.worse_by < np.inf else MISSING,
                    *map(number, (c.normalized, c.ece, c.classwise_ece, c.accuracy)),
                    number(c.seconds, 2),
                    c.remark,
                ]
                for c in self.candidates
            ],
            "\n".join([self.why, *self._gain_line()]),
        )

    def _gain_line(self) -> list[str]:
        if not np.isfinite(self.gain.low):
            return []
        ends = " to ".join(percent(end) for end in self.gain.interval)
        tried = len([c for c in self.candidates if not c.control])
        return [
            f"{self.chosen} removes {percent(self.gain)} of the {self.score_words}"
            f" (95% interval {ends}), corrected for choosing among {tried} calibrators"
        ]


@takes_row_options
def select_calibrator(
    y_true: Any,
    y_proba: Any = None,
    *,
    candidates: Candidates = None,
    score: str | Score = "log",
    cv: Any = FOLDS,
    stratify: bool = False,
    features: Any = None,
    columns: Any = None,
    groups: Any = None,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibratorChoice:
    """The calibrator with the best cross-validated score, or a simpler one within one standard
    error of it.

    candidates : method names (`calibrators.registry.METHODS`), or calibrators by name, from simple
        to flexible; the default ones unless given. "identity" keeps the original outputs. Mean
        replacement is shown as a control and never chosen: it gives every row the same confidence,
        so that ECE and accuracy look good although the score is poor.
    features : as in `calibration_loss`; "group_calibration" and "multicalibration" are then default
        candidates.
    groups : as in `calibration_loss`; "multicalibration" is then a default candidate, and for one
        column also "per_group" and "per_group_bias" (a temperature for each group, without or with
        a bias for each class).
    columns : values per row by name, as in `audit`; `groups` then names those to use.
    score, cv, stratify, seed, options : as in `calibration_loss`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> names = ["identity", "temperature", "vector"]
    >>> select_calibrator(world.y, world.mcs, candidates=names).chosen
    'temperature'
    """
    rule = as_score(score)
    if columns is not None and not isinstance(groups, (str, tuple)):
        found = "no name" if groups is None else "values"
        raise InputError("columns", "must be named by `groups`", found)
    predictions = rows_of(y_true, y_proba, features=features, columns=columns, **options)
    outputs = Outputs.of(predictions, groups)
    tried = _checked_candidates(candidates, outputs, features=features, groups=groups)
    eligible = _eligible(tried, candidates)
    folds = folds_of(outputs, cv, len(predictions), seed, stratify=stratify)
    trials = {
        name: _candidate_scores(calibrator, outputs, folds.numbers, rule)
        for name, calibrator in tried.items()
    }
    choice = choose_calibrator(
        {name: trial.losses for name, trial in trials.items()},
        rule.score(outputs.probabilities(), outputs.codes),
        shares(outputs.weights),
        outputs.clusters,
        eligible=eligible,
        seed=seed,
    )
    if choice is None:
        raise InputError("candidates", "none of them has a finite score", ", ".join(tried))
    definition = (
        f"share of the {rule.words()} removed by {choice.chosen}, {folds.words},"
        f" {correction_words(len(eligible))}"
    )
    value, low, high = choice.gain
    n = len(outputs.codes)
    lens = Binary() if predictions.pairs else default_lens(predictions)
    return CalibratorChoice(
        candidates=_candidate_table(outputs, rule, trials, choice, eligible, lens=lens),
        chosen=choice.chosen,
        calibrator=outputs.fitted(tried[choice.chosen], named=True),
        score=rule.name,
        score_words=rule.words(),
        n=n,
        why=_why(choice),
        gain=Estimate(value, low=low, high=high, n=n, definition=definition),
    )


def _why(choice: Choice) -> str:
    if choice.chosen == choice.best:
        return f"{choice.chosen}: the best"
    return f"{choice.chosen}: simpler than {choice.best}, and within one standard error of it"


def _checked_candidates(
    given: Candidates, outputs: Outputs, **side_data: Any
) -> dict[str, Calibrator]:
    """The calibrators by name, in order. `side_data` has the features and groups that the caller
    passed; one of the calibrators must use them."""
    candidates = named_calibrators(given, outputs, features_given=side_data["features"] is not None)
    if not _eligible(candidates, given):
        rule = "needs at least one calibrator besides the control"
        raise InputError("candidates", rule, list(candidates))
    for calibrator in candidates.values():
        outputs.check_use(calibrator)
    for argument, value in side_data.items():
        used = any(argument in calibrator.takes for calibrator in candidates.values())
        if value is not None and not used:
            rule = "must be used by one of the candidates"
            raise InputError(argument, rule, ", ".join(candidates))
    return candidates


def named_calibrators(
    given: Candidates, outputs: Outputs, *, features_given: bool, argument: str = "candidates"
) -> dict[str, Calibrator]:
    """Calibrators by name, from names of methods or as given; the default candidates if None."""
    if isinstance(given, Mapping):
        from .base import checked_calibrator

        return {
            name: checked_calibrator(calibrator, argument) for name, calibrator in given.items()
        }
    if given is None:
        given = default_candidates(outputs, features_given=features_given)
    unknown = [given] if isinstance(given, str) else [name for name in given if name not in METHODS]
    if unknown:
        rule = f"must be a list of {', '.join(METHODS)}, or calibrators by name"
        out = in_a_list(argument, unknown[0], METHODS)
        raise InputError(argument, rule, repr(unknown[0]), way_out=out)
    return {name: calibrator_named(name) for name in given}


def _eligible(candidates: Mapping[str, Calibrator], given: Candidates) -> list[str]:
    """The names of the candidates that can be chosen. Names given by the caller with calibrators
    are not those of the registry."""
    from .mean_replacement import MeanReplacement

    registered = not isinstance(given, Mapping)
    return [
        name
        for name, calibrator in candidates.items()
        if not isinstance(calibrator, MeanReplacement)
        and not (registered and METHODS[name][1].role != "candidate")
    ]


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """Out-of-fold posteriors of a candidate, the loss of each row, and the seconds they took."""

    posteriors: np.ndarray
    losses: np.ndarray
    seconds: float


def _candidate_scores(
    calibrator: Calibrator, outputs: Outputs, folds: np.ndarray, rule: Score
) -> CandidateScores:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores show whether a fit went wrong
        posteriors = out_of_fold(outputs, folds, calibrator)
    seconds = time.perf_counter() - start
    return CandidateScores(posteriors, rule.score(posteriors, outputs.codes), seconds)


def _candidate_table(
    outputs: Outputs,
    rule: Score,
    trials: Mapping[str, CandidateScores],
    choice: Choice,
    eligible: Sequence[str],
    *,
    lens: Lens,
) -> tuple[Candidate, ...]:
    share = shares(outputs.weights)
    base_rates = np.bincount(outputs.codes, share, minlength=outputs.n_classes)
    base_rate_score = float(rule.entropy(base_rates))
    raw_accuracy = float(share @ (outputs.probabilities().argmax(axis=1) == outputs.codes))
    means = mean_losses(np.column_stack([trial.losses for trial in trials.values()]), share)
    candidates = []
    for (name, trial), mean in zip(trials.items(), means.tolist(), strict=True):
        difference = choice.differences[name]
        half = quantile(outputs.clusters) * choice.errors[name]
        rows = Predictions(
            outputs.codes,
            np.clip(trial.posteriors, 0, 1),
            sample_weight=outputs.weights,
            tolerance=1e-6,
        )
        accuracy = float(share @ (trial.posteriors.argmax(axis=1) == outputs.codes))
        control = name not in eligible
        candidate = Candidate(
            name=name,
            score=mean,
            normalized=mean / base_rate_score if base_rate_score else np.nan,
            worse_by=difference,
            low=difference - half,
            high=difference + half,
            tied=choice.tied(name),
            ece=float(calibration_error(rows, lens=lens)),
            classwise_ece=float(calibration_error(rows, lens=Classwise())),
            accuracy=accuracy,
            accuracy_change=accuracy - raw_accuracy,
            seconds=trial.seconds,
            control=control,
            remark=_remark(trial.losses, control),
        )
        candidates.append(candidate)
    return tuple(candidates)


def _remark(losses: np.ndarray, control: bool) -> str:
    if control:
        return "control, never chosen"
    infinite = int((~np.isfinite(losses)).sum())
    return f"{counted(infinite)} with an infinite score" if infinite else ""


def fit_calibrator(
    predictions: Predictions, calibrator: Calibrator, *, groups: Any = None
) -> Calibrator:
    """A copy of a calibrator, fitted to all valid rows, with class names; with features if it uses
    them.

    groups : as in `calibration_loss`.
    """
    outputs = Outputs.of(predictions, groups)
    outputs.check_use(calibrator, groups=groups)
    return outputs.fitted(calibrator, named=True)
