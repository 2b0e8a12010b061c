"""The base class of all calibrators: input checks, the order of classes, and the report of a
fit."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..choices.checked import wrong_choice
from ..data.arrays import as_array, as_numbers
from ..data.calibrator_fit import CalibratorFit
from ..data.classes import check_column_order, class_list
from ..data.label_hints import table_hint
from ..data.predictions import SUM_TOLERANCE, Predictions, label_codes, sum_tolerance
from ..data.row_index import common_index
from ..engines.good_rows import survey
from ..errors import Argument, InputError
from ..kernels.rules import LOGIT_LIMIT
from ..states.bad_rows import DIVIDE, ROUNDED
from .registry import CLASSES, METHODS

COUNTED = 2**16  # whole-number labels below this are counted, which is faster than sorting
MOST_ROWS = 2.0**53  # the largest sum of weights
ROUNDING = 1e-12  # of a mean log loss
EXACT = 1e-13  # a row that sums to 1 within this is not rescaled
WORSE = "the log loss of these rows is worse than before"


@dataclass(frozen=True)
class FitReport:
    """The outcome of a fit: whether it converged, a status in words, the mean log loss of its rows
    before and after calibration, and their number."""

    converged: bool
    status: str
    score_before: float
    score_after: float
    n: int


@dataclass(frozen=True, eq=False)
class Sample:
    """Checked rows: the outputs [n, K] (float32 or float64, contiguous), whether they are logits,
    and for a fit the column of each row's class and its weight.

    A row of weight 2 counts as two rows. Weights with a mean below 1 are scaled to a mean of 1, as
    pseudo-counts, numbers of bins and priors depend on the number of rows.
    """

    values: np.ndarray
    from_logits: bool
    codes: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def log_probs(self) -> np.ndarray:
        """Log-probabilities in float64; rows sum to 1 up to rounding. A probability of 0 counts as
        the smallest normal number of its input format."""
        if self.from_logits:
            z = self.values.astype(np.float64)
            z -= z.max(axis=1, keepdims=True)
            return z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        p = np.maximum(self.values, np.finfo(self.values.dtype).tiny, dtype=np.float64)
        divisors = _divisors(p)
        np.log(p, out=p)
        p -= np.log(divisors)[:, None]
        return p

    @cached_property
    def probs(self) -> np.ndarray:
        """Probabilities in float64; rows sum to 1 up to rounding."""
        p = (
            np.exp(self.log_probs)
            if self.from_logits
            else self.values.astype(np.float64, copy=False)
        )
        return p / _divisors(p)[:, None]

    def take(self, rows: Any) -> Sample:
        return Sample(self.values[rows], self.from_logits, self.codes[rows], self.weights[rows])


def row_sums(values: np.ndarray) -> np.ndarray:
    """The sum of each row in float64. With few columns this is several times as fast as
    `values.sum(axis=1)`."""
    return np.einsum("nk->n", values, dtype=np.float64)


def _divisors(p: np.ndarray) -> np.ndarray:
    """The sum of each row, to divide it by. Sums that differ from 1 only by rounding become 1, so
    that equal outputs stay equal."""
    total = row_sums(p)
    total[np.abs(total - 1) <= EXACT] = 1.0
    return total


def log_score(probs: np.ndarray, sample: Sample) -> float:
    """The weighted mean log loss; infinite if a true class has probability 0."""
    with np.errstate(divide="ignore"):
        losses = -np.log(probs[np.arange(len(sample)), sample.codes])
    return float((sample.weights * losses).sum() / sample.weights.sum())


def fit_report(sample: Sample, probs: np.ndarray, converged: bool, status: str) -> FitReport:
    """The report of a fit, given the calibrated probabilities of its rows. The status mentions a
    log loss that is worse than before."""
    before, after = log_score(sample.probs, sample), log_score(probs, sample)
    return FitReport(
        converged,
        f"{status}; {WORSE}" if after > before + ROUNDING else status,
        before,
        after,
        len(sample),
    )


class Calibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A map from outputs to calibrated probabilities: `fit(P, y, sample_weight=None)`, then
    `predict_proba(P)`.

    P : [n, K] outputs: probabilities, or logits with `from_logits=True`; the kind is never guessed.
        With one column fewer than classes, the first class is left out: its probability is the
        remainder, its logit 0. Outputs of a two-class problem may therefore be [n] or [n, 1] as
        well as [n, 2], in `fit` and in `predict_proba`, whichever of them the fit had. The result
        is always [n, K], as in scikit-learn: its last column is the probability of the second
        class.
    y : the true classes. `classes` gives the class of each column, in order. Without it, the
        columns are the sorted labels, as in scikit-learn, if there is one label per column;
        otherwise labels are column numbers. A class without rows keeps its column.

    A subclass takes its options in __init__, including `from_logits` and `classes`. It implements
    `_fit`, which learns from a `Sample`, and `_transform`, which returns probabilities. `_fitted`
    lists the fitted attributes to save, each with its form: float, str, Calibrator, the shape of an
    array, or a list of one of these. In a shape, "K" is the number of classes, another letter is
    any size (the same in all shapes), and None is any size except 0. `words` gives a short name.
    `registry.py` says how to register a new calibrator.

    `columns_`, if set, names the columns of the file that features and then groups were read from,
    so that `probaudit apply` can read them from another file.
    """

    accuracy_preserving: ClassVar[bool] = False  # whether the most probable class never changes
    # what `fit` and `predict_proba` take besides outputs
    takes: ClassVar[tuple[Literal["features", "groups"], ...]] = ()
    takes_clusters: ClassVar[bool] = False  # whether `fit` keeps dependent rows together
    # the numbers of columns of features and of groups in the fit
    feature_columns: int = 0
    group_columns: int = 0
    _fitted: ClassVar[Mapping[str, Any]] = {}

    from_logits: bool
    classes: Any
    classes_: np.ndarray
    fit_report_: FitReport
    columns_: np.ndarray

    @abstractmethod
    def _fit(self, sample: Sample) -> tuple[bool, str]:
        """Learn from rows. Returns whether the fit converged, and its status in words."""

    @abstractmethod
    def _transform(self, sample: Sample) -> np.ndarray:
        """Calibrated probabilities, [n, K] in float64. The sample has no true classes here."""

    def words(self) -> str:
        """A short name for people, such as "temperature scaling"."""
        return type(self).__name__

    @property
    def fitted_with(self) -> tuple[str, ...]:
        """What a fitted calibrator needs besides outputs: those of `takes` that the fit had."""
        return self.takes

    @property
    def fit_identity(self) -> CalibratorFit | None:
        """What identifies the rows of the fit; None if the calibrator learns nothing, or if the log
        loss of the rows is infinite."""
        report = self.fit_report_
        if not self._fitted or not math.isfinite(report.score_after):
            return None
        return CalibratorFit(type(self).__name__, report.n, report.score_after)

    def fit(self, P: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from outputs and true classes."""
        sample = self._learning_sample(P, y, sample_weight)
        return self._finish(sample, *self._fit(sample))

    def predict_proba(self, P: Any) -> np.ndarray:
        """Calibrated probabilities, [n, K], columns in the order of `classes_`."""
        check_is_fitted(self, "classes_")
        return self._transform(self._sample(P))

    def predict(self, P: Any) -> np.ndarray:
        """The most probable class of each row after calibration; the first in case of a tie."""
        check_is_fitted(self, "classes_")
        return self.classes_[self.predict_proba(P).argmax(axis=1)]

    def _finish(self, sample: Sample, converged: bool, status: str) -> Self:
        self.fit_report_ = fit_report(sample, self._transform(sample), converged, status)
        return self

    def _check_learned(self) -> None:
        """Raise unless the fitted attributes, read from a file, give probabilities."""
        sample = Sample(
            np.full((1, len(self.classes_)), 1 / len(self.classes_)),
            False,
            np.zeros(1, np.int64),
            np.ones(1),
        )
        check_posteriors(self._transform(sample), len(self.classes_))

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Sample:
        """The checked rows of positive weight; sets `classes_`."""
        _check_outputs(P)
        common_index({"P": P, "y": y, "sample_weight": sample_weight})
        _check_one_label_per_row(y)
        tolerance = sum_tolerance(P)
        values, labels = validate_data(
            self, _two_dimensional(P), y, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        largest = largest_size(values)
        _check_labels(labels)
        self.classes_ = class_order(self.classes, labels, values.shape[1])
        check_column_order(P, self.classes_.tolist()[-values.shape[1] :], "P")
        codes = label_codes(labels, tuple(self.classes_.tolist()))
        weights = np.asarray(
            _check_sample_weight(sample_weight, values, ensure_non_negative=True), np.float64
        )
        if not weights.any():
            raise InputError("sample_weight", "must not be all zero")
        values = with_first_column(values, len(self.classes_), self.from_logits)
        values = checked_output_rows(values, codes, self.from_logits, largest, tolerance)
        kept = weights > 0
        if np.count_nonzero(np.bincount(codes[kept])) < 2:
            only = f"has one class, {labels[kept].tolist()[0]!r}"
            raise InputError("y", "needs rows of two classes or more", only)
        sample = Sample(values, self.from_logits, codes, weights)
        sample = sample if kept.all() else sample.take(kept)
        if sample_weight is None:
            return sample
        return replace(sample, weights=as_repeats(sample.weights))

    def _sample(self, P: Any) -> Sample:
        """The checked rows to calibrate."""
        _check_outputs(P)
        tolerance = sum_tolerance(P)
        check_column_order(P, self.classes_.tolist()[-self.n_features_in_ :], "P")
        numbers: Any = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}
        P = _two_dimensional(P) if len(self.classes_) == 2 else _as_table(P)
        size = np.shape(P)[1:]
        if size == () and len(self.classes_) > 2:
            rule = f"must have a column for each of the {len(self.classes_)} classes of the fit"
            raise InputError(
                "P", rule, f"has shape {np.shape(P)}", way_out=("reshape your data to [n, K]",)
            )
        if len(self.classes_) == 2 and size in ((1,), (2,)) and size != (self.n_features_in_,):
            values = check_array(P, **numbers)  # one column or two, whatever the fit had
        else:
            values = validate_data(self, P, reset=False, **numbers)
        largest = largest_size(values)
        values = with_first_column(values, len(self.classes_), self.from_logits)
        codes = np.zeros(len(values), np.int64)
        values = checked_output_rows(values, codes, self.from_logits, largest, tolerance)
        return Sample(values, self.from_logits, codes, np.ones(len(values)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it maps outputs and does not classify inputs
        return tags


def checked_calibrator(value: Any, argument: str) -> Calibrator:
    if not isinstance(value, Calibrator):
        known = {kind: kind for kind in CLASSES}
        known |= {name: entry.kind for name, (entry, _) in METHODS.items()}
        raise wrong_choice(argument, value, "calibrator", known, "TemperatureScaling()")
    return value


def _check_one_label_per_row(y: Any) -> None:
    """Raise if labels have several columns, such as one-hot labels, or outputs in their place."""
    shape: tuple[int, ...] = np.shape(y) if isinstance(y, list) else getattr(y, "shape", ())
    if len(shape) > 1 and shape[1:] != (1,):
        way_out = table_hint(as_array(y, "y"), "y")
        raise InputError("y", "must be one label per row", f"has shape {shape}", way_out=way_out)


def _check_labels(labels: np.ndarray) -> None:
    """Raise if labels are not classes, such as probabilities."""
    if labels.dtype.kind not in "fO":
        return
    with warnings.catch_warnings():
        # scikit-learn warns of many classes among few rows, which are valid
        warnings.filterwarnings(
            "ignore", message="The number of unique classes", category=UserWarning
        )
        try:
            check_classification_targets(labels)
        except ValueError as problem:
            found = str(problem).partition(". ")[0]  # in the words that scikit-learn asks for
            way_out = ("outputs come first: `fit(P, y)`",)
            raise InputError("y", "must hold classes", found, way_out=way_out) from None


def _check_outputs(P: Any) -> None:
    """Raise if outputs come with labels, as `collect` and `read` return them."""
    if isinstance(P, Predictions):
        rule, way_out = "must be outputs without labels", ("pass `rows.probs`",)
        raise InputError("P", rule, "Predictions", way_out=way_out)


def _as_table(P: Any) -> Any:
    """Tensors as arrays. Data frames keep their column names. scikit-learn checks the rest."""
    known = isinstance(P, (np.ndarray, list, tuple)) or hasattr(P, "columns") or hasattr(P, "tocsr")
    return P if known else as_numbers(P, "P")


def _two_dimensional(P: Any) -> Any:
    """The single column of a two-class problem as [n, 1]."""
    P = _as_table(P)
    if isinstance(P, np.ndarray):
        return P[:, None] if P.ndim == 1 else P
    flat = isinstance(P, (list, tuple)) and len(P) > 0 and np.ndim(P[0]) == 0
    return [[value] for value in P] if flat else P


def class_order(classes: Any, labels: np.ndarray, columns: int) -> np.ndarray:
    """The class of each column, in order. There is one class more than columns if the first is left
    out.

    >>> class_order(None, np.array(["no", "yes", "no"]), 2)
    array(['no', 'yes'], dtype='<U3')
    >>> class_order(None, np.array([0, 2]), 4)
    array([0, 1, 2, 3])
    """
    present = distinct_labels(labels)
    if classes is not None:
        declared = class_list(classes, "classes")
        if len(set(declared)) != len(declared):
            raise InputError("classes", "must not repeat a class", repr(declared))
        if len(declared) not in (columns, columns + 1):
            rule = f"must have one class for each of the {columns} columns"
            raise InputError("classes", rule, len(declared))
        codes = label_codes(present, tuple(declared))
        unknown = present[(codes < 0) | (codes >= len(declared))].tolist()
        if unknown:
            raise InputError("y", "must be one of `classes`", repr(unknown[0]))
        return np.array(declared)
    size = max(2, columns)
    if len(present) in (size, columns + 1):
        return present
    whole = present.dtype.kind in "iuf" and (present == np.floor(present)).all()
    if whole and present[0] >= 0 and present[-1] < size:
        return np.arange(size)
    names = ", ".join(map(repr, present[:5].tolist()))
    raise InputError(
        "y",
        f"must have as many classes as `P` has columns ({columns}), or be column numbers",
        f"has the {len(present)} classes {names}",
        way_out=("name the class of each column in ", Argument("classes")),
    )


def distinct_labels(labels: np.ndarray) -> np.ndarray:
    """The sorted distinct labels.

    >>> distinct_labels(np.array([3, 1, 3], np.uint8))
    array([1, 3], dtype=uint8)
    """
    if labels.dtype.kind in "iub" and labels.min() >= 0 and labels.max() < COUNTED:
        return np.flatnonzero(np.bincount(labels.astype(np.int64, copy=False))).astype(labels.dtype)
    return np.unique(labels)


def as_repeats(weights: np.ndarray) -> np.ndarray:
    """Weights as numbers of rows: those with a mean below 1 are scaled to a mean of 1.

    >>> as_repeats(np.array([1.0, 3.0])), as_repeats(np.array([0.25, 0.75]))
    (array([1., 3.]), array([0.5, 1.5]))
    """
    with np.errstate(over="ignore"):
        total = min(max(float(weights.sum()), float(len(weights))), MOST_ROWS)
    scaled = weights / weights.max()
    return np.asarray(scaled * (total / scaled.sum()))


def with_first_column(values: np.ndarray, n_classes: int, from_logits: bool) -> np.ndarray:
    """All columns: adds the first one if it was left out."""
    if values.shape[1] < n_classes:
        first = np.zeros(len(values)) if from_logits else 1 - values.sum(axis=1, dtype=np.float64)
        first[(first < 0) & (first >= -SUM_TOLERANCE)] = 0.0  # rounding error of a probability of 0
        values = np.column_stack([first, values])
    return np.ascontiguousarray(values)


def largest_size(values: np.ndarray) -> float:
    """The largest absolute value; raises if a value is not finite."""
    largest = max(float(values.max()), -float(values.min()))
    if not np.isfinite(largest):
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InputError(
            "P", "outputs must be finite, neither NaN nor inf", values[row, column], row=int(row)
        )
    return largest


def check_posteriors(probs: np.ndarray, classes: int) -> None:
    if (
        probs.shape[1:] != (classes,)
        or not (np.abs(probs.sum(axis=1) - 1) < 1e-9).all()
        or not (probs >= 0).all()
    ):
        raise ValueError("the fitted attributes do not give probabilities")


def checked_output_rows(
    values: np.ndarray, codes: np.ndarray, from_logits: bool, largest: float, tolerance: float
) -> np.ndarray:
    """The values, with 0 for rounding errors below 0. Raises if a row breaks a rule (see
    `states.bad_rows`). Most inputs pass a quick test. largest : the largest absolute value."""
    if from_logits and largest <= LOGIT_LIMIT:
        return values  # they are finite, and logits have no other rule
    if (
        not from_logits
        and values.min() >= 0
        and np.abs(row_sums(values) - 1).max() <= tolerance / 2
    ):
        return values
    rows = Predictions(
        codes, values, from_logits=from_logits, tolerance=tolerance, names={"probs": "P"}
    )
    try:
        survey(rows)  # raises at the first bad row
    except InputError as problem:
        if problem.way_out is not ROUNDED:
            raise
        found = problem.rule, problem.value
        raise InputError("P", *found, row=problem.row, way_out=DIVIDE) from None
    return np.asarray(rows.probs)
