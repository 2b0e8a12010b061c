"""Lenses: which smaller problem is judged (paper 3, Sections 3.2 and 4.2, Appendix A).

A lens maps rows of probabilities and labels to the outputs and labels of an induced problem. If that problem is whether
one event happens, the outputs are the probabilities of the event, [n], and the labels 0 or 1; else the outputs
are [n, d] and the labels 0..d-1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError


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
    """A choice of what is judged. To write one, subclass and implement `view`; `a | b` looks through a, then b."""

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
    """All classes as they are (paper 3, Eq. 1)."""

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        return View(probs, labels)


@dataclass(frozen=True)
class TopLabel(Lens):
    """The largest probability, and whether its class is the true one (paper 3, Eq. 2).

    >>> TopLabel().view(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([1, 1]))
    View(outputs=array([0.8, 0.6]), labels=array([1, 0]))
    """

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        best = probs.argmax(axis=1)
        return View(probs[np.arange(len(probs)), best], (best == labels).astype(np.int64))


@dataclass(frozen=True)
class TopK(Lens):
    """The k largest probabilities in order, and the remainder (paper 3, Eq. 4). Of equal ones the lower class comes first.

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
        order = np.argsort(-probs, axis=1, kind="stable")[:, : self.k]
        top = np.take_along_axis(probs, order, axis=1)
        rest = np.maximum(1 - top.sum(axis=1), 0.0)
        found = order == labels[:, None]
        place = np.where(found.any(axis=1), found.argmax(axis=1), self.k)
        return View(np.column_stack([top, rest]), place)


@dataclass(frozen=True)
class OneVsRest(Lens):
    """One class against all others (paper 3, Eq. 8); `index` is its column."""

    index: int

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if not 0 <= self.index < probs.shape[1]:
            raise InputError("index", f"must be a column, 0 to {probs.shape[1] - 1}", self.index)
        return View(probs[:, self.index], (labels == self.index).astype(np.int64))


@dataclass(frozen=True)
class Binary(Lens):
    """The second of two classes."""

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if probs.shape[1] != 2:
            raise InputError("lens", "Binary needs two classes", probs.shape[1])
        return View(probs[:, 1], labels)


@dataclass(frozen=True)
class Classwise(Lens):
    """Each class against all others; errors are averaged over classes (paper 4, Example 2)."""

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        raise InputError("lens", "Classwise shows a problem for each class; use `views`, or OneVsRest for one of them")

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        return [OneVsRest(k).view(probs, labels) for k in range(probs.shape[1])]


@dataclass(frozen=True)
class Groups(Lens):
    """Classes in the same group count as one (paper 3, Eq. 5-6).

    groups : lists of columns, or a mapping of group names to them; or, with one entry per class, the group of each.
        Every class must be in exactly one group.

    >>> Groups([[0, 1], [2]]).view(np.array([[0.2, 0.3, 0.5]]), np.array([1]))
    View(outputs=array([[0.5, 0.5]]), labels=array([0]))
    """

    groups: Any

    def membership(self, classes: int) -> np.ndarray:
        """The group of each class."""
        groups = self.groups
        lists = list(groups.values()) if isinstance(groups, Mapping) else list(groups)
        if lists and (isinstance(lists[0], str) or not isinstance(lists[0], Sequence | np.ndarray | set | frozenset)):
            if len(lists) != classes:
                raise InputError("groups", f"needs the group of each of the {classes} classes", len(lists))
            return np.unique(np.array(lists), return_inverse=True)[1]
        member = np.full(classes, -1)
        for g, columns in enumerate(lists):
            for column in columns:
                if not 0 <= column < classes:
                    raise InputError("groups", f"must hold columns 0 to {classes - 1}", column)
                if member[column] >= 0:
                    raise InputError("groups", "a class must be in one group only", f"class {column} is in two")
                member[column] = g
        if (member < 0).any():
            missing = int(np.flatnonzero(member < 0)[0])
            raise InputError("groups", "must cover all classes", f"class {missing} is in none")
        return member

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        member = self.membership(probs.shape[1])
        outputs = np.minimum(probs @ np.eye(member.max() + 1)[member], 1.0)  # sums may round to more
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
