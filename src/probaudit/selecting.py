"""Choosing a calibrator: by cross-validated proper score, with the simpler preferred where the data cannot tell."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from .calibration import calibration_error
from .calibration_loss import Outputs, checked_calibrator, folds_of, group_of_rows, out_of_fold, shares
from .errors import InputError
from .estimates.score_intervals import Z95
from .lenses import Classwise
from .metrics import RowOptions, rows_of
from .predictions import Predictions
from .scores import Score, as_score
from .words import counted

if TYPE_CHECKING:
    from .calibrators.base import Calibrator

CONTROL = "mean_replacement"

# From the simplest to the most flexible: of candidates that the data cannot tell apart, the first is taken.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "identity": ("Identity", {}),
    "temperature": ("TemperatureScaling", {}),
    "ensemble_temperature": ("EnsembleTemperature", {}),
    "platt": ("PlattScaling", {}),
    "bias_corrected_temperature": ("BiasCorrectedTemperature", {}),
    "beta": ("BetaCalibration", {}),
    "vector": ("VectorScaling", {}),
    "isotonic": ("IsotonicCalibration", {"finite": True}),  # a probability of 0 would make the score infinite
    "irm": ("IRM", {}),
    "histogram": ("HistogramBinning", {}),
    "bbq": ("BBQ", {}),
    "dirichlet": ("DirichletCalibration", {}),
    "matrix": ("MatrixScaling", {}),
    "gaussian_process": ("GaussianProcessCalibration", {}),
    CONTROL: ("MeanReplacement", {}),
}
USUAL = ("identity", "temperature", "ensemble_temperature", "bias_corrected_temperature", "beta", "vector", "isotonic", CONTROL)
DENSE_CLASSES = 20  # beyond which one-vs-rest calibrators and those with K^2 parameters are not among the usual


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
    remark: str


@dataclass(frozen=True, eq=False)
class CalibratorChoice:
    """The candidates, which of them was chosen and why, and that one fitted to all rows (`calibrator`)."""

    candidates: tuple[Candidate, ...]
    chosen: str
    calibrator: Calibrator
    score: str
    n: int
    why: str

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
        return "\n".join([*lines, self.why])


def select_calibrator(
    y_true: Any,
    y_proba: Any = None,
    *,
    candidates: Sequence[str] | Mapping[str, Calibrator] | None = None,
    score: str | Score = "log",
    cv: Any = 5,
    groups: Any = None,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibratorChoice:
    """The calibrator of the best cross-validated score, or a simpler one that is as good within one standard error.

    candidates : names (`selecting.METHODS`), or calibrators by name, from simple to flexible; the usual ones unless given.
        "identity" is the choice to leave the outputs alone. Mean replacement is shown as a control and never chosen: it gives
        everybody the same confidence, which makes ECE and accuracy look perfect and the score poor.
    score, cv, groups, seed, options : as in `calibration_loss`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> select_calibrator(world.y, world.mcs, candidates=["identity", "temperature", "vector"]).chosen
    'temperature'
    """
    rule = as_score(score)
    predictions = rows_of(y_true, y_proba, **options)
    outputs = Outputs.of(predictions)
    chosen = _candidates(candidates, outputs.n_classes)
    units = group_of_rows(groups, predictions, outputs)
    folds = folds_of(outputs, cv, units, len(predictions), seed)
    share = shares(outputs.weights)
    naive = float(rule.entropy(np.bincount(outputs.codes, share, minlength=outputs.n_classes)))
    raw_accuracy = float(share @ (outputs.probabilities().argmax(axis=1) == outputs.codes))
    losses, trials = {}, {}
    for name, calibrator in chosen.items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posteriors = out_of_fold(outputs, folds, lambda rows, c=calibrator: outputs.fitted(c, rows))  # type: ignore[misc]
        trials[name] = posteriors, time.perf_counter() - start
        losses[name] = rule.score(posteriors, outputs.codes)
    means = {name: float(share @ loss) if np.isfinite(loss).all() else np.inf for name, loss in losses.items()}
    controls = {name for name, calibrator in chosen.items() if is_control(calibrator)}
    allowed = [name for name in chosen if name not in controls and np.isfinite(means[name])]
    if not allowed:
        raise InputError("candidates", "none of them has a finite score", ", ".join(chosen))
    best = min(allowed, key=lambda name: means[name])
    table = tuple(
        _candidate(name, losses, means, best, *trials[name], outputs, share, units, naive, raw_accuracy, name in controls)
        for name in chosen
    )
    tied = [candidate.name for candidate in table if candidate.tied and candidate.name in allowed]
    first = tied[0]
    why = f"{first}: the best" if first == best else f"{first}: simpler than {best}, and within one standard error of it"
    fitted = _fitted(predictions, chosen[first], outputs)
    return CalibratorChoice(table, first, fitted, rule.name, len(outputs.codes), why)


def is_control(calibrator: Calibrator) -> bool:
    """Whether it is mean replacement, which is shown and never chosen."""
    from .calibrators.mean_replacement import MeanReplacement

    return isinstance(calibrator, MeanReplacement)


def calibrator_named(name: str) -> Calibrator:
    """A fresh calibrator by the name that `select_calibrator` and the command line give it."""
    from . import calibrators

    if name not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}", repr(name))
    kind, choices = METHODS[name]
    found: Calibrator = calibrators.named(kind)(**choices)
    return found


def fit_calibrator(predictions: Predictions, calibrator: Calibrator) -> Calibrator:
    """A calibrator fitted to all rows that count, with their own classes."""
    return _fitted(predictions, calibrator, Outputs.of(predictions))


def _fitted(predictions: Predictions, calibrator: Calibrator, outputs: Outputs) -> Calibrator:
    from sklearn.base import clone

    classes = list(predictions.class_order)
    labels = np.array(classes)[outputs.codes]
    found: Calibrator = clone(calibrator).set_params(from_logits=outputs.from_logits, classes=classes)
    return found.fit(outputs.values, labels, outputs.weights)


def _candidates(given: Sequence[str] | Mapping[str, Calibrator] | None, classes: int) -> dict[str, Calibrator]:
    if isinstance(given, Mapping):
        found = {name: checked_calibrator(calibrator, "candidates") for name, calibrator in given.items()}
    else:
        names = given
        if names is None:
            few = (*USUAL[:-1], "dirichlet", CONTROL) if classes <= DENSE_CLASSES else USUAL
            names = [name for name in few if classes <= DENSE_CLASSES or name not in ("beta", "isotonic")]
        unknown = [name for name in names if name not in METHODS] if not isinstance(names, str) else [names]
        if unknown:
            raise InputError("candidates", f"must be a list of {', '.join(METHODS)}, or calibrators by name", repr(unknown[0]))
        found = {name: calibrator_named(name) for name in names}
    if all(is_control(calibrator) for calibrator in found.values()):
        raise InputError("candidates", "needs at least one calibrator besides the control", list(found))
    return found


def _candidate(
    name: str,
    losses: Mapping[str, np.ndarray],
    means: Mapping[str, float],
    best: str,
    posteriors: np.ndarray,
    seconds: float,
    outputs: Outputs,
    share: np.ndarray,
    units: np.ndarray | None,
    naive: float,
    raw_accuracy: float,
    control: bool,
) -> Candidate:
    gap = means[name] - means[best]
    if np.isfinite(gap):
        terms = share * (losses[name] - losses[best] - gap)
        terms = terms if units is None else np.bincount(units, terms)
        error = float(np.sqrt((terms**2).sum() * len(terms) / max(len(terms) - 1, 1)))
    else:
        error = 0.0
    infinite = int((~np.isfinite(losses[name])).sum())
    seen = Predictions(outputs.codes, np.clip(posteriors, 0, 1), sample_weight=outputs.weights, tolerance=1e-6)
    accuracy = float(share @ (posteriors.argmax(axis=1) == outputs.codes))
    return Candidate(
        name=name,
        score=means[name],
        normalized=means[name] / naive if naive else np.nan,
        worse_by=gap,
        low=gap - Z95 * error,
        high=gap + Z95 * error,
        tied=bool(gap <= error),
        ece=float(calibration_error(seen)),
        classwise_ece=float(calibration_error(seen, lens=Classwise())),
        accuracy=accuracy,
        accuracy_change=accuracy - raw_accuracy,
        seconds=seconds,
        remark="control, never chosen" if control else f"{counted(infinite)} with an infinite score" if infinite else "",
    )
