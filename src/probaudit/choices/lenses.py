"""Lenses: which smaller problem is judged (Kirchenbauer et al. 2022, Sections 3.2 and 4.2, Appendix
A).

A lens maps rows of probabilities (float32 or float64) and labels to the outputs and labels of an
induced problem. If that problem is whether one event happens, the outputs are the probabilities of
the event, [n], and the labels 0 or 1; else the outputs are [n, d] and the labels 0..d-1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.arrays import as_array, as_numbers, bits_of
from ..data.parallel import each_chunk
from ..errors import InputError


class View(NamedTuple):
    """Rows as a lens shows them."""

    outputs: np.ndarray
    labels: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """The labels in the shape of the outputs: 0 or 1, or one-hot."""
        if self.outputs.ndim == 1:
            return self.labels.astype(np.float64)
        return np.eye(self.outputs.shape[1])[self.labels]


class Lens(ABC):
    """A choice of what is judged. To write one, subclass and implement `view`; `a | b` looks
    through a, then b."""

    @abstractmethod
    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        """The induced problem, for probabilities [n, K] and labels 0..K-1."""

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        """All the problems a lens shows: one, except for those that look at each class in turn."""
        return [self.view(probs, labels)]

    def __or__(self, other: Lens) -> Lens:
        return Composed(self, other)


@dataclass(frozen=True)
class Full(Lens):
    """All classes as they are (Kirchenbauer et al. 2022, Eq. 1)."""

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        return View(probs, labels)


@dataclass(frozen=True)
class TopLabel(Lens):
    """The largest probability, and whether its class is the true one (Kirchenbauer et al. 2022, Eq.
    2).

    >>> TopLabel().view(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([1, 1]))
    View(outputs=array([0.8, 0.6]), labels=array([1, 0]))
    """

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        from ..kernels.viewing import top_label

        outputs, hits = np.empty(len(probs)), np.empty(len(probs), np.int64)
        probs = np.ascontiguousarray(probs)
        bits = bits_of(probs)
        each_chunk(
            probs,
            lambda part: top_label(
                probs[part], bits[part], labels[part], outputs[part], hits[part]
            ),
        )
        return View(outputs, hits)


@dataclass(frozen=True)
class TopK(Lens):
    """The k largest probabilities in order, and the remainder (Kirchenbauer et al. 2022, Eq. 4). Of
    equal ones the lower class comes first.

    >>> TopK(2).view(np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([0])).outputs.round(12)
    array([[0.4, 0.3, 0.3]])
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError("k", "must be at least 1", self.k)

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        K = probs.shape[1]
        if self.k >= K:
            raise InputError("k", f"must be below the number of classes ({K})", self.k)
        from ..kernels.viewing import top_k

        outputs, places = np.empty((len(probs), self.k + 1)), np.empty(len(probs), np.int64)
        probs = np.ascontiguousarray(probs)
        bits = bits_of(probs)
        each_chunk(
            probs,
            lambda part: top_k(probs[part], bits[part], labels[part], outputs[part], places[part]),
        )
        return View(outputs, places)


@dataclass(frozen=True)
class OneVsRest(Lens):
    """One class against all others (Kirchenbauer et al. 2022, Eq. 8); `index` is its column."""

    index: int

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if not 0 <= self.index < probs.shape[1]:
            raise InputError("index", f"must be a column, 0 to {probs.shape[1] - 1}", self.index)
        return View(
            probs[:, self.index].astype(np.float64), (labels == self.index).astype(np.int64)
        )


@dataclass(frozen=True)
class Binary(Lens):
    """The second of two classes."""

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if probs.shape[1] != 2:
            raise InputError("lens", "Binary needs two classes", probs.shape[1])
        return View(probs[:, 1].astype(np.float64), labels)


@dataclass(frozen=True, repr=False)
class Classwise(Lens):
    """Each class against all others; errors are averaged over classes (Yang et al. 2023, Example
    2).

    weights : how much each class counts in the mean error: one number per class, in the order of
        the columns; or "prevalence", the share of the class among the true labels of all rows.
        Evenly, unless given.

    >>> Classwise(weights=[1, 1, 2]).shares(np.array([0.5, 0.3, 0.2]))
    array([0.25, 0.25, 0.5 ])
    """

    weights: Any = None

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if isinstance(self.weights, str):
            if self.weights == "prevalence":
                return
            raise InputError(
                "weights", 'must be "prevalence" or one number per class', repr(self.weights)
            )
        weights = as_numbers(self.weights, "weights").astype(np.float64)
        if weights.ndim != 1 or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise InputError(
                "weights", "must be numbers of at least 0, and not all 0", weights.tolist()
            )
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    def __repr__(self) -> str:
        return "Classwise()" if self.weights is None else f"Classwise(weights={self.weights!r})"

    def shares(self, priors: np.ndarray) -> np.ndarray | None:
        """The share of each class in the mean, given the frequencies of the true classes; None if
        all are equal."""
        if self.weights is None:
            return None
        if self.weights == "prevalence":
            return np.asarray(priors / priors.sum())
        if len(self.weights) != len(priors):
            raise InputError(
                "weights",
                f"needs one number for each of the {len(priors)} classes",
                len(self.weights),
            )
        return np.asarray(self.weights) / math.fsum(self.weights)

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        raise InputError(
            "lens",
            "Classwise shows a problem for each class; use `views`, or OneVsRest for one of them",
        )

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        if self.weights is not None:
            raise InputError(
                "lens",
                "weights of classes are for binned calibration errors; use Classwise() here",
                repr(self),
            )
        return [OneVsRest(k).view(probs, labels) for k in range(probs.shape[1])]


@dataclass(frozen=True)
class Groups(Lens):
    """Classes in the same group count as one (Kirchenbauer et al. 2022, Eq. 5-6).

    groups : lists of columns, or a mapping of group names to them; or, with one entry per class,
        the group of each. Every class must be in exactly one group.

    >>> Groups([[0, 1], [2]]).view(np.array([[0.2, 0.3, 0.5]]), np.array([1]))
    View(outputs=array([[0.5, 0.5]]), labels=array([0]))
    """

    groups: Any

    @classmethod
    def of_hierarchy(cls, labels: Any, groups: Any, classes: Any = None) -> Groups:
        """From a column that says, row by row, to which group the true class belongs.

        classes : the class of each column, in order; without it the labels are column numbers.
            Every class must occur, and always with the same group.

        >>> Groups.of_hierarchy(["cat", "car", "dog"], ["animal", "thing", "animal"], classes=["car", "cat", "dog"])
        Groups(groups=('thing', 'animal', 'animal'))
        """
        labels, groups = as_array(labels, "labels").tolist(), as_array(groups, "groups").tolist()
        if len(labels) != len(groups):
            raise InputError("groups", f"needs one value per label ({len(labels)})", len(groups))
        found: dict[Any, Any] = {}
        for label, group in zip(labels, groups, strict=True):
            if found.setdefault(label, group) != group:
                raise InputError(
                    "groups",
                    "a class must be in one group only",
                    f"{label!r} is in {found[label]!r} and {group!r}",
                )
        order = range(int(max(labels)) + 1) if classes is None else list(classes)
        missing = [c for c in order if c not in found]
        if missing:
            raise InputError("labels", "must have every class", f"{missing[0]!r} is missing")
        return cls(tuple(found[c] for c in order))

    def membership(self, classes: int) -> np.ndarray:
        """The group of each class."""
        groups = self.groups
        lists = list(groups.values()) if isinstance(groups, Mapping) else list(groups)
        if lists and (
            isinstance(lists[0], str)
            or not isinstance(lists[0], Sequence | np.ndarray | set | frozenset)
        ):
            if len(lists) != classes:
                raise InputError(
                    "groups", f"needs the group of each of the {classes} classes", len(lists)
                )
            return np.unique(np.array(lists), return_inverse=True)[1]
        member = np.full(classes, -1)
        for g, columns in enumerate(lists):
            for column in columns:
                if not 0 <= column < classes:
                    raise InputError("groups", f"must hold columns 0 to {classes - 1}", column)
                if member[column] >= 0:
                    raise InputError(
                        "groups", "a class must be in one group only", f"class {column} is in two"
                    )
                member[column] = g
        if (member < 0).any():
            missing = int(np.flatnonzero(member < 0)[0])
            raise InputError("groups", "must cover all classes", f"class {missing} is in none")
        return member

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        from ..kernels.viewing import group_sums

        member = self.membership(probs.shape[1])
        outputs = np.empty((len(probs), int(member.max()) + 1))
        probs = np.ascontiguousarray(probs)
        each_chunk(probs, lambda part: group_sums(probs[part], member, outputs[part]))
        return View(outputs, member[labels])


@dataclass(frozen=True)
class Composed(Lens):
    """One lens after another."""

    first: Lens
    second: Lens

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        found = []
        for outputs, induced in self.first.views(probs, labels):
            matrix = outputs if outputs.ndim == 2 else np.column_stack([1 - outputs, outputs])
            found += self.second.views(matrix, induced)
        return found

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        views = self.views(probs, labels)
        if len(views) != 1:
            raise InputError("lens", "shows several problems; use `views`", len(views))
        return views[0]
