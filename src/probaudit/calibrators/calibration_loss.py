"""Calibration loss: how much a calibrator, fitted to other rows, reduces the expected score
(Ferrer & Ramos 2025, Section 2.5.3)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration import resampling
from ..calibration.resampling import draw_units, percentile
from ..choices.definitions import Definition
from ..choices.scores import Cost, Score, as_score
from ..data.arrays import as_array
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.predictions import Predictions, numbered
from ..engines.good_rows import calibrator_outputs, survey, weights_of
from ..errors import InputError
from ..estimate import Estimate

if TYPE_CHECKING:
    from .base import Calibrator

FOLDS = 5


@dataclass(frozen=True, eq=False)
class CalibrationLoss:
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

    def __repr__(self) -> str:
        span = (
            f" [{self.relative.low:.2%}, {self.relative.high:.2%}]"
            if np.isfinite(self.relative.low)
            else ""
        )
        return (
            f"{float(self.loss):.6g} of {float(self.raw):.6g}, or {float(self.relative):.2%}{span},"
            f" is lost by miscalibration  ({self.definition}, n = {self.raw.n:,})"
        )


@dataclass(frozen=True)
class Outputs:
    """The valid rows in the form that calibrators take: values [n, K], whether they are logits,
    true columns, weights.

    Calibrators do not accept logits of minus infinity: if there are any, all outputs become
    probabilities. Rows accepted by a wide `tolerance` are scaled to sum to 1.

    features, groups : for calibrators that use them (`Calibrator.takes`). clusters : the number of
        each row's cluster.
    """

    values: np.ndarray
    from_logits: bool
    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    classes: tuple[Any, ...]
    features: np.ndarray | None = None
    groups: np.ndarray | None = None
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, predictions: Predictions, groups: Any = None) -> Outputs:
        """groups : one value per row, or the name of a column of the rows."""
        rows = survey(predictions).good
        weights = weights_of(predictions, rows)
        values, logits = calibrator_outputs(predictions, rows)
        known = None if groups is None else _groups_of(predictions, groups)[rows]
        clusters = (
            None
            if predictions.cluster_numbers is None
            else numbered(predictions.cluster_numbers[rows])
        )
        features = None if predictions.features is None else predictions.features[rows]
        codes, classes = predictions.codes[rows], predictions.class_order
        return cls(
            np.ascontiguousarray(values),
            logits,
            codes,
            weights,
            rows,
            classes,
            features,
            known,
            clusters,
        )

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    def probabilities(self) -> np.ndarray:
        if not self.from_logits:
            return self.values.astype(np.float64)
        z = self.values.astype(np.float64)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def besides(self, calibrator: Calibrator, rows: Any = slice(None)) -> dict[str, np.ndarray]:
        """The features or groups of some rows, if a calibrator takes them."""
        if calibrator.takes is None:
            return {}
        found = {"features": self.features, "groups": self.groups}[calibrator.takes]
        return {} if found is None else {calibrator.takes: found[rows]}

    def fitted(
        self,
        calibrator: Calibrator,
        rows: Any = slice(None),
        weights: np.ndarray | None = None,
        *,
        named: bool = False,
    ) -> Calibrator:
        """A new copy of a calibrator, fitted to some rows, for all columns.

        named : whether its classes are the class names, as in a calibrator for users; otherwise
            they are column numbers.
        """
        from sklearn.base import clone

        classes = list(self.classes) if named else list(range(self.n_classes))
        labels = np.array(classes)[self.codes[rows]] if named else self.codes[rows]
        copy = clone(calibrator).set_params(from_logits=self.from_logits, classes=classes)
        weight = (self.weights if weights is None else weights)[rows]
        found: Calibrator = copy.fit(
            self.values[rows], labels, weight, **self.besides(calibrator, rows)
        )
        return found

    def calibrated(self, fitted: Calibrator, rows: Any = slice(None)) -> np.ndarray:
        """The probabilities of some rows after calibration."""
        return fitted.predict_proba(self.values[rows], **self.besides(fitted, rows))

    def check_use(self, calibrator: Calibrator, **given: Any) -> None:
        """Raise if a calibrator needs groups that are missing, or does not use what the caller
        passed."""
        name = type(calibrator).__name__
        if calibrator.takes == "groups" and self.groups is None:
            raise InputError("groups", f"{name} needs the group of each row", "none")
        if any(member.takes == "groups" for member in _members(calibrator)):
            raise InputError(
                "calibrator", "groups do not reach PerGroup inside another calibrator", name
            )
        for argument, value in given.items():
            if value is not None and calibrator.takes != argument:
                known = {"features": "GroupCalibration", "groups": "PerGroup"}[argument]
                rule = f"need a calibrator that uses them; pass {known}, or leave out `{argument}`"
                raise InputError(argument, rule, name)


def _members(calibrator: Calibrator) -> Iterator[Calibrator]:
    """The calibrators inside a calibrator: the steps of a chain, or the one fitted in each
    group."""
    for member in (*getattr(calibrator, "steps", ()), getattr(calibrator, "base", None)):
        if member is not None:
            checked = checked_calibrator(member, "calibrator")
            yield checked
            yield from _members(checked)


def _groups_of(predictions: Predictions, groups: Any) -> np.ndarray:
    from .combining import group_column

    if isinstance(groups, str):
        columns = predictions.columns or {}
        if groups not in columns:
            known = ", ".join(columns) or "there are none"
            rule = f"must be one value per row, or one of the columns ({known})"
            raise InputError("groups", rule, repr(groups))
        groups = columns[groups]
    return group_column(groups, len(predictions))


@documents_row_options
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
    features : [n, d] numbers, for `GroupCalibration`; those of `Predictions` unless given.
    groups : one value per row, or the name of a column of `Predictions`, for `PerGroup`.
    train : (y, outputs) of other rows, or `Predictions`. The calibrator is then fitted to them,
        without folds.
    interval : "paired", by linearisation with fixed calibrators; "bootstrap", where each resample
        refits the calibrators and rows stay in their folds (Ferrer & Ramos 2025, Appendix E); or
        None. The bootstrap resamples whole clusters.
    options : see `RowOptions`.

    A negative loss means that the calibrator overfits: fitting it costs more than it repairs.

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
    chosen = (
        default_calibrator() if calibrator is None else checked_calibrator(calibrator, "calibrator")
    )
    predictions = rows_of(y_true, y_proba, features=features, **options)
    outputs = Outputs.of(predictions, groups)
    outputs.check_use(chosen, features=features, groups=groups)
    if isinstance(rule, Cost):
        rule.check_classes(outputs.n_classes)
    if train is not None and (stratify or not (isinstance(cv, int) and cv == FOLDS)):
        raise InputError(
            "stratify" if stratify else "cv",
            "must be left out with `train`: there are no folds",
        )
    known = None if train is None else _training_outputs(train, options, outputs, chosen)
    if known is None:
        folds = folds_of(outputs, cv, len(predictions), seed, stratify=stratify)
    else:
        folds = Folds(np.full(len(outputs.codes), -1), "fitted to other rows")
    raw = outputs.probabilities()

    def calibrated(weights: np.ndarray) -> np.ndarray:
        return out_of_fold(outputs, folds.numbers, chosen, weights)

    posteriors = (
        calibrated(outputs.weights) if known is None else outputs.calibrated(known.fitted(chosen))
    )
    before, after = rule.score(raw, outputs.codes), rule.score(posteriors, outputs.codes)
    name = type(chosen).__name__
    words = Definition(rule.words(), Definition.of_name(name, chosen.words()), folds.words)
    found = _loss_estimates(before, after, outputs, words, with_interval=interval == "paired")
    if interval == "bootstrap":
        draws = []
        for w in _resampled_weights(outputs.weights, outputs.clusters, resamples, seed):
            # with few rows, a resample may have training rows of one class only
            with contextlib.suppress(InputError):
                refitted = posteriors if known is not None else calibrated(w)
                draws.append(_point(before, rule.score(refitted, outputs.codes), w))
        for estimate, values in zip(found, np.array(draws).reshape(-1, 4).T, strict=True):
            finite = values[np.isfinite(values)]
            estimate.low, estimate.high = (
                percentile(finite) if len(finite) > 1 else (np.nan, np.nan)
            )
    share = shares(outputs.weights)
    divergence, refinement = (
        float(share @ rule.divergence(posteriors, raw)),
        float(share @ rule.entropy(posteriors)),
    )
    definition = "calibration loss, " + words
    return CalibrationLoss(
        *found,
        divergence=divergence,
        refinement=refinement,
        posteriors=posteriors,
        rows=outputs.rows,
        folds=folds.numbers,
        calibrator=name,
        calibrator_words=chosen.words(),
        definition=definition,
    )


def default_calibrator() -> Calibrator:
    from .temperature import DirectionPreserving

    return DirectionPreserving()


def checked_calibrator(calibrator: Any, argument: str) -> Calibrator:
    from .combining import check_calibrator

    check_calibrator(calibrator, argument)
    found: Calibrator = calibrator
    return found


def _training_outputs(
    train: Any, options: RowOptions, judged: Outputs, calibrator: Calibrator
) -> Outputs:
    """Other rows, with the options of the rows to score; pass Predictions for weights or
    features."""
    if isinstance(train, Predictions):
        rows = train
    elif isinstance(train, (tuple, list)) and len(train) == 2:
        left_out = ("sample_weight", "clusters")
        others: Any = {name: value for name, value in options.items() if name not in left_out}
        rows = rows_of(*train, **others)
    else:
        raise InputError("train", "must be (y, outputs) or Predictions", repr(train)[:80])
    found = Outputs.of(rows)
    if found.classes != judged.classes or found.from_logits != judged.from_logits:
        kind = "logits" if found.from_logits else "probabilities"
        names = ", ".join(map(repr, found.classes[:5])) + " ..." * (len(found.classes) > 5)
        rule = "must have the same classes and kind of outputs as the rows"
        raise InputError("train", rule, f"{kind} of {names}")
    if calibrator.takes == "groups":
        raise InputError(
            "train", "has no groups; fit PerGroup yourself and compare its outputs with `compare`"
        )
    if calibrator.takes == "features" and (found.features is None) != (judged.features is None):
        raise InputError(
            "train", "must have features if the rows have them: pass Predictions with features"
        )
    return found


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each valid row, and how the folds were made, in words."""

    numbers: np.ndarray
    words: str


def folds_of(outputs: Outputs, cv: Any, total: int, seed: int, *, stratify: bool = False) -> Folds:
    """The fold of each row, given or random. Clusters stay whole.

    cv : as in `calibration_loss`; or `Folds` of the same rows.
    """
    from .fitting.folding import fold_numbers, fold_words

    if not isinstance(stratify, (bool, np.bool_)):
        raise InputError("stratify", "must be True or False", repr(stratify))
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        numbers = fold_numbers(
            int(cv), outputs.codes, outputs.clusters, seed, stratify=bool(stratify)
        )
        return Folds(
            numbers,
            fold_words(int(cv), clustered=outputs.clusters is not None, stratify=bool(stratify)),
        )
    if stratify:
        raise InputError("stratify", "needs a number of folds in `cv`", repr(cv)[:80])
    if isinstance(cv, Folds):
        if len(cv.numbers) != len(outputs.codes):
            raise InputError(
                "cv",
                f"must have one fold for each valid row ({len(outputs.codes)})",
                len(cv.numbers),
            )
        numbers, words = cv.numbers, cv.words
    elif hasattr(cv, "split"):
        numbers = _splitter_folds(cv, outputs)
        words = f"{numbers.max() + 1} folds of {type(cv).__name__}"
    else:
        given = as_array(cv, "cv")
        if given.shape != (total,):
            raise InputError(
                "cv",
                f"must be a number of folds, a splitter, or the fold of each row ({total})",
                repr(cv)[:80],
            )
        numbers = np.unique(given[outputs.rows], return_inverse=True)[1].reshape(-1)
        words = f"{numbers.max() + 1} given folds"
    if numbers.max() < 1:
        raise InputError("cv", "needs two folds or more", 1)
    _check_clusters(numbers, outputs)
    return Folds(numbers, words)


def _splitter_folds(splitter: Any, outputs: Outputs) -> np.ndarray:
    """The fold of each row by a scikit-learn splitter; clusters are passed as its groups."""
    folds = np.full(len(outputs.codes), -1)
    with warnings.catch_warnings():
        # `_check_clusters` does this
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        # calibrators can lack a class
        warnings.filterwarnings("ignore", message="The least populated class")
        try:
            tests = [
                test for _, test in splitter.split(outputs.values, outputs.codes, outputs.clusters)
            ]
        except ValueError as problem:
            raise InputError("cv", "cannot split these rows", str(problem)) from None
    for number, test in enumerate(tests):
        if (folds[test] >= 0).any():
            raise InputError(
                "cv", "every row must be in a test fold once", f"fold {number} has rows of another"
            )
        folds[test] = number
    if (folds < 0).any():
        raise InputError(
            "cv",
            "every row must be in a test fold once",
            f"row {int(outputs.rows[folds < 0][0])} is in none",
        )
    return folds


def _check_clusters(folds: np.ndarray, outputs: Outputs) -> None:
    if outputs.clusters is None:
        return
    first = np.full(int(outputs.clusters.max()) + 1, -1)
    first[outputs.clusters[::-1]] = folds[::-1]
    apart = np.flatnonzero(first[outputs.clusters] != folds)
    if len(apart):
        rule = "rows of a cluster must share a fold; use a splitter of groups, or a number of folds"
        raise InputError("cv", rule, "its cluster is in two folds", row=int(outputs.rows[apart[0]]))


def out_of_fold(
    outputs: Outputs, folds: np.ndarray, calibrator: Calibrator, weights: np.ndarray | None = None
) -> np.ndarray:
    """Pooled posteriors; those of a fold come from a calibrator fitted to the other folds.

    If the training rows are all of one class, the fold keeps its outputs. A class without training
    rows keeps its probabilities, or its log odds: all calibrators do so.
    """
    weight = outputs.weights if weights is None else weights
    found = np.empty(outputs.values.shape)
    numbers = np.unique(folds)
    kept = 0
    for number in numbers:
        test = folds == number
        rows = np.flatnonzero(~test)
        if len(np.unique(outputs.codes[rows[weight[rows] > 0]])) < 2:
            found[test] = outputs.probabilities()[test]
            kept += 1
        else:
            found[test] = outputs.calibrated(outputs.fitted(calibrator, rows, weight), test)
    if kept == len(numbers):
        raise InputError(
            "cv", "needs training folds with rows of two classes", "each has one class"
        )
    return found


def shares(weights: np.ndarray) -> np.ndarray:
    """Weights scaled to sum to 1, without overflow."""
    scaled = weights / weights.max()
    return np.asarray(scaled / scaled.sum())


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
    found = []
    for name, value, influence in zip(names, values, influences, strict=True):
        terms = resampling.unit_terms(influence, share, outputs.clusters)
        half = (
            resampling.half_width(terms, resampling.quantile(outputs.clusters))
            if with_interval
            else np.nan
        )
        found.append(
            Estimate(
                value, low=value - half, high=value + half, n=n, definition=f"{name}, " + words
            )
        )
    return found[0], found[1], found[2], found[3]


def _resampled_weights(
    weights: np.ndarray, clusters: np.ndarray | None, resamples: int, seed: int
) -> Iterator[np.ndarray]:
    """The weights of rows after resampling rows, or whole clusters."""
    rng = np.random.default_rng(seed)
    size = len(weights) if clusters is None else int(clusters.max()) + 1
    for _ in range(resamples):
        (counts,) = draw_units(size, 1, rng)
        yield weights * (counts if clusters is None else counts[clusters])
