"""Predictions: outputs, labels, weights, features and named columns, in one validated object.

Shapes and lengths are checked here. Values are checked during the pass over the rows: that rows sum
to 1, and the other rules, in `kernels/rules.py`; `states/bad_rows.py` explains a bad row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import Argument, InputError
from ..text import counted, listed
from .arrays import (
    as_array,
    as_numbers,
    column_names,
    is_missing,
    named_columns,
    spacing,
    wrong_features,
)
from .calibrator_fit import CalibratorFit
from .classes import are_names, check_column_order, class_list
from .columns import Columns
from .label_hints import table_hint
from .pixels import PixelRows, per_pixel, pixel_rows
from .row_index import common_index

Kind = Literal["probabilities", "pairs", "logits", "log_probabilities"]
OnBadRows = Literal["error", "drop"]

SUM_TOLERANCE = 1e-5
IGNORED = int(np.iinfo(np.int64).min)  # the code of rows with the ignored label
# the arguments with one value per row
PER_ROW = ("y", "probs", "sample_weight", "features", "columns", "clusters")
ONE_PER_IMAGE = "one per image"  # the name of clusters that are images


def sum_tolerance(data: Any) -> float:
    """How far the sum of a row may be from 1: 1e-5, or 8 times the relative spacing of a coarser
    format (float16: 0.0078).

    The limit for float64 is that of float32, because float64 arrays often hold rounded float32.

    >>> sum_tolerance(np.float64([0.5])), sum_tolerance(np.float16([0.5]))
    (1e-05, 0.0078125)
    """
    return max(SUM_TOLERANCE, 8 * spacing(data))


class Block(NamedTuple):
    """Consecutive rows in the form that kernels take: a contiguous array, or columns by their
    addresses."""

    first_row: int
    # [rows, K], or [rows, 1] for one column of a binary problem; `Columns` if by_column
    values: Any
    # int64, or int8 for two classes by column; outside 0..K-1 where the label is not a class
    labels: np.ndarray
    weights: np.ndarray | None
    raw_labels: np.ndarray  # as the caller gave them, for messages
    by_column: bool = False  # whether each column is contiguous in memory
    # rows in increasing order, and an array to which the pass copies their outputs
    copied: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def arrays(self) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
        """The arguments of kernels: outputs by row or addresses of columns, and an empty array that
        shows their type."""
        like = np.empty((0, self.values.shape[1]), self.values.dtype)
        return (None, self.values.addresses, like) if self.by_column else (self.values, None, like)


@dataclass(frozen=True, eq=False)
class Predictions:
    """The outputs of a classifier for labelled rows.

    y : labels, as integers, booleans or strings.
    probs : [n, K] outputs, or [n] for the second of two classes. A frame whose columns are the
        classes in another order is refused. Dense outputs are [n, K, ...] with labels [n, ...]
        (images, sequences, volumes), or [n, 1, ...] for the second of two classes: each pixel is a
        row, image after image, and nothing is copied as a whole.
    from_logits, from_log_probs : what the outputs are, if not probabilities. Never guessed.
    classes : the class of each column, in order. Without it, labels must be the column numbers
        0..K-1. If all classes are names (text that is no number), labels that are numbers are
        column numbers too.
    sample_weight : one weight per row.
    features : a matrix (with feature_names), a frame, or a mapping of names to arrays.
    columns : other values per row, as a frame or a mapping of names to arrays.
    event : the class whose probability is judged as a risk, by name; the second of two classes by
        default. With more classes there is none unless given.
    clusters : one value per row. Rows with the same value are dependent (a patient's visits, an
        image's pixels); intervals, tests and folds then treat each cluster as one unit. Clusters
        are not groups, whose errors are compared. For dense outputs, each image is one cluster
        unless clusters are given.
    on_bad_rows : "error" stops at the first bad row; "drop" leaves bad rows out and counts them.
    tolerance : how far the sum of a row of probabilities may be from 1 (see `sum_tolerance`).
    ignore_label : rows with this label are left out and counted, such as the pixels without a class
        (255) or padded tokens (-100). NaN stands for missing labels.
    calibrator_fit : the fit of the calibrator that made the outputs, if a file stores it. Audits
        and comparisons then check whether these rows fitted it.

    Weights, columns and clusters of dense outputs have one value per image or per pixel.

    >>> Predictions([1, 0, 1], [0.9, 0.2, 0.4])
    Predictions(3 rows, 2 classes, probabilities)
    >>> Predictions(["dog", "cat"], [[0.1, 0.9], [0.8, 0.2]], classes=["cat", "dog"]).codes
    array([1, 0])
    >>> Predictions(np.zeros((2, 8, 8), int), np.full((2, 4, 8, 8), 0.25), ignore_label=255)
    Predictions(128 rows, 4 classes, probabilities)
    """

    y: Any
    probs: Any
    from_logits: bool = field(default=False, kw_only=True)
    from_log_probs: bool = field(default=False, kw_only=True)
    pairs: bool = field(default=False, kw_only=True)
    classes: Sequence[Any] | None = field(default=None, kw_only=True)
    event: Any = field(default=None, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    features: Any = field(default=None, kw_only=True)
    feature_names: Sequence[str] | None = field(default=None, kw_only=True)
    columns: Any = field(default=None, kw_only=True)
    clusters: Any = field(default=None, kw_only=True)
    on_bad_rows: OnBadRows = field(default="error", kw_only=True)
    tolerance: float | None = field(default=None, kw_only=True)
    ignore_label: Any = field(default=None, kw_only=True)
    calibrator_fit: CalibratorFit | None = field(default=None, kw_only=True)
    names: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        given = self.probs
        index = common_index({self.name(part): getattr(self, part) for part in PER_ROW})
        self._check_kind()
        self._set_outputs()
        self._set_labels()
        self._set_weights()
        self._set_features()
        self._set_columns()
        self._set("classes", self._class_order())
        self._set("event", self._event())
        if column_names(given):
            check_column_order(given, self.class_order, self.name("probs"))
        self._set("index", index)
        self._set("memo", {})
        if self.on_bad_rows == "drop":
            self.zero_rounding_errors()

    # that of pandas, if a part has one
    index: Any = field(init=False, repr=False)
    # results that depend only on these rows, which must not change
    memo: dict[Any, Any] = field(init=False, repr=False)

    def _set(self, name: str, value: Any) -> None:
        """Replace an argument by its validated form, in __post_init__ only."""
        object.__setattr__(self, name, value)

    @classmethod
    def from_confidence(cls, confidence: Any, correct: Any, **options: Any) -> Predictions:
        """Rows with a confidence in one answer, and whether the answer was correct.

        >>> Predictions.from_confidence([0.9, 0.6], [True, False])
        Predictions(2 rows, confidence and correctness)
        """
        names = {"probs": "confidence", "y": "correct"} | dict(options.pop("names", {}))
        return cls(correct, confidence, pairs=True, names=names, **options)

    def name(self, part: str) -> str:
        """The name of an argument in error messages: that of the caller."""
        return self.names.get(part, part)

    @property
    def kind(self) -> Kind:
        if self.pairs:
            return "pairs"
        return (
            "logits"
            if self.from_logits
            else "log_probabilities"
            if self.from_log_probs
            else "probabilities"
        )

    @property
    def class_order(self) -> tuple[Any, ...]:
        return tuple(self.classes or ())

    @property
    def event_class(self) -> Any:
        """The event: the class that was named, or the second of two. None for more classes, and for
        pairs, whose event is that the answer is right."""
        if self.event is not None or self.pairs:
            return self.event
        return self.class_order[1] if len(self.class_order) == 2 else None

    @property
    def event_column(self) -> int | None:
        """The column of the event."""
        event = self.event_class
        return None if event is None else self.class_order.index(event)

    @property
    def row_tolerance(self) -> float:
        return float(self.tolerance or 0.0)

    @cached_property
    def codes(self) -> np.ndarray:
        """The column of each label, int64; outside 0..K-1 where the label is not a class, and
        IGNORED where it is the ignored one."""
        return self.codes_of(slice(None))

    def codes_of(self, rows: Any) -> np.ndarray:
        """`codes` of some rows."""
        labels = self.y[rows]
        codes = label_codes(labels, self.class_order)
        if self.ignore_label is None:
            return codes
        return np.where(_equals(labels, self.ignore_label), IGNORED, codes)

    @cached_property
    def cluster_numbers(self) -> np.ndarray | None:
        """The number of each row's cluster, from 0 without gaps; None if rows are independent.

        >>> Predictions([1, 0, 1], [0.9, 0.2, 0.4], clusters=["b", "a", "b"]).cluster_numbers
        array([0, 1, 0])
        """
        return None if self.clusters is None else numbered(self.clusters)

    @property
    def n_classes(self) -> int:
        return 2 if self.probs.ndim == 1 else int(self.probs.shape[1])

    def __len__(self) -> int:
        return int(self.probs.shape[0])

    def __repr__(self) -> str:
        if self.pairs:
            return f"Predictions({counted(len(self))}, confidence and correctness)"
        kind = self.kind.replace("_", "-")
        return f"Predictions({counted(len(self))}, {self.n_classes} classes, {kind})"

    def _check_kind(self) -> None:
        if self.on_bad_rows not in ("error", "drop"):
            raise InputError("on_bad_rows", 'must be "error" or "drop"', repr(self.on_bad_rows))
        if self.from_logits and self.from_log_probs:
            raise InputError("from_log_probs", "must not be given together with `from_logits`")
        if self.pairs and (self.from_logits or self.from_log_probs):
            raise InputError(
                self.name("probs"), "a confidence must be a probability, not a logit or logarithm"
            )

    def _set_outputs(self) -> None:
        argument = self.name("probs")
        lazy = isinstance(self.probs, (Columns, PixelRows))
        values = self.probs if lazy else as_numbers(self.probs, argument)
        tolerance = sum_tolerance(self.probs) if self.tolerance is None else self.tolerance
        if not (isinstance(tolerance, Real) and 0 <= tolerance < 1):
            raise InputError("tolerance", "must lie in [0, 1)", repr(tolerance))
        self._set("tolerance", float(tolerance))
        if values.ndim > 2:
            values = self._by_pixel(values)
        found = f"has shape {values.shape}"
        if self.pairs and values.shape[1:] not in ((), (1,)):
            raise InputError(argument, "must be one number per row", found)
        if values.ndim not in (1, 2):
            raise InputError(argument, "must be [rows], [rows, classes] or [n, K, ...]", found)
        if values.ndim == 2 and not values.shape[1]:
            raise InputError(argument, "needs a column for each class", found)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        self._set("probs", values)

    def _by_pixel(self, maps: np.ndarray) -> Any:
        """Dense outputs as rows of pixels. Labels, weights, columns and clusters get one value per
        pixel."""
        labels = as_array(self.y, self.name("y"))
        outputs, shape = pixel_rows(maps, labels, self.name("probs")), labels.shape
        if self.clusters is None:
            self._set("clusters", np.arange(shape[0]).astype(np.min_scalar_type(shape[0])))
            self._set("names", {**self.names, "clusters": ONE_PER_IMAGE})
        for name in ("y", "clusters", "sample_weight"):
            if (values := getattr(self, name)) is not None:
                self._set(name, per_pixel(as_array(values, self.name(name)), shape))
        if (columns := named_columns(self.columns, "columns")) is not None:
            self._set("columns", {name: per_pixel(c, shape) for name, c in columns.items()})
        return outputs

    def _set_labels(self) -> None:
        labels = as_array(self.y, self.name("y"))
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise InputError(
                self.name("y"),
                "must be one label per row",
                f"has shape {labels.shape}",
                way_out=table_hint(labels, self.name("y")) if labels.ndim > 1 else (),
            )
        n = len(self)
        if n == 0:
            raise InputError(self.name("probs"), "needs at least one row", "is empty")
        if len(labels) != n:
            rule = f"needs one label per row of `{self.name('probs')}` ({n})"
            across = np.ndim(self.probs) == 2 and self.probs.shape[1] == len(labels)
            out = f"pass `{self.name('probs')}.T`" if across else "pass both for the same rows"
            raise InputError(self.name("y"), rule, len(labels), way_out=(out,))
        self._set("y", labels)
        self._check_ignored()

    def _check_ignored(self) -> None:
        if isinstance(self.ignore_label, np.generic):
            self._set("ignore_label", self.ignore_label.item())
        ignored, kind = self.ignore_label, self.y.dtype.kind
        if ignored is None or is_missing(ignored):
            return
        wrong = (kind in "biuf" and not isinstance(ignored, Real)) or (
            kind in "US" and not isinstance(ignored, str)
        )
        if wrong:
            wanted = "text" if kind in "US" else "a number"
            raise InputError("ignore_label", f"must be {wanted}, as labels are", repr(ignored))

    def _set_weights(self) -> None:
        if self.sample_weight is None:
            return
        weights = as_numbers(self.sample_weight, self.name("sample_weight"))
        if weights.shape != (len(self),):
            rule = f"needs one weight per row ({len(self)})"
            raise InputError(self.name("sample_weight"), rule, f"has shape {weights.shape}")
        self._set("sample_weight", weights.astype(np.float64, copy=False))

    def _set_features(self) -> None:
        n, argument = len(self), self.name("features")
        if (named := named_columns(self.features, argument)) is not None:
            self._set("feature_names", tuple(named))
            self._set("features", _side_by_side(named, n, argument))
        if self.features is None:
            return
        features = as_array(self.features, argument)
        if features.ndim != 2 or len(features) != n:
            raise wrong_features(argument, n, features.shape)
        self._set("features", features)
        if self.feature_names is not None and len(self.feature_names) != features.shape[1]:
            raise InputError(
                "feature_names",
                f"needs one name for each of the {features.shape[1]} features",
                len(self.feature_names),
            )

    def _set_columns(self) -> None:
        """Validate the named columns and the clusters."""
        n = len(self)
        if self.columns is not None:
            columns = named_columns(self.columns, "columns")
            if columns is None:
                raise InputError(
                    "columns",
                    "must be a frame, or a mapping of names to arrays",
                    type(self.columns).__name__,
                    way_out=('name a single column, such as {"topic": values}',),
                )
            for name, column in columns.items():
                if column.shape[:1] != (n,):
                    rule = f"column {name!r} needs one value per row ({n})"
                    raise InputError("columns", rule, f"has shape {column.shape}")
            self._set("columns", columns)
        if self.clusters is not None:
            self._set("clusters", _one_cluster_per_row(self.clusters, n, self.name("clusters")))

    def _class_order(self) -> tuple[Any, ...]:
        K, ignored = self.n_classes, self.ignore_label
        if self.classes is None:
            first = (
                next((v for v in self.y.tolist() if not (is_missing(v) or v == ignored)), 0)
                if self.y.dtype.kind in "OSUT"
                else 0
            )
            if not isinstance(first, (Real, np.bool_)):
                raise InputError(
                    self.name("y"),
                    "labels must be column numbers if classes are not given",
                    repr(first),
                    way_out=(
                        "pass ",
                        Argument(self.name("classes")),
                        ", the class of each column in order",
                        "; a single column is that of the second" if K == 2 else "",
                    ),
                )
            return (False, True) if self.y.dtype.kind == "b" and K == 2 else tuple(range(K))
        classes = tuple(class_list(self.classes, self.name("classes")))
        if len(classes) != K:
            raise InputError(
                self.name("classes"), f"needs one name for each of the {K} classes", len(classes)
            )
        if len(set(classes)) != K:
            raise InputError(self.name("classes"), "must not repeat a class", repr(classes))
        return classes

    def _event(self) -> Any:
        """The class that was named. Text names a class by its text, as on a command line."""
        classes, event = self.class_order, self.event
        if event is None:
            return None
        if self.pairs:
            rule = "must not be given for confidence and correctness: the event is a right answer"
            raise InputError("event", rule, repr(event))
        named = [c for c in classes if c == event] or [c for c in classes if str(c) == event]
        if not named:
            rule = f"must be one of the classes ({listed([str(c) for c in classes])})"
            raise InputError("event", rule, repr(event))
        return named[0]

    def check_index(self, argument: str, data: Any) -> None:
        """Raise if data with one value per row has another pandas index than these rows."""
        common_index({self.name("y"): self, argument: data})

    def zero_rounding_errors(self) -> bool:
        """Set probabilities between -tolerance and 0 to 0, in a copy of the outputs: they are
        rounding errors, like sums of 1 within the tolerance. Returns whether there were any.

        Rows in memory are repaired after a pass has failed (`engines.memory.run`), because a check
        of every output before the pass would cost a quarter of its time.
        """
        if self.kind not in ("probabilities", "pairs") or self.probs.min() >= 0:
            return False
        outputs = np.asarray(self.probs)
        errors = (outputs < 0) & (outputs >= -self.row_tolerance)
        if not errors.any():
            return False
        self._set("probs", np.where(errors, 0, outputs))
        self.__dict__.pop("_in_columns", None)
        return True

    @property
    def is_contiguous(self) -> bool:
        """Whether blocks of the outputs are views, not copies."""
        part = self.probs[:1]
        return self.block(0, 1).values.ctypes.data == part.ctypes.data

    def blocks(self, rows: int) -> Iterator[Block]:
        """Blocks of `rows` rows, in order."""
        for first in range(0, len(self), rows):
            yield self.block(first, first + rows)

    def block(self, first: int, last: int, *, by_column: bool = False) -> Block:
        """The rows from `first` to `last`. With `by_column`, outputs stored by column stay so."""
        whole = self._in_columns if by_column and _reads_columns() else None
        columns = None if whole is None else whole.part(first, last)
        values = self._rows(first, last) if columns is None else columns
        by_column = columns is not None
        # For two classes, reading labels costs as much as reading outputs: int8 labels stay int8.
        short = (
            by_column
            and self.y.dtype == np.int8
            and self.classes == (0, 1)
            and self.sample_weight is None
            and self.ignore_label is None
        )
        labels = np.require(
            self.y[first:last] if short else self._codes_between(first, last),
            np.int8 if short else np.int64,
            ["C", "W", "A"],
        )
        weights = None if self.sample_weight is None else self.sample_weight[first:last]
        return Block(first, values, labels, weights, self.y[first:last], by_column)

    def _codes_between(self, first: int, last: int) -> np.ndarray:
        """Integer labels are converted block by block, as their codes may take more memory than the
        outputs; those of other labels are kept for the next pass."""
        if self.y.dtype.kind in "iub" and "codes" not in self.__dict__:
            return self.codes_of(slice(first, last))
        return self.codes[first:last]

    def _rows(self, first: int, last: int) -> np.ndarray:
        """Outputs of some rows, as a C-ordered array."""
        values = self.probs[first:last]
        if values.ndim == 1 and self.from_log_probs:
            values = _both_log_probs(values)
        # A single column stays float64, because float32 would round 1 - p.
        dtype = np.float32 if values.dtype.itemsize <= 4 and values.ndim == 2 else np.float64
        return np.require(values if values.ndim == 2 else values[:, None], dtype, ["C", "W", "A"])

    @cached_property
    def _in_columns(self) -> Columns | PixelRows | None:
        """The outputs, if they are stored by column."""
        if isinstance(self.probs, (Columns, PixelRows)):
            return self.probs
        flags, kinds = self.probs.flags, (np.float32, np.float64)
        by_column = (
            self.probs.ndim == 2
            and self.probs.dtype in kinds
            and flags.f_contiguous
            and not flags.c_contiguous
        )
        return Columns(list(self.probs.T)) if by_column else None

    def probabilities(self, rows: Any = slice(None)) -> np.ndarray:
        """Outputs as probabilities, [n, K]: float32 if they are float32 probabilities, otherwise
        float64."""
        outputs = self.probs[rows]
        if self.kind == "probabilities" and outputs.ndim == 2:
            dtype = np.float64 if outputs.dtype.itemsize == 8 else np.float32
            return np.require(outputs, dtype, ["C", "A"])
        if self.kind in ("pairs", "probabilities"):
            both = np.empty((len(outputs), 2))
            both[:, 1] = outputs
            np.subtract(1, both[:, 1], out=both[:, 0])
            np.maximum(both[:, 0], 0, out=both[:, 0])
            return both
        values = outputs.astype(np.float64)
        if outputs.ndim == 1:
            values = (
                _both_log_probs(values)
                if self.from_log_probs
                else np.column_stack([np.zeros_like(values), values])
            )
        if self.from_logits:
            with np.errstate(invalid="ignore"):
                values = values - values.max(axis=1, keepdims=True)
        e = np.exp(values)
        return e / e.sum(axis=1, keepdims=True) if self.from_logits else e

    def take(self, rows: Any) -> Predictions:
        """The predictions of some rows."""

        def pick(part: np.ndarray | None) -> np.ndarray | None:
            return None if part is None else part[rows]

        columns = (
            None
            if self.columns is None
            else {name: column[rows] for name, column in self.columns.items()}
        )
        return replace(
            self,
            y=self.y[rows],
            probs=self.probs[rows],
            sample_weight=pick(self.sample_weight),
            features=pick(self.features),
            columns=columns,
            clusters=pick(self.clusters),
        )


def _both_log_probs(second: np.ndarray) -> np.ndarray:
    """The columns log(1 - e^v) and v. Invalid values become NaN, which the pass refuses."""
    v = second.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.column_stack([np.log(-np.expm1(v)), v])


def _reads_columns() -> bool:
    """Whether kernels can read columns by their addresses, with this numba."""
    from ..kernels.vectors import READS_COLUMNS

    return bool(READS_COLUMNS)


def _equals(labels: np.ndarray, value: Any) -> np.ndarray:
    """Whether each label is a value. A missing value equals missing labels."""
    if not is_missing(value):
        return np.asarray(labels == value, bool)
    if labels.dtype.kind == "O":
        return np.asarray(np.frompyfunc(is_missing, 1, 1)(labels), bool)
    return np.asarray(labels != labels)


def label_codes(labels: np.ndarray, classes: tuple[Any, ...]) -> np.ndarray:
    """The column of each label, and a number outside 0..K-1 for a label that is not a class. If
    classes are names, labels that are numbers are positions (see `are_names`).

    >>> label_codes(np.array(["b", "a", "c"]), ("b", "a"))
    array([ 0,  1, -1])
    >>> label_codes(np.array([1, 0]), ("cat", "dog"))
    array([1, 0])
    """
    kind = labels.dtype.kind
    labels = labels.astype(np.float64, copy=False) if kind == "f" else labels
    named = kind in "iubfO" and are_names(classes)
    if named and kind != "O":
        classes = tuple(range(len(classes)))
    if classes == tuple(range(len(classes))):
        if kind in "iub":
            return labels if labels.dtype == np.int64 else labels.astype(np.int64)
        if kind == "f":
            whole = np.isfinite(labels) & (np.floor(labels) == labels) & (np.abs(labels) < 2**31)
            return np.where(whole, np.where(whole, labels, 0).astype(np.int64), -1)
    if (
        kind in "iub"
        and labels.dtype != np.uint64
        and all(isinstance(c, int) and abs(c) < 2**63 for c in classes)
    ):
        names, labels = np.array(classes, np.int64), labels.astype(np.int64, copy=False)
    elif kind == "f" and all(isinstance(c, (int, float)) and abs(c) <= 2**53 for c in classes):
        # exact as float64
        names = np.array(classes, np.float64)
    elif kind in "US" and all(isinstance(c, str) for c in classes):
        names, labels = np.array(classes), labels.astype(str)
    else:
        column = {c: k for k, c in enumerate(classes)}
        column |= {k: k for k in range(len(classes))} if named else {}
        return np.fromiter(
            (column.get(_hashable(v), -1) for v in labels.tolist()), np.int64, len(labels)
        )
    order = np.argsort(names)
    place = order[np.minimum(np.searchsorted(names, labels, sorter=order), len(names) - 1)]
    return np.where(names[place] == labels, place, -1)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value


def numbered(values: np.ndarray) -> np.ndarray:
    """A number for each value, in order of first appearance.

    >>> numbered(np.array(["b", "a", "b"]))
    array([0, 1, 0])
    """
    if values.dtype.kind == "O":
        known: dict[Any, int] = {}
        return np.fromiter(
            (known.setdefault(value, len(known)) for value in values.tolist()),
            np.int64,
            len(values),
        )
    if values.dtype.kind in "iu" and len(values) and values[0] == 0:
        rising = (values[1:] >= values[:-1]).all()
        if rising and (np.diff(values) <= 1).all():  # such as images: no sort is needed
            return values.astype(np.int64)
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[place.reshape(-1)]


def _one_cluster_per_row(clusters: Any, rows: int, argument: str) -> np.ndarray:
    values = as_array(clusters, argument)
    if values.shape != (rows,):
        raise InputError(argument, f"needs one value per row ({rows})", f"has shape {values.shape}")
    if values.dtype.kind in "fcOMm":
        missing = next(
            (row for row, value in enumerate(values.tolist()) if is_missing(value)), None
        )
        if missing is not None:
            raise InputError(
                argument,
                "every row needs a cluster",
                repr(values[missing]),
                row=missing,
                way_out=("give each independent row a value of its own",),
            )
    if values.dtype.kind == "O":
        try:
            set(values.tolist())
        except TypeError as problem:
            raise InputError(argument, "a cluster must be a single value", str(problem)) from None
    return values


def _side_by_side(columns: Mapping[str, np.ndarray], rows: int, argument: str) -> np.ndarray:
    """Columns as a matrix: of numbers, or of objects if a column is not numeric."""
    for name, column in columns.items():
        if column.shape != (rows,):
            raise InputError(
                argument,
                f"column {name!r} needs one value per row ({rows})",
                f"has shape {column.shape}",
            )
    given = list(columns.values())
    numeric = all(column.dtype.kind in "biuf" for column in given)
    return np.column_stack(given if numeric else [column.astype(object) for column in given])
