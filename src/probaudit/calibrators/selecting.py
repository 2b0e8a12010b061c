"""Choosing a calibrator: by cross-validated proper score, with the simpler preferred where the data
cannot tell."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.paired import quantile
from ..choices.lenses import Classwise
from ..choices.scores import Score, as_score
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.predictions import Predictions
from ..errors import InputError
from ..estimate import Estimate
from ..text import counted
from .calibration_loss import Outputs, checked_calibrator, folds_of, out_of_fold, shares
from .selection import RESAMPLES, Choice, choose, corrected_gain, mean_losses

if TYPE_CHECKING:
    from .base import Calibrator

CONTROL = "mean_replacement"

# From the simplest to the most flexible: of candidates that the data cannot tell apart, the first
# is taken.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": ("Identity", {}),
    "temperature": ("TemperatureScaling", {}),
    "ensemble_temperature": ("EnsembleTemperature", {}),
    "platt": ("PlattScaling", {}),
    "bias_corrected_temperature": ("BiasCorrectedTemperature", {}),
    "beta": ("BetaCalibration", {}),
    "vector": ("VectorScaling", {}),
    # a probability of 0 would make the score infinite
    "isotonic": ("IsotonicCalibration", {"finite": True}),
    "irm": ("IRM", {}),
    "histogram": ("HistogramBinning", {}),
    "bbq": ("BBQ", {}),
    "dirichlet": ("DirichletCalibration", {}),
    "matrix": ("MatrixScaling", {}),
    "gaussian_process": ("GaussianProcessCalibration", {}),
    "per_group": ("PerGroup", {}),
    "per_group_bias": ("PerGroup", {"base": "BiasCorrectedTemperature"}),
    "group_calibration": ("GroupCalibration", {}),
    CONTROL: ("MeanReplacement", {}),
}
USUAL = (
    "identity",
    "temperature",
    "ensemble_temperature",
    "bias_corrected_temperature",
    "beta",
    "vector",
    "isotonic",
    CONTROL,
)
BY_GROUPS = ("per_group", "per_group_bias")  # need the group of each row
BY_FEATURES = ("group_calibration",)  # use features where there are some
# outputs beyond which group calibration, the slowest of all, is not among the usual
MOST_GROUPED_VALUES = 2_000_000
# beyond which one-vs-rest calibrators and those with K^2 parameters are not among the usual
DENSE_CLASSES = 20


@dataclass(frozen=True)
class Candidate:
    """A calibrator as its out-of-fold posteriors show it.

    worse_by, low, high : the mean score less that of the best, with a 95% interval for paired rows.
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
    """The candidates, which of them was chosen and why, and that one fitted to all rows
    (`calibrator`).

    gain : the share of the score that choosing removes, corrected for the choice (see
        `estimates.selection.corrected_gain`); its definition names the calibrator and the folds.
    """

    candidates: tuple[Candidate, ...]
    chosen: str
    calibrator: Calibrator
    score: str
    n: int
    why: str
    gain: Estimate

    def table(self) -> dict[str, list[Any]]:
        """The candidates as columns, for any frame."""
        names = Candidate.__dataclass_fields__
        return {name: [getattr(candidate, name) for candidate in self.candidates] for name in names}

    def __repr__(self) -> str:
        head = f"{'':27}{self.score:>9}{'worse by':>27}{'normalised':>12}{'ECE':>8}{'classwise':>11}{'accuracy':>10}{'s':>7}"
        lines = [head]
        for c in self.candidates:
            mark = "*" if c.name == self.chosen else " "
            gap = f"{c.worse_by:.4f} [{c.low:.4f}, {c.high:.4f}]" if c.worse_by else "best"
            lines.append(
                f"{mark} {c.name:25}{c.score:9.4f}{gap:>27}{c.normalized:12.4f}{c.ece:8.4f}{c.classwise_ece:11.4f}"
                f"{c.accuracy:10.4f}{c.seconds:7.2f}" + (f"  {c.remark}" if c.remark else "")
            )
        return "\n".join([*lines, self.why, *self._gain_line()])

    def _gain_line(self) -> list[str]:
        if not np.isfinite(self.gain.low):
            return []
        ends = " to ".join(_percent(end) for end in self.gain.interval)
        tried = len([c for c in self.candidates if not c.control])
        return [
            f"{self.chosen} removes {_percent(self.gain)} of the {self.score} score (95% interval {ends}),"
            f" corrected for choosing among {tried} calibrators"
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
    """The calibrator of the best cross-validated score, or a simpler one that is as good within one
    standard error.

    candidates : names (`selecting.METHODS`), or calibrators by name, from simple to flexible; the
        usual ones unless given. "identity" is the choice to leave the outputs alone. Mean
        replacement is shown as a control and never chosen: it gives everybody the same confidence,
        which makes ECE and accuracy look perfect and the score poor.
    features : as in `calibration_loss`; "group_calibration" is then among the usual candidates.
    groups : as in `calibration_loss`; "per_group" and "per_group_bias" (a temperature for each
        group, or with a bias for each class as well) are then among the usual candidates.
    score, cv, stratify, seed, options : as in `calibration_loss`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> select_calibrator(world.y, world.mcs, candidates=["identity", "temperature", "vector"]).chosen
    'temperature'
    """
    rule = as_score(score)
    predictions = rows_of(y_true, y_proba, features=features, **options)
    outputs = Outputs.of(predictions, groups)
    tried = _candidates(candidates, outputs, features=features, groups=groups)
    folds = folds_of(outputs, cv, len(predictions), seed, stratify=stratify)
    share, raw = shares(outputs.weights), outputs.probabilities()
    trials = [_tried(calibrator, outputs, folds.numbers) for calibrator in tried.values()]
    losses = np.column_stack([rule.score(posteriors, outputs.codes) for posteriors, _ in trials])
    eligible = [
        place for place, calibrator in enumerate(tried.values()) if not is_control(calibrator)
    ]
    found = choose(losses, share, outputs.clusters, eligible)
    if found is None:
        raise InputError("candidates", "none of them has a finite score", ", ".join(tried))
    names = list(tried)
    means = mean_losses(losses, share)
    naive = float(rule.entropy(np.bincount(outputs.codes, share, minlength=outputs.n_classes)))
    accuracy = float(share @ (raw.argmax(axis=1) == outputs.codes))
    table = tuple(
        _candidate(
            name,
            k,
            found,
            losses[:, k],
            float(means[k]),
            trials[k],
            outputs,
            share,
            naive,
            accuracy,
            k not in eligible,
        )
        for k, name in enumerate(names)
    )
    first, best = names[found.chosen], names[found.best]
    why = (
        f"{first}: the best"
        if first == best
        else f"{first}: simpler than {best}, and within one standard error of it"
    )
    value, low, high = corrected_gain(
        losses, rule.score(raw, outputs.codes), share, outputs.clusters, eligible, seed=seed
    )
    words = f"share of the {rule.name} score removed by {first}, {folds.words}, {correction_words(len(eligible))}"
    gain = Estimate(value, low=low, high=high, n=len(outputs.codes), definition=words)
    fitted = outputs.fitted(tried[first], named=True)
    return CalibratorChoice(table, first, fitted, rule.name, len(outputs.codes), why, gain)


def correction_words(tried: int) -> str:
    """How a gain was corrected, for its definition."""
    return f"corrected for choosing among {tried} calibrators (bootstrap bias-corrected, {RESAMPLES} resamples)"


def _tried(calibrator: Calibrator, outputs: Outputs, folds: np.ndarray) -> tuple[np.ndarray, float]:
    """Out-of-fold posteriors, and the seconds that they took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what becomes of a fit is seen in its scores
        posteriors = out_of_fold(outputs, folds, calibrator)
    return posteriors, time.perf_counter() - start


def is_control(calibrator: Calibrator) -> bool:
    """Whether it is mean replacement, which is shown and never chosen."""
    from .mean_replacement import MeanReplacement

    return isinstance(calibrator, MeanReplacement)


def calibrator_named(name: str) -> Calibrator:
    """A fresh calibrator by the name that `select_calibrator` and the command line give it."""
    from .. import calibrators

    if name not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}", repr(name))
    kind, choices = METHODS[name]
    made = {
        key: calibrators.named(value)() if key == "base" else value
        for key, value in choices.items()
    }
    found: Calibrator = calibrators.named(kind)(**made)
    return found


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


def aware_names(outputs: Outputs, *, features_given: bool = False) -> list[str]:
    """The candidates that use groups or features of the rows, as far as the rows have some.

    features_given : whether the caller asks for features to be used: they must then be numbers, and
        no number of rows is too large. Else features that cannot be used are left alone.
    """
    from .grouping import feature_table

    names = [] if outputs.groups is None else list(BY_GROUPS)
    if outputs.features is None or (
        outputs.values.size > MOST_GROUPED_VALUES and not features_given
    ):
        return names
    try:
        feature_table(outputs.features, None, None)
    except InputError:
        if features_given:
            raise
        return names
    return [*names, *BY_FEATURES]


def _candidates(
    given: Sequence[str] | Mapping[str, Calibrator] | None, outputs: Outputs, **besides: Any
) -> dict[str, Calibrator]:
    """By name, in order; `besides` are features and groups as the caller gave them, which one of
    them must use."""
    if isinstance(given, Mapping):
        found = {
            name: checked_calibrator(calibrator, "candidates") for name, calibrator in given.items()
        }
    else:
        names = (
            usual_names(outputs, features_given=besides["features"] is not None)
            if given is None
            else given
        )
        unknown = (
            [name for name in names if name not in METHODS]
            if not isinstance(names, str)
            else [names]
        )
        if unknown:
            raise InputError(
                "candidates",
                f"must be a list of {', '.join(METHODS)}, or calibrators by name",
                repr(unknown[0]),
            )
        found = {name: calibrator_named(name) for name in names}
    if all(is_control(calibrator) for calibrator in found.values()):
        raise InputError(
            "candidates", "needs at least one calibrator besides the control", list(found)
        )
    for calibrator in found.values():
        outputs.check_use(calibrator)
    for argument, value in besides.items():
        if value is not None and not any(
            calibrator.takes == argument for calibrator in found.values()
        ):
            raise InputError(argument, "none of the candidates uses them", ", ".join(found))
    return found


def usual_names(outputs: Outputs, *, features_given: bool = False) -> list[str]:
    """The candidates unless others are given, from the simplest to the most flexible; see
    `aware_names`."""
    dense = outputs.n_classes <= DENSE_CLASSES
    names = [name for name in USUAL[:-1] if dense or name not in ("beta", "isotonic")]
    aware = aware_names(outputs, features_given=features_given)
    return [*names, *(["dirichlet"] if dense else []), *aware, CONTROL]


def _candidate(
    name: str,
    place: int,
    choice: Choice,
    losses: np.ndarray,
    mean: float,
    trial: tuple[np.ndarray, float],
    outputs: Outputs,
    share: np.ndarray,
    naive: float,
    raw_accuracy: float,
    control: bool,
) -> Candidate:
    posteriors, seconds = trial
    gap, error = float(choice.gaps[place]), float(choice.errors[place])
    infinite = int((~np.isfinite(losses)).sum())
    seen = Predictions(
        outputs.codes, np.clip(posteriors, 0, 1), sample_weight=outputs.weights, tolerance=1e-6
    )
    accuracy = float(share @ (posteriors.argmax(axis=1) == outputs.codes))
    return Candidate(
        name=name,
        score=mean,
        normalized=mean / naive if naive else np.nan,
        worse_by=gap,
        low=gap - quantile(outputs.clusters) * error,
        high=gap + quantile(outputs.clusters) * error,
        tied=bool(choice.tied[place]),
        ece=float(calibration_error(seen)),
        classwise_ece=float(calibration_error(seen, lens=Classwise())),
        accuracy=accuracy,
        accuracy_change=accuracy - raw_accuracy,
        seconds=seconds,
        control=control,
        remark="control, never chosen"
        if control
        else f"{counted(infinite)} with an infinite score"
        if infinite
        else "",
    )
