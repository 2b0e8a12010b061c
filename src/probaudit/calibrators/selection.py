"""Choose a calibrator: the simplest whose cross-validated score is within one standard error of
the best.

`select_calibrator`, the audit's table of repairs, the loss budget and `probaudit calibrate` take
their candidates from `default_candidates` and their choice from `choose_calibrator`, so that they
cannot disagree.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.paired import half_width, quantile, ratio_influence, unit_terms
from ..calibration.resampling import draw_units, sampling_units
from ..choices.lenses import Classwise
from ..choices.scores import Score, as_score
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.predictions import Predictions
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.intervals import Z95
from ..text import counted
from .calibration_loss import Outputs, checked_calibrator, folds_of, out_of_fold, shares
from .registry import METHODS, calibrator_named

if TYPE_CHECKING:
    from .base import Calibrator

RESAMPLES = 200
ROUNDING = 1e-9  # of a loss
# Group calibration is the slowest. It is no default candidate for more outputs than this.
MOST_GROUPED_VALUES = 2_000_000


@dataclass(frozen=True, eq=False)
class Choice:
    """The outcome of the one-standard-error rule.

    best, chosen : names of the candidate with the lowest mean loss, and of the simplest within one
        standard error of it.
    differences, errors : by name, the mean loss minus that of the best, and its standard error.
    gain : the share of the loss that the chosen candidate removes, corrected for the choice, and
        its 95% interval (see `corrected_gain`).
    """

    best: str
    chosen: str
    differences: dict[str, float]
    errors: dict[str, float]
    gain: tuple[float, float, float]

    def tied(self, name: str) -> bool:
        """Whether a candidate is within one standard error of the best."""
        return self.differences[name] <= self.errors[name]


def choose_calibrator(
    losses: Mapping[str, np.ndarray],
    before: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray | None,
    *,
    eligible: Sequence[str],
    seed: int = 0,
) -> Choice | None:
    """The simplest calibrator within one standard error of the best, and what it gains.

    losses : the out-of-fold loss of each row by calibrator, from the simplest to the most flexible.
    before : the loss of each row before calibration.
    share : the share of each row in the mean; the shares sum to 1.
    clusters : the number of each row's cluster, if rows are dependent.
    eligible : the names that may be chosen.

    Returns None if no eligible calibrator has a finite mean loss.
    """
    names, matrix = list(losses), np.column_stack(list(losses.values()))
    places = [place for place, name in enumerate(names) if name in eligible]
    found = one_standard_error_rule(matrix, share, clusters, places)
    if found is None:
        return None
    return Choice(
        best=names[found.best],
        chosen=names[found.chosen],
        differences=dict(zip(names, found.differences.tolist(), strict=True)),
        errors=dict(zip(names, found.errors.tolist(), strict=True)),
        gain=corrected_gain(matrix, before, share, clusters, places, seed=seed),
    )


@dataclass(frozen=True, eq=False)
class Ranking:
    """Columns of the best and of the chosen candidate; the mean difference of each from the best,
    with its standard error."""

    best: int
    chosen: int
    differences: np.ndarray
    errors: np.ndarray


def one_standard_error_rule(
    losses: np.ndarray, share: np.ndarray, clusters: np.ndarray | None, eligible: Sequence[int]
) -> Ranking | None:
    """The simplest candidate within one standard error of the best (Breiman et al. 1984, section
    3.4.3).

    losses : [n, candidates], from the simplest to the most flexible; infinite losses are allowed.
    share, clusters : as in `choose_calibrator`.
    eligible : the columns that may be chosen. None is returned if none has a finite mean.

    The second is better here, but by less than its standard error:

    >>> losses = np.array([[1.0, 0.9], [1.0, 1.2], [1.0, 0.8], [1.0, 1.0]])
    >>> one_standard_error_rule(losses, np.full(4, 0.25), None, [0, 1]).chosen
    0
    """
    means = mean_losses(losses, share)
    allowed = [place for place in eligible if math.isfinite(means[place])]
    if not allowed:
        return None
    best = min(allowed, key=lambda place: means[place])
    differences, errors = means - means[best], np.zeros(len(means))
    for place in np.flatnonzero(np.isfinite(means)):
        terms = unit_terms(losses[:, place] - losses[:, best] - differences[place], share, clusters)
        width = half_width(terms) / Z95
        errors[place] = width if math.isfinite(width) else 0.0
    chosen = next(place for place in allowed if differences[place] <= errors[place])
    return Ranking(best, chosen, differences, errors)


def mean_losses(losses: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The mean of each column; infinite if one of its losses is."""
    finite = np.isfinite(losses).all(axis=0)
    return np.where(finite, share @ np.where(finite, losses, 0.0), np.inf)


def corrected_gain(
    losses: np.ndarray,
    before: np.ndarray,
    share: np.ndarray,
    clusters: np.ndarray | None,
    eligible: Sequence[int],
    *,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The share of the loss `before` that the chosen candidate removes, corrected for the choice,
    with a 95% interval.

    The candidate that does best on some rows owes part of its lead to these very rows. Bootstrap
    bias-corrected cross-validation (Tsamardinos, Greasidou & Borboudakis 2018, algorithm 3) repeats
    the choice, but no fit, on resampled rows, and scores each choice on the rows that its resample
    left out. A row's loss is its mean over the resamples that left it out, as in the leave-one-out
    bootstrap (Efron & Tibshirani 1997, section 2). If no candidate is clearly the best, the result
    averages over the candidates that resamples choose.

    The interval is as wide as that of the chosen candidate without a correction. A chosen candidate
    that changes no loss gains 0, whatever other rows would have chosen. The bootstrap resamples
    units of rows (see `sampling_units`), so that its cost does not grow with the rows.
    """
    found = one_standard_error_rule(losses, share, clusters, eligible)
    if found is None or not np.isfinite(before).all() or not (total := float(share @ before)):
        return math.nan, math.nan, math.nan
    after = losses[:, found.chosen]
    if np.abs(after - before).max() < ROUNDING:
        return 0.0, 0.0, 0.0
    allowed = [place for place in eligible if math.isfinite(found.differences[place])]
    units = sampling_units(len(losses), seed, clusters)
    sums = np.column_stack([np.bincount(units, share * losses[:, place]) for place in allowed])
    held_out = (
        _held_out_losses(sums, np.bincount(units, share), seed) if len(sums) > 1 else share @ after
    )
    value = 1 - float(held_out.sum()) / total
    half = half_width(
        unit_terms(ratio_influence(after, before, share), share, clusters), quantile(clusters)
    )
    return value, value - half, value + half


def _held_out_losses(sums: np.ndarray, weight: np.ndarray, seed: int) -> np.ndarray:
    """The mean loss of each unit under the choices of the resamples that left it out. `sums` is
    [units, candidates]."""
    size = len(weight)
    total, times = np.zeros(size), np.zeros(size)
    for counts in draw_units(size, RESAMPLES, seed):
        out = counts == 0
        total[out] += sums[out, _resampled_choice(sums, weight, counts)]
        times += out
    return np.asarray(total / np.maximum(times, 1))


def _resampled_choice(sums: np.ndarray, weight: np.ndarray, counts: np.ndarray) -> int:
    """The choice of the one-standard-error rule in a resample that has each unit `counts` times."""
    size = len(weight)
    inside = float(counts @ weight)
    if inside == 0:
        return 0
    means = counts @ sums / inside
    best = int(means.argmin())
    differences = means - means[best]
    terms = sums - sums[:, [best]] - weight[:, None] * differences
    errors = np.sqrt(counts @ terms**2 * (size / (size - 1))) / inside
    return int(np.flatnonzero(differences <= errors)[0])


def correction_words(tried: int) -> str:
    """How a gain was corrected, for its definition."""
    how = f"bootstrap bias-corrected, {RESAMPLES} resamples"
    return f"corrected for choosing among {tried} calibrators ({how})"


def default_candidates(
    outputs: Outputs, *, features_given: bool = False, comparisons: bool = False
) -> list[str]:
    """The method names that are tried unless others are given, from the simplest to the most
    flexible; the control comes last.

    features_given : whether the caller asks for features to be used: they must then be numbers, and
        no number of rows is too large. Otherwise unusable features are ignored.
    comparisons : whether to include methods that are shown but cannot be chosen.
    """
    available = {
        None: True,
        "groups": outputs.groups is not None,
        "features": _usable_features(outputs, features_given),
    }
    return [
        name
        for name, (entry, method) in METHODS.items()
        if method.default_from <= outputs.n_classes <= method.default_up_to
        and available[entry.needs]
        and (comparisons or method.role != "comparison")
    ]


def _usable_features(outputs: Outputs, features_given: bool) -> bool:
    from .group_calibration import feature_table

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


def is_control(calibrator: Calibrator) -> bool:
    """Whether it is mean replacement, which is shown and never chosen."""
    from .mean_replacement import MeanReplacement

    return isinstance(calibrator, MeanReplacement)


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


@dataclass(frozen=True, eq=False)
class CalibratorChoice:
    """The candidates, which of them was chosen and why, and the chosen one fitted to all rows
    (`calibrator`).

    gain : the share of the score that the chosen calibrator removes, corrected for the choice (see
        `selection.corrected_gain`); its definition names the calibrator and the folds.
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    calibrator: Calibrator
    score: str
    n: int
    why: str
    gain: Estimate

    def table(self) -> dict[str, list[Any]]:
        """The candidates as columns, for any data frame."""
        names = Candidate.__dataclass_fields__
        return {name: [getattr(candidate, name) for candidate in self.candidates] for name in names}

    def __repr__(self) -> str:
        lines = [
            f"{'':27}{self.score:>9}{'worse by':>27}{'normalised':>12}{'ECE':>8}"
            f"{'classwise':>11}{'accuracy':>10}{'s':>7}"
        ]
        for c in self.candidates:
            mark = "*" if c.name == self.chosen else " "
            gap = f"{c.worse_by:.4f} [{c.low:.4f}, {c.high:.4f}]" if c.worse_by else "best"
            lines.append(
                f"{mark} {c.name:25}{c.score:9.4f}{gap:>27}{c.normalized:12.4f}{c.ece:8.4f}"
                f"{c.classwise_ece:11.4f}{c.accuracy:10.4f}{c.seconds:7.2f}"
                + (f"  {c.remark}" if c.remark else "")
            )
        return "\n".join([*lines, self.why, *self._gain_line()])

    def _gain_line(self) -> list[str]:
        if not np.isfinite(self.gain.low):
            return []
        ends = " to ".join(_percent(end) for end in self.gain.interval)
        tried = len([c for c in self.candidates if not c.control])
        return [
            f"{self.chosen} removes {_percent(self.gain)} of the {self.score} score"
            f" (95% interval {ends}), corrected for choosing among {tried} calibrators"
        ]


def _percent(value: float) -> str:
    """A share to 0.1%, with a real minus sign and no minus zero."""
    return f"{round(100 * value, 1) + 0.0:.1f}%".replace("-", "\u2212")


@documents_row_options
def select_calibrator(
    y_true: Any,
    y_proba: Any = None,
    *,
    candidates: Sequence[str] | Mapping[str, Calibrator] | None = None,
    score: str | Score = "log",
    cv: Any = 5,
    stratify: bool = False,
    features: Any = None,
    groups: Any = None,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibratorChoice:
    """The calibrator with the best cross-validated score, or a simpler one within one standard
    error of it.

    candidates : method names (`calibrators.registry.METHODS`), or calibrators by name, from simple
        to flexible; the default ones unless given. "identity" keeps the original outputs. Mean
        replacement is shown as a control and never chosen: it gives every row the same confidence,
        which makes ECE and accuracy look perfect and the score poor.
    features : as in `calibration_loss`; "group_calibration" then is a default candidate.
    groups : as in `calibration_loss`; "per_group" and "per_group_bias" (a temperature for each
        group, without or with a bias for each class) then are default candidates.
    score, cv, stratify, seed, options : as in `calibration_loss`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> names = ["identity", "temperature", "vector"]
    >>> select_calibrator(world.y, world.mcs, candidates=names).chosen
    'temperature'
    """
    rule = as_score(score)
    predictions = rows_of(y_true, y_proba, features=features, **options)
    outputs = Outputs.of(predictions, groups)
    tried = _checked_candidates(candidates, outputs, features=features, groups=groups)
    folds = folds_of(outputs, cv, len(predictions), seed, stratify=stratify)
    raw, share = outputs.probabilities(), shares(outputs.weights)
    trials = {
        name: _timed_posteriors(calibrator, outputs, folds.numbers)
        for name, calibrator in tried.items()
    }
    losses = {
        name: rule.score(posteriors, outputs.codes) for name, (posteriors, _) in trials.items()
    }
    named = not isinstance(candidates, Mapping)
    eligible = [name for name, one in tried.items() if _can_be_chosen(name, one, named=named)]
    choice = choose_calibrator(
        losses,
        rule.score(raw, outputs.codes),
        share,
        outputs.clusters,
        eligible=eligible,
        seed=seed,
    )
    if choice is None:
        raise InputError("candidates", "none of them has a finite score", ", ".join(tried))
    first, best = choice.chosen, choice.best
    why = (
        f"{first}: the best"
        if first == best
        else f"{first}: simpler than {best}, and within one standard error of it"
    )
    words = f"share of the {rule.name} score removed by {first}, {folds.words}"
    value, low, high = choice.gain
    return CalibratorChoice(
        candidates=_candidate_table(outputs, rule, trials, losses, choice, eligible),
        chosen=first,
        calibrator=outputs.fitted(tried[first], named=True),
        score=rule.name,
        n=len(outputs.codes),
        why=why,
        gain=Estimate(
            value,
            low=low,
            high=high,
            n=len(outputs.codes),
            definition=f"{words}, {correction_words(len(eligible))}",
        ),
    )


def _checked_candidates(
    given: Sequence[str] | Mapping[str, Calibrator] | None, outputs: Outputs, **besides: Any
) -> dict[str, Calibrator]:
    """The calibrators by name, in order. `besides` has the features and groups that the caller
    passed; one of the calibrators must use them."""
    if isinstance(given, Mapping):
        found = {
            name: checked_calibrator(calibrator, "candidates") for name, calibrator in given.items()
        }
    else:
        features_given = besides["features"] is not None
        names = (
            default_candidates(outputs, features_given=features_given) if given is None else given
        )
        unknown = (
            [names] if isinstance(names, str) else [name for name in names if name not in METHODS]
        )
        if unknown:
            rule = f"must be a list of {', '.join(METHODS)}, or calibrators by name"
            raise InputError("candidates", rule, repr(unknown[0]))
        found = {name: calibrator_named(name) for name in names}
    named = not isinstance(given, Mapping)
    if not any(_can_be_chosen(name, one, named=named) for name, one in found.items()):
        rule = "needs at least one calibrator besides the control"
        raise InputError("candidates", rule, list(found))
    for calibrator in found.values():
        outputs.check_use(calibrator)
    for argument, value in besides.items():
        used = any(calibrator.takes == argument for calibrator in found.values())
        if value is not None and not used:
            raise InputError(argument, "none of the candidates uses them", ", ".join(found))
    return found


def _can_be_chosen(name: str, calibrator: Calibrator, *, named: bool) -> bool:
    """Whether a calibrator is eligible; `named` if its name is a method of the registry."""
    return not is_control(calibrator) and not (named and METHODS[name][1].role != "candidate")


def _timed_posteriors(
    calibrator: Calibrator, outputs: Outputs, folds: np.ndarray
) -> tuple[np.ndarray, float]:
    """Out-of-fold posteriors, and the seconds that they took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores show whether a fit went wrong
        posteriors = out_of_fold(outputs, folds, calibrator)
    return posteriors, time.perf_counter() - start


def _candidate_table(
    outputs: Outputs,
    rule: Score,
    trials: Mapping[str, tuple[np.ndarray, float]],
    losses: Mapping[str, np.ndarray],
    choice: Choice,
    eligible: Sequence[str],
) -> tuple[Candidate, ...]:
    share = shares(outputs.weights)
    base_rates = np.bincount(outputs.codes, share, minlength=outputs.n_classes)
    base_rate_score = float(rule.entropy(base_rates))
    raw_accuracy = float(share @ (outputs.probabilities().argmax(axis=1) == outputs.codes))
    means = mean_losses(np.column_stack(list(losses.values())), share)
    found = []
    for (name, (posteriors, seconds)), mean in zip(trials.items(), means.tolist(), strict=True):
        difference = choice.differences[name]
        half = quantile(outputs.clusters) * choice.errors[name]
        rows = Predictions(
            outputs.codes, np.clip(posteriors, 0, 1), sample_weight=outputs.weights, tolerance=1e-6
        )
        accuracy = float(share @ (posteriors.argmax(axis=1) == outputs.codes))
        control = name not in eligible
        candidate = Candidate(
            name=name,
            score=mean,
            normalized=mean / base_rate_score if base_rate_score else np.nan,
            worse_by=difference,
            low=difference - half,
            high=difference + half,
            tied=choice.tied(name),
            ece=float(calibration_error(rows)),
            classwise_ece=float(calibration_error(rows, lens=Classwise())),
            accuracy=accuracy,
            accuracy_change=accuracy - raw_accuracy,
            seconds=seconds,
            control=control,
            remark=_remark(losses[name], control),
        )
        found.append(candidate)
    return tuple(found)


def _remark(losses: np.ndarray, control: bool) -> str:
    if control:
        return "control, never chosen"
    infinite = int((~np.isfinite(losses)).sum())
    return f"{counted(infinite)} with an infinite score" if infinite else ""


def fit_calibrator(
    predictions: Predictions, calibrator: Calibrator, *, groups: Any = None
) -> Calibrator:
    """A calibrator fitted to all rows that count, with their own classes, and with features if it
    uses them.

    groups : as in `calibration_loss`.
    """
    outputs = Outputs.of(predictions, groups)
    outputs.check_use(calibrator, groups=groups)
    return outputs.fitted(calibrator, named=True)
