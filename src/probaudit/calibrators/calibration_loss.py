"""Calibration loss: how much a calibrator, fitted to other rows, reduces the expected score
(Ferrer & Ramos 2025, Section 2.5.3)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration import resampling
from ..calibration.resampling import draw_units, percentile
from ..choices.definitions import Definition, in_words
from ..choices.scores import Cost, Score, as_score
from ..data.arrays import estimate_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import InputError
from ..estimate import Estimate
from ..text import ShownAsTable, TextTable, capitalised, counted, interval_text, number, percent
from .folds import FOLDS, Folds, folds_of, out_of_fold
from .outputs import Outputs, shares

if TYPE_CHECKING:
    from .base import Calibrator


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationLoss(ShownAsTable):
    """The expected score before and after calibration, their difference, and the difference as a
    fraction of the score before.

    divergence, refinement : the classic decomposition, for comparison (Ferrer & Ramos 2025, Eq.
        24-25): the mean divergence of the outputs from the calibrated outputs, and the mean entropy
        of the latter. Their sum, `semi_empirical` (Table 1), is the expected score if the
        calibrated outputs are the true probabilities.
    calibrator, calibrator_words : the name of its class, and its name for people.
    posteriors : the calibrated probabilities of the valid rows, each from a calibrator fitted to
        other rows; `rows` are the row numbers and `folds` the fold of each.
    """

    raw: Estimate
    calibrated: Estimate
    loss: Estimate
    relative: Estimate
    divergence: float
    refinement: float
    posteriors: np.ndarray
    rows: np.ndarray
    folds: np.ndarray
    calibrator: str
    calibrator_words: str
    definition: str

    @property
    def semi_empirical(self) -> float:
        return self.divergence + self.refinement

    def __float__(self) -> float:
        return float(self.loss)

    def _text_table(self) -> TextTable:
        spelled: dict[str, tuple[Estimate, Callable[[float], str]]] = {
            "before calibration": (self.raw, number),
            "after calibration": (self.calibrated, number),
            "calibration loss": (self.loss, number),
            "share of the score": (self.relative, percent),
        }
        return TextTable(
            f"{capitalised(in_words(self.definition))}, {counted(self.raw.n)}",
            ("", "value", "95% interval"),
            [
                [name, spell(x), interval_text(x.low, x.high, spell)]
                for name, (x, spell) in spelled.items()
            ],
        )

    def to_frame(self) -> Any:
        """A row for each of the four estimates, as a pandas DataFrame."""
        parts = ("raw", "calibrated", "loss", "relative")
        return estimate_frame({name: getattr(self, name) for name in parts})


@takes_row_options
def calibration_loss(
    y_true: Any,
    y_proba: Any = None,
    *,
    calibrator: Calibrator | None = None,
    score: str | Score = "log",
    cv: Any = FOLDS,
    stratify: bool = False,
    features: Any = None,
    groups: Any = None,
    train: Any = None,
    interval: Literal["paired", "bootstrap"] | None = "paired",
    resamples: int = 100,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationLoss:
    """The part of the expected score that recalibration removes, which is what miscalibration costs
    (Ferrer & Ramos 2025, Eq. 30-33).

    calibrator : any of `probaudit.calibrators`; `DirectionPreserving()` (bias-corrected
        temperature) unless given. Another calibrator measures another loss: temperature scaling
        does not correct wrong priors. If the rows are logits, it is fitted to logits.
    score : "log", "brier", a cost matrix as `Cost`, or any other Score.
    cv : the number of random folds (of whole clusters, if there are any); or the fold of each row;
        or a scikit-learn splitter. The posteriors of all folds are pooled and scored together. A
        fold whose training rows are all of one class keeps its outputs.
    stratify : whether all folds have the same class frequencies, as in the published values of
        Ferrer & Ramos 2025. The training folds then reveal the class frequencies of the test fold,
        so that a calibrator with a bias for each class looks better than it is: by 2% of the score
        for 1,000 rows of 100 classes.
    features : [n, d] numbers, for `GroupCalibration` and `MultiCalibration`; those of `Predictions`
        unless given.
    groups : one value per row, or the name of a column of `Predictions`, for `PerGroup` and
        `MultiCalibration`. For the latter also [n, columns], or a tuple of names.
    train : (y, outputs) of other rows, or `Predictions`. The calibrator is then fitted to them,
        without folds.
    interval : "paired", by linearisation with fixed calibrators; "bootstrap", where each resample
        refits the calibrators and rows stay in their folds (Ferrer & Ramos 2025, Appendix E); or
        None. The bootstrap resamples whole clusters.
    options : see `RowOptions`.

    A negative loss means that the calibrator overfits: fitting it costs more than it repairs.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 2)
    >>> round(float(calibration_loss(world.y, world.mcs).relative), 2)
    0.65
    """
    rule = as_score(score)
    _check_interval(interval, resamples)
    chosen = _chosen_calibrator(calibrator)
    predictions = rows_of(y_true, y_proba, features=features, **options)
    outputs = Outputs.of(predictions, groups)
    outputs.check_use(chosen, features=features, groups=groups)
    if isinstance(rule, Cost):
        rule.check_classes(outputs.n_classes)
    if train is None:
        folds = folds_of(outputs, cv, len(predictions), seed, stratify=stratify)
        posteriors = out_of_fold(outputs, folds.numbers, chosen)
    else:
        _check_no_folds(cv, stratify)
        training = _training_outputs(train, options, outputs, chosen)
        folds = Folds(np.full(len(outputs.codes), -1), "fitted to other rows")
        posteriors = outputs.calibrated(training.fitted(chosen))
    raw, codes = outputs.probabilities(), outputs.codes
    before, after = rule.score(raw, codes), rule.score(posteriors, codes)
    name = type(chosen).__name__
    words = Definition(rule.words(), Definition.of_name(name, chosen.words()), folds.words)
    estimates = _loss_estimates(before, after, outputs, words, with_interval=interval == "paired")
    if interval == "bootstrap":

        def score_refitted(weights: np.ndarray) -> np.ndarray:
            if train is not None:
                return after
            return rule.score(out_of_fold(outputs, folds.numbers, chosen, weights), codes)

        weights = _resampled_weights(outputs.weights, outputs.clusters, resamples, seed)
        _set_bootstrap_intervals(estimates, before, score_refitted, weights)
    share = shares(outputs.weights)
    return CalibrationLoss(
        *estimates,
        divergence=float(share @ rule.divergence(posteriors, raw)),
        refinement=float(share @ rule.entropy(posteriors)),
        posteriors=posteriors,
        rows=outputs.rows,
        folds=folds.numbers,
        calibrator=name,
        calibrator_words=chosen.words(),
        definition="calibration loss, " + words,
    )


def _chosen_calibrator(calibrator: Any) -> Calibrator:
    if calibrator is None:
        return default_calibrator()
    from .base import checked_calibrator

    return checked_calibrator(calibrator, "calibrator")


def _check_interval(interval: Any, resamples: int) -> None:
    if interval not in (None, "paired", "bootstrap"):
        raise InputError("interval", 'must be "paired", "bootstrap" or None', repr(interval))
    if resamples < 2:
        raise InputError("resamples", "must be at least 2", resamples)


def _check_no_folds(cv: Any, stratify: bool) -> None:
    default = isinstance(cv, int) and cv == FOLDS
    if stratify or not default:
        rule = "must be left out with `train`: there are no folds"
        raise InputError("stratify" if stratify else "cv", rule)


def default_calibrator() -> Calibrator:
    from .temperature import DirectionPreserving

    return DirectionPreserving()


def _training_outputs(
    train: Any, options: RowOptions, scored: Outputs, calibrator: Calibrator
) -> Outputs:
    """The rows to fit, read with the options of the rows to score. Only `Predictions` can have
    their own weights or features."""
    if isinstance(train, Predictions):
        rows = train
    elif isinstance(train, (tuple, list)) and len(train) == 2:
        left_out = ("sample_weight", "clusters")
        others: Any = {name: value for name, value in options.items() if name not in left_out}
        rows = rows_of(*train, **others)
    else:
        raise InputError("train", "must be (y, outputs) or Predictions", repr(train)[:80])
    training = Outputs.of(rows)
    if training.classes != scored.classes or training.from_logits != scored.from_logits:
        kind = "logits" if training.from_logits else "probabilities"
        names = ", ".join(map(repr, training.classes[:5])) + " ..." * (len(training.classes) > 5)
        rule = "must have the same classes and kind of outputs as the rows"
        raise InputError("train", rule, f"{kind} of {names}")
    if calibrator.takes == ("groups",) or scored.groups is not None:
        name = type(calibrator).__name__
        raise InputError(
            "train",
            f"must be left out with {name}: other rows cannot have groups",
            way_out=(f"fit {name} to them yourself, and `compare` its outputs",),
        )
    if "features" in calibrator.takes and (training.features is None) != (scored.features is None):
        raise InputError(
            "train",
            "must have features if the rows have them, and only then",
            way_out=("pass Predictions with or without features",),
        )
    return training


def _point(
    before: np.ndarray, after: np.ndarray, weights: np.ndarray
) -> tuple[float, float, float, float]:
    """Mean scores before and after, their difference, and the difference as a fraction."""
    positive = weights > 0
    share = shares(weights[positive])
    b, a = float(share @ before[positive]), float(share @ after[positive])
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = float(np.subtract(b, a))
        return b, a, loss, float(np.divide(loss, b))


def _loss_estimates(
    before: np.ndarray, after: np.ndarray, outputs: Outputs, words: str, *, with_interval: bool
) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    """The four estimates, with intervals by linearisation. The relative loss is a ratio of
    means."""
    values = _point(before, after, outputs.weights)
    share, n = shares(outputs.weights), int((outputs.weights > 0).sum())
    names = (
        "before calibration",
        "after calibration",
        "calibration loss",
        "relative calibration loss",
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = (
            after - before * (values[1] / values[0]) if values[0] else np.full(len(before), np.nan)
        )
        influences = (
            before - values[0],
            after - values[1],
            before - after - values[2],
            -rest / values[0],
        )
    estimates = []
    for name, value, influence in zip(names, values, influences, strict=True):
        terms = resampling.unit_terms(influence, share, outputs.clusters)
        half = (
            resampling.half_width(terms, resampling.quantile(outputs.clusters))
            if with_interval
            else np.nan
        )
        estimates.append(
            Estimate(
                value, low=value - half, high=value + half, n=n, definition=f"{name}, " + words
            )
        )
    return estimates[0], estimates[1], estimates[2], estimates[3]


def _set_bootstrap_intervals(
    estimates: tuple[Estimate, ...],
    before: np.ndarray,
    score_refitted: Callable[[np.ndarray], np.ndarray],
    resampled_weights: Iterator[np.ndarray],
) -> None:
    """Set the percentile intervals of the four estimates.

    score_refitted : the score of each row after calibration, refitted with the weights given.
    """
    draws = []
    for weights in resampled_weights:
        # with few rows, a resample may have training rows of one class only
        with contextlib.suppress(InputError):
            draws.append(_point(before, score_refitted(weights), weights))
    for estimate, values in zip(estimates, np.array(draws).reshape(-1, 4).T, strict=True):
        finite = values[np.isfinite(values)]
        estimate.low, estimate.high = percentile(finite) if len(finite) > 1 else (np.nan, np.nan)


def _resampled_weights(
    weights: np.ndarray, clusters: np.ndarray | None, resamples: int, seed: int
) -> Iterator[np.ndarray]:
    """The weights of rows after resampling rows, or whole clusters."""
    rng = np.random.default_rng(seed)
    size = len(weights) if clusters is None else int(clusters.max()) + 1
    for _ in range(resamples):
        (counts,) = draw_units(size, 1, rng)
        yield weights * (counts if clusters is None else counts[clusters])
