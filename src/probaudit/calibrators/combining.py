"""Calibrators made of other calibrators: in a chain, or one for each group of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..data.arrays import as_array, is_missing, value_names
from ..data.populations import Ranges
from ..data.predictions import label_codes
from ..data.row_index import common_index
from ..errors import InputError
from ..kernels.scaled_softmax import keep_argmax
from .base import Calibrator, Sample, checked_calibrator, fit_report
from .temperature import TemperatureScaling


class Chain(Calibrator):
    """Applies calibrators one after the other; each is fitted to the output of the one before it.

    steps : calibrators, in order. Their own `from_logits` and `classes` are ignored: only the first
        step receives logits. A chain without steps keeps the original probabilities.

    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1, 0]
    >>> chain = Chain([TemperatureScaling(), TemperatureScaling()]).fit(P, y)
    >>> round(chain.members_[1].temperature_, 6)
    1.0
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"members_": [Calibrator]}

    members_: list[Calibrator]

    def __init__(
        self, steps: Sequence[Calibrator] = (), *, from_logits: bool = False, classes: Any = None
    ) -> None:
        self.steps = steps
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return ", then ".join(step.words() for step in self.steps) or "original (uncalibrated)"

    @property
    def accuracy_preserving(self) -> bool:  # type: ignore[override]
        """Whether the most probable class never changes."""
        return all(step.accuracy_preserving for step in self.steps)

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        for step in self.steps:
            checked_calibrator(step, "steps")
        self.members_ = []
        for step in self.steps:
            self.members_.append(fit_member(step, sample, self.classes_))
            sample = Sample(
                self.members_[-1]._transform(sample), False, sample.codes, sample.weights
            )
        if not self.members_:
            return True, "identity: a chain without steps"
        return members_report(self.members_)

    def _transform(self, sample: Sample) -> np.ndarray:
        original = sample
        for member in self.members_:
            sample = Sample(member._transform(sample), False, sample.codes, sample.weights)
        probs = sample.values if self.members_ else sample.probs.copy()
        if self.accuracy_preserving:
            keep_argmax(original.values, probs)
        return probs


class PerGroup(Calibrator):
    """Fits a calibrator for each known group of rows, such as a language, a hospital or a camera.

    base : the calibrator fitted in each group; TemperatureScaling unless given.
    min_rows : a group with fewer rows, or with rows of one class only, uses the calibrator fitted
        to all rows. So does a group that `fit` did not see. Rows of weight zero do not count.

    Numbers with more than 20 different values are cut into five ranges with equally many rows.
    Without `groups`, all rows are one group.

    >>> P, y = [[0.8, 0.2]] * 6, [0, 0, 1, 0, 1, 1]
    >>> model = PerGroup(min_rows=3).fit(P, y, groups=["a", "a", "a", "b", "b", "b"])
    >>> model.predict_proba([[0.8, 0.2]] * 3, groups=["a", "b", "c"])[:, 0].round(3)
    array([0.667, 0.5  , 0.5  ])
    """

    takes = ("groups",)
    _fitted: ClassVar[Mapping[str, Any]] = {
        "groups_": ("G",),
        "edges_": ("E",),
        "member_of_": ("G",),
        "members_": [Calibrator],
        "whole_": Calibrator,
    }

    groups_: np.ndarray
    edges_: np.ndarray  # of ranges of a numeric column; empty if groups are values
    member_of_: np.ndarray
    members_: list[Calibrator]
    whole_: Calibrator

    def __init__(
        self,
        base: Calibrator | None = None,
        *,
        min_rows: int = 10,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.base = base
        self.min_rows = min_rows
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return f"{base_of(self.base).words()} per group"

    @property
    def accuracy_preserving(self) -> bool:  # type: ignore[override]
        """Whether the most probable class never changes."""
        return base_of(self.base).accuracy_preserving

    @property
    def fitted_with(self) -> tuple[str, ...]:
        return self.takes if len(self.groups_) else ()

    @property
    def group_columns(self) -> int:  # type: ignore[override]
        return len(self.fitted_with)

    def fit(self, P: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Learn from outputs, true classes and the group of each row."""
        common_index({"P": P, "groups": groups})
        sample = self._learning_sample(P, y, sample_weight)
        if groups is not None:
            groups = group_column(groups, len(y))[positive_weight(sample_weight, len(y))]
        status = self._fit_groups(sample, groups)
        self.fit_report_ = fit_report(sample, self._calibrated(sample, groups), *status)
        return self

    def predict_proba(self, P: Any, groups: Any = None) -> np.ndarray:
        """Calibrated probabilities, [n, K]; `groups` as in `fit`."""
        check_is_fitted(self, "whole_")
        common_index({"P": P, "groups": groups})
        sample = self._sample(P)
        return self._calibrated(
            sample, None if groups is None else group_column(groups, len(sample))
        )

    def predict(self, P: Any, groups: Any = None) -> np.ndarray:
        """The most probable class of each row after calibration; the first in case of a tie."""
        check_is_fitted(self, "members_")
        return self.classes_[self.predict_proba(P, groups).argmax(axis=1)]

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        return self._fit_groups(sample, None)

    def _fit_groups(self, sample: Sample, groups: np.ndarray | None) -> tuple[bool, str]:
        if not self.min_rows >= 1:
            raise InputError("min_rows", "must be at least 1", self.min_rows)
        base = base_of(self.base)
        self.whole_ = fit_member(base, sample, self.classes_)
        self.edges_ = np.empty(0) if groups is None else range_edges(groups)
        if groups is not None:
            groups = group_values(groups, self.edges_)
        self.groups_ = np.empty(0, np.int64) if groups is None else np.unique(groups)
        self.members_, self.member_of_ = [], np.full(len(self.groups_), -1)
        if groups is None:
            return self.whole_.fit_report_.converged, f"one group: {self.whole_.fit_report_.status}"
        for g, name in enumerate(self.groups_):
            rows = sample.take(groups == name)
            if len(rows) >= self.min_rows and len(np.unique(rows.codes)) > 1:
                self.member_of_[g] = len(self.members_)
                self.members_.append(fit_member(base, rows, self.classes_))
        converged, words = members_report([*self.members_, self.whole_])
        names = range_names(self.edges_)
        few = [
            names[group] if names else repr(group)
            for group in self.groups_[self.member_of_ < 0].tolist()
        ]
        status = f"{len(self.members_)} of {len(self.groups_)} groups have their own calibrator"
        if few:
            listed = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
            status += f"; {listed}: fewer than {self.min_rows} rows or one class"
        return converged, f"{status}; all other groups use the calibrator of all rows; {words}"

    def places(self, groups: np.ndarray) -> np.ndarray:
        """The index of each row's group in `groups_`; `len(groups_)` for an unknown group."""
        return known_places(group_values(groups, self.edges_), self.groups_)

    def _check_learned(self) -> None:
        check_places(self.member_of_, self.members_)

    def _transform(self, sample: Sample) -> np.ndarray:
        return self._calibrated(sample, None)

    def _calibrated(self, sample: Sample, groups: np.ndarray | None) -> np.ndarray:
        if groups is None:
            if len(self.groups_):
                raise InputError("groups", "must be given, as each group has its own calibrator")
            return self.whole_._transform(sample)
        member = np.append(self.member_of_, -1)[self.places(groups)]
        probs = np.empty(sample.values.shape)
        for k in np.unique(member):
            rows = np.flatnonzero(member == k)
            calibrator = self.whole_ if k < 0 else self.members_[k]
            probs[rows] = calibrator._transform(sample.take(rows))
        return probs


def base_of(base: Any) -> Calibrator:
    """The calibrator to copy: temperature scaling unless given."""
    return TemperatureScaling() if base is None else checked_calibrator(base, "base")


def fit_member(base: Calibrator, sample: Sample, classes: np.ndarray) -> Calibrator:
    """A copy of a calibrator, fitted to checked rows."""
    member = clone(base).set_params(from_logits=sample.from_logits, classes=None)
    member.classes_, member.n_features_in_ = classes, sample.n_classes
    return member._finish(sample, *member._fit(sample))


def members_report(members: Iterable[Calibrator]) -> tuple[bool, str]:
    """Whether all fits converged, and each status with its count, in words."""
    reports = [member.fit_report_ for member in members]
    counts: dict[str, int] = {}
    for one in reports:
        counts[one.status] = counts.get(one.status, 0) + 1
    words = (
        status if count == 1 else f"{status} ({count} times)" for status, count in counts.items()
    )
    return all(one.converged for one in reports), "; ".join(words)


def check_places(places: np.ndarray, members: list[Calibrator]) -> None:
    if places.dtype.kind != "i" or not ((places >= -1) & (places < len(members))).all():
        raise ValueError("member_of_ must be indices of members_, or -1")


def positive_weight(sample_weight: Any, n: int) -> np.ndarray:
    """Which rows have a positive weight."""
    return (
        np.ones(n, bool)
        if sample_weight is None
        else np.broadcast_to(as_array(sample_weight, "sample_weight") > 0, n)
    )


def known_places(groups: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The index of each row's group among the known ones; their number for an unknown group.

    >>> known_places(np.array(["b", "c"]), np.array(["a", "b"]))
    array([1, 2])
    """
    codes = label_codes(groups, tuple(known.tolist()))
    return np.where((codes < 0) | (codes >= len(known)), len(known), codes)


def range_edges(column: np.ndarray) -> np.ndarray:
    """The edges of the ranges that a column of many different numbers is cut into; empty for other
    columns."""
    ranges = Ranges.of(column)
    return np.empty(0) if ranges is None else ranges.edges


def range_names(edges: np.ndarray) -> list[str]:
    """The names of ranges; none if groups are values."""
    return Ranges(edges).names if len(edges) else []


def group_values(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The group of each row: its value, or the number of its range."""
    if not len(edges):
        return column
    if column.dtype.kind not in "fiu":
        raise InputError("groups", "must be numbers, as in the fit", str(column.dtype))
    return Ranges(edges).number(column)


def group_column(groups: Any, n: int, argument: str = "groups") -> np.ndarray:
    """The group of each row, checked."""
    column = as_array(groups, argument)
    if column.shape != (n,):
        raise InputError(argument, f"must be one value per row ({n})", f"has shape {column.shape}")
    missing = (
        [row for row, value in enumerate(column.tolist()) if is_missing(value)]
        if column.dtype.kind in "fO"
        else []
    )
    if missing:
        way_out = ("replace missing values by a name of their own",)
        value = repr(column[missing[0]])
        raise InputError(argument, "must not be missing", value, row=missing[0], way_out=way_out)
    if column.dtype.kind == "O":
        kinds = {type(value) for value in column.tolist()}
        if len(kinds) > 1:
            names = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(argument, "must be of one type", names)
        # records are compared as text, as samples of a stream store them
        column = value_names(column) if kinds & {dict, list} else np.array(column.tolist())
    return column


def group_table(groups: Any, n: int) -> list[np.ndarray]:
    """The columns of groups, checked."""
    table = as_array(groups, "groups")
    if table.ndim == 2 and table.shape[1]:
        return [group_column(column, n) for column in table.T]
    return [group_column(table, n)]
