"""Calibration loss: what a calibrator, fitted on other rows, would take off the expected score (paper 2, Section 2.5.3)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from .arrays import as_array
from .errors import InputError
from .estimates.estimate import Estimate
from .estimates.intervals import percentile
from .estimates.score_intervals import Z95
from .metrics import RowOptions, rows_of
from .predictions import Predictions, sum_tolerance
from .scores import Cost, Score, as_score
from .viewing import survey

if TYPE_CHECKING:
    from .calibrators.base import Calibrator


@dataclass(frozen=True, eq=False)
class CalibrationLoss:
    """The expected score before and after calibration, their difference, and it as a fraction of the score before.

    divergence, refinement : the classic decomposition for comparison (paper 2, Eq. 24-25): the mean divergence of the outputs
        from the calibrated ones, and the mean entropy of these. Their sum is the expected score if the calibrated ones were
        true (`semi_empirical`, Table 1), which is the score itself only as far as they are.
    calibrator : the name of its class.
    posteriors : the calibrated probabilities of the rows that count, each from a calibrator that did not see its row; `rows`
        are their numbers and `folds` the fold of each.
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
    definition: str

    @property
    def semi_empirical(self) -> float:
        return self.divergence + self.refinement

    def __float__(self) -> float:
        return float(self.loss)

    def __repr__(self) -> str:
        span = f" [{self.relative.low:.2%}, {self.relative.high:.2%}]" if np.isfinite(self.relative.low) else ""
        return (
            f"{float(self.loss):.6g} of {float(self.raw):.6g}, that is {float(self.relative):.2%}{span}, is lost by"
            f" miscalibration  ({self.definition}, n = {self.raw.n:,})"
        )


@dataclass(frozen=True)
class Outputs:
    """The rows that count as calibrators take them: values [n, K], whether these are logits, true columns, weights.

    Logits of minus infinity, which calibrators do not take, make all outputs probabilities. Rows that a wide `tolerance` let
    in are scaled to sum to 1.
    """

    values: np.ndarray
    from_logits: bool
    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    classes: tuple[Any, ...]

    @classmethod
    def of(cls, predictions: Predictions) -> Outputs:
        rows = survey(predictions).good
        weights = np.ones(len(rows)) if predictions.sample_weight is None else predictions.sample_weight[rows]
        values = predictions.probs[rows]
        logits = predictions.kind in ("logits", "log_probabilities") and bool(np.isfinite(values).all())
        if logits and values.ndim == 1 and predictions.from_logits:
            values = np.column_stack([np.zeros(len(rows)), values])
        elif values.ndim == 1 or not (logits or predictions.kind == "probabilities"):
            values, logits = predictions.probabilities(rows), False
        if not logits and predictions.row_tolerance > sum_tolerance(values):
            values = values / values.sum(axis=1, keepdims=True, dtype=np.float64)
        return cls(np.ascontiguousarray(values), logits, predictions.codes[rows], weights, rows, predictions.class_order)

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    def probabilities(self) -> np.ndarray:
        if not self.from_logits:
            return self.values.astype(np.float64)
        z = self.values.astype(np.float64)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def fitted(self, calibrator: Calibrator, rows: np.ndarray, weights: np.ndarray | None = None) -> Calibrator:
        """A fresh copy of a calibrator, fitted to some rows, for all the columns."""
        from sklearn.base import clone

        copy = clone(calibrator).set_params(from_logits=self.from_logits, classes=list(range(self.n_classes)))
        found: Calibrator = copy.fit(self.values[rows], self.codes[rows], (self.weights if weights is None else weights)[rows])
        return found


def calibration_loss(
    y_true: Any,
    y_proba: Any = None,
    *,
    calibrator: Calibrator | None = None,
    score: str | Score = "log",
    cv: Any = 5,
    groups: Any = None,
    train: Any = None,
    interval: Literal["paired", "bootstrap"] | None = "paired",
    resamples: int = 100,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> CalibrationLoss:
    """How much of the expected score a calibrator would remove: what is lost by miscalibration (paper 2, Eq. 30-33).

    calibrator : any of `probaudit.calibrators`; `DirectionPreserving()` (bias-corrected temperature) unless given. Another
        choice asks another question: temperature scaling is blind to wrong priors. It sees logits if the rows are logits.
    score : "log", "brier", a cost matrix as `Cost`, or any other Score.
    cv : the number of folds, stratified by class; or the fold of each row; or a scikit-learn splitter. The posteriors of all
        folds are pooled and scored together.
    groups : one value per row; rows of a group stay in one fold (and are drawn together).
    train : (y, outputs) of other rows, or `Predictions`: the calibrator is fitted to them, and there are no folds.
    interval : "paired", by linearisation with the calibrators held fixed; "bootstrap", in which every resample fits them again
        with rows kept in their folds (paper 2, Appendix E); or None.
    options : see `RowOptions`.

    A negative loss means that the calibrator overfits: there was less to repair than it costs to learn how.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 2)
    >>> found = calibration_loss(world.y, world.mcs)
    >>> round(float(found.relative), 2)
    0.65
    """
    rule = as_score(score)
    if interval not in (None, "paired", "bootstrap"):
        raise InputError("interval", 'must be "paired", "bootstrap" or None', repr(interval))
    if resamples < 2:
        raise InputError("resamples", "must be at least 2", resamples)
    chosen = default_calibrator() if calibrator is None else checked_calibrator(calibrator, "calibrator")
    predictions = rows_of(y_true, y_proba, **options)
    outputs = Outputs.of(predictions)
    if isinstance(rule, Cost):
        rule.check_classes(outputs.n_classes)
    units = group_of_rows(groups, predictions, outputs)
    known = None if train is None else Outputs.of(_training_rows(train, options))
    folds = np.full(len(outputs.codes), -1) if known is not None else folds_of(outputs, cv, units, len(predictions), seed)
    raw = outputs.probabilities()

    def calibrated(weights: np.ndarray) -> np.ndarray:
        return out_of_fold(outputs, folds, lambda rows: outputs.fitted(chosen, rows, weights))

    posteriors = calibrated(outputs.weights) if known is None else _held_out(known, outputs, chosen)
    before, after = rule.score(raw, outputs.codes), rule.score(posteriors, outputs.codes)
    kind = "fitted to other rows" if known is not None else f"{len(np.unique(folds))} folds"
    name = type(chosen).__name__
    words = f"{rule.name} score, {name}, {kind}"
    found = _estimates(before, after, outputs.weights, words, paired=interval == "paired", units=units)
    if interval == "bootstrap":
        draws = []
        for w in _resampled_weights(outputs.weights, units, resamples, seed):
            with contextlib.suppress(InputError):  # few rows: a draw can leave one class to learn from
                refitted = posteriors if known is not None else calibrated(w)
                draws.append(_point(before, rule.score(refitted, outputs.codes), w))
        for estimate, values in zip(found, np.array(draws).reshape(-1, 4).T, strict=True):
            finite = values[np.isfinite(values)]
            estimate.low, estimate.high = percentile(finite) if len(finite) > 1 else (np.nan, np.nan)
    share = shares(outputs.weights)
    divergence, refinement = float(share @ rule.divergence(posteriors, raw)), float(share @ rule.entropy(posteriors))
    return CalibrationLoss(*found, divergence, refinement, posteriors, outputs.rows, folds, name, f"calibration loss, {words}")


def default_calibrator() -> Calibrator:
    from .calibrators.temperature import DirectionPreserving

    return DirectionPreserving()


def checked_calibrator(calibrator: Any, argument: str) -> Calibrator:
    from .calibrators.combining import check_calibrator

    check_calibrator(calibrator, argument)
    found: Calibrator = calibrator
    return found


def _training_rows(train: Any, options: RowOptions) -> Predictions:
    """Other rows, read as the rows to be judged are; weights of theirs need Predictions."""
    if isinstance(train, Predictions):
        return train
    if not (isinstance(train, (tuple, list)) and len(train) == 2):
        raise InputError("train", "must be (y, outputs) or Predictions", repr(train)[:80])
    others: Any = {name: value for name, value in options.items() if name != "sample_weight"}
    return rows_of(*train, **others)


def group_of_rows(groups: Any, predictions: Predictions, outputs: Outputs) -> np.ndarray | None:
    """The number of each counted row's group."""
    if groups is None:
        return None
    values = as_array(groups, "groups")
    if values.shape != (len(predictions),):
        raise InputError("groups", f"needs one value per row ({len(predictions)})", f"has shape {values.shape}")
    return np.unique(values[outputs.rows], return_inverse=True)[1].reshape(-1)


def folds_of(outputs: Outputs, cv: Any, units: np.ndarray | None, total: int, seed: int) -> np.ndarray:
    """The fold of each row: as given, or stratified by class with whole groups."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2 or cv > len(outputs.codes):
            raise InputError("cv", f"must be at least 2 and at most the number of rows ({len(outputs.codes)})", cv)
        splitter: Any = StratifiedKFold if units is None else StratifiedGroupKFold
        splits = splitter(int(cv), shuffle=True, random_state=seed)
    elif hasattr(cv, "split"):
        splits = cv
    else:
        given = as_array(cv, "cv")
        if given.shape != (total,):
            raise InputError("cv", f"must be a number of folds, a splitter, or the fold of each row ({total})", repr(cv)[:80])
        folds = np.unique(given[outputs.rows], return_inverse=True)[1].reshape(-1)
        if folds.max() < 1:
            raise InputError("cv", "needs two folds or more", 1)
        return folds
    folds = np.full(len(outputs.codes), -1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        try:
            for number, (_, test) in enumerate(splits.split(outputs.values, outputs.codes, units)):
                if (folds[test] >= 0).any():
                    raise InputError("cv", "every row must be in a test fold once", f"fold {number} has rows of another")
                folds[test] = number
        except InputError:
            raise
        except ValueError as problem:
            raise InputError("cv", "the rows cannot be split so", str(problem)) from None
    if (folds < 0).any():
        raise InputError("cv", "every row must be in a test fold once", f"row {int(outputs.rows[folds < 0][0])} is in none")
    return folds


def out_of_fold(outputs: Outputs, folds: np.ndarray, fit: Callable[[np.ndarray], Calibrator]) -> np.ndarray:
    """Pooled posteriors, each row's from the calibrator that was fitted to the other folds."""
    found = np.empty(outputs.values.shape)
    for number in np.unique(folds):
        test = folds == number
        rows = np.flatnonzero(~test)
        if len(np.unique(outputs.codes[rows])) < 2:
            raise InputError(
                "cv", "every set of training folds needs rows of two classes", f"without fold {number} there is one"
            )
        found[test] = fit(rows).predict_proba(outputs.values[test])
    return found


def _held_out(train: Outputs, outputs: Outputs, calibrator: Calibrator) -> np.ndarray:
    if train.classes != outputs.classes or train.from_logits != outputs.from_logits:
        kind = "logits" if train.from_logits else "probabilities"
        found = f"{kind} of {', '.join(map(repr, train.classes[:5]))}{' ...' * (len(train.classes) > 5)}"
        raise InputError("train", "must have the same classes and kind of outputs as the rows", found)
    return train.fitted(calibrator, np.arange(len(train.codes))).predict_proba(outputs.values)


def shares(weights: np.ndarray) -> np.ndarray:
    """Weights scaled to sum to 1; huge ones do not overflow."""
    scaled = weights / weights.max()
    return np.asarray(scaled / scaled.sum())


def _point(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> tuple[float, float, float, float]:
    """Mean scores before and after, their difference, and its fraction."""
    seen = weights > 0
    share = shares(weights[seen])
    b, a = float(share @ before[seen]), float(share @ after[seen])
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = float(np.subtract(b, a))
        return b, a, loss, float(np.divide(loss, b))


def _estimates(
    before: np.ndarray, after: np.ndarray, weights: np.ndarray, words: str, *, paired: bool, units: np.ndarray | None
) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    """The four estimates, with intervals by linearisation: the relative loss is a ratio of means."""
    values = _point(before, after, weights)
    share, n = shares(weights), int((weights > 0).sum())
    names = ("before calibration", "after calibration", "calibration loss", "relative calibration loss")
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = after - before * (values[1] / values[0]) if values[0] else np.full(len(before), np.nan)
        influences = (before - values[0], after - values[1], before - after - values[2], -rest / values[0])
    found = []
    for name, value, influence in zip(names, values, influences, strict=True):
        terms = share * influence if units is None else np.bincount(units, share * influence)
        half = Z95 * float(np.sqrt((terms**2).sum() * len(terms) / max(len(terms) - 1, 1))) if paired else np.nan
        half = half if np.isfinite(half) else np.nan
        found.append(Estimate(value, low=value - half, high=value + half, n=n, definition=f"{name}, {words}"))
    return found[0], found[1], found[2], found[3]


def _resampled_weights(weights: np.ndarray, units: np.ndarray | None, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Weights of the rows if they, or whole groups of them, were drawn again."""
    rng = np.random.default_rng(seed)
    size = len(weights) if units is None else int(units.max()) + 1
    for _ in range(resamples):
        counts = rng.multinomial(size, np.full(size, 1 / size))
        yield weights * (counts if units is None else counts[units])
