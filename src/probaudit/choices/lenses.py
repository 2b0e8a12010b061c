"""Lenses: which smaller problem is evaluated (Kirchenbauer et al. 2022, Sections 3.2 and 4.2,
Appendix A).

A lens maps rows of probabilities (float32 or float64) and labels to the outputs and labels of an
induced problem. If the induced problem is a single event, the outputs are its probabilities, [n],
and the labels are 0 or 1. Otherwise the outputs are [n, d] and the labels 0..d-1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.arrays import as_array, as_numbers, bits_of
from ..data.predictions import Predictions
from ..data.work import each_chunk
from ..errors import Argument, InputError
from .checked import class_names, wrong_choice


class View(NamedTuple):
    """Outputs and labels of an induced problem."""

    outputs: np.ndarray
    labels: np.ndarray

    @property
    def targets(self) -> np.ndarray:
        """The labels in the shape of the outputs: 0 or 1, or one-hot."""
        if self.outputs.ndim == 1:
            return self.labels.astype(np.float64)
        return np.eye(self.outputs.shape[1])[self.labels]


class Lens(ABC):
    """Base class of lenses. A subclass implements `view`, and `words` for reports. `a | b` applies
    a, then b."""

    @abstractmethod
    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        """The induced problem, for probabilities [n, K] and labels 0..K-1."""

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        """All induced problems: one, or one per class for `Classwise`."""
        return [self.view(probs, labels)]

    def words(self, *, pairs: bool = False) -> str:
        """A plain-English description; the code of the lens unless a subclass has one.

        pairs : whether the rows have a stated confidence in place of class probabilities.
        """
        return repr(self)

    def __or__(self, other: Lens) -> Lens:
        return Composed(self, other)


@dataclass(frozen=True)
class Full(Lens):
    """All classes together (Kirchenbauer et al. 2022, Eq. 1)."""

    def words(self, *, pairs: bool = False) -> str:
        return "all classes together"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        return View(probs, labels)


@dataclass(frozen=True)
class TopLabel(Lens):
    """The largest probability, and whether its class is the true one (Kirchenbauer et al. 2022, Eq.
    2).

    >>> TopLabel().view(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([1, 1]))
    View(outputs=array([0.8, 0.6]), labels=array([1, 0]))
    """

    def words(self, *, pairs: bool = False) -> str:
        return "confidence" if pairs else "most probable class"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        from ..kernels.lens_views import top_label

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
    """The k largest probabilities in order, and the remainder (Kirchenbauer et al. 2022, Eq. 4).
    Ties go to the lower class.

    >>> TopK(2).view(np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([0])).outputs.round(12)
    array([[0.4, 0.3, 0.3]])
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError("k", "must be at least 1", self.k)

    def words(self, *, pairs: bool = False) -> str:
        return f"{self.k} most probable classes"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        K = probs.shape[1]
        if self.k >= K:
            raise InputError("k", f"must be below the number of classes ({K})", self.k)
        from ..kernels.lens_views import top_k

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

    def words(self, *, pairs: bool = False) -> str:
        return f"class in column {self.index} against all others"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if not 0 <= self.index < probs.shape[1]:
            raise InputError("index", f"must be a column, 0 to {probs.shape[1] - 1}", self.index)
        return View(
            probs[:, self.index].astype(np.float64), (labels == self.index).astype(np.int64)
        )


@dataclass(frozen=True)
class Binary(Lens):
    """The second of two classes."""

    def words(self, *, pairs: bool = False) -> str:
        return "confidence" if pairs else "second class"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        if probs.shape[1] != 2:
            raise InputError(
                "lens",
                "Binary requires two classes",
                probs.shape[1],
                way_out=("use TopLabel() or OneVsRest(index)",),
            )
        return View(probs[:, 1].astype(np.float64), labels)


def checked_lens(lens: Any) -> Lens:
    """The lens. Raises an error with the spelling of a lens if it is a name or a class.

    >>> checked_lens("classwise")
    Traceback (most recent call last):
    probaudit.errors.InputError: `lens`: must be a lens (found: 'classwise'). Pass Classwise().
    """
    if not isinstance(lens, Lens):
        raise wrong_choice("lens", lens, "lens", class_names(Lens), "TopLabel()")
    return lens


def judged_lens(event: int | None, classes: int) -> Lens:
    """What an audit judges: the event in a column, or else the most probable class.

    >>> judged_lens(1, 2), judged_lens(0, 2), judged_lens(None, 3)
    (Binary(), OneVsRest(index=0), TopLabel())
    """
    if event is None:
        return TopLabel()
    return Binary() if (event, classes) == (1, 2) else OneVsRest(event)


def default_lens(predictions: Predictions, lens: Lens | None = None) -> Lens:
    """The lens, by default what is judged: the event, or else the most probable class."""
    if lens is not None:
        return checked_lens(lens)
    return judged_lens(predictions.event_column, predictions.n_classes)


def error_lens(predictions: Predictions, lens: Lens | None = None) -> Lens:
    """The lens, by default what a calibration error judges: the event if it was named, else the
    most probable class."""
    if lens is None and predictions.event is None:
        return TopLabel()
    return default_lens(predictions, lens)


def event_lens(predictions: Predictions, lens: Lens | None = None) -> Lens:
    """The lens, by default the declared event: the second of two classes unless another is named.
    For a stated confidence, that the answer is right."""
    if lens is not None:
        return checked_lens(lens)
    if predictions.pairs:
        return Binary()
    if predictions.event_class is None:
        raise InputError(
            "event",
            "must name a class if there are more than two",
            f"{predictions.n_classes} classes",
            way_out=("pass ", Argument("event"), ", or another lens where there is one"),
        )
    return default_lens(predictions)


@dataclass(frozen=True)
class Cumulative(Lens):
    """For ordered classes: whether the true class is k or lower, and the summed probability of
    those classes. Errors are averaged over k = 0, ..., K - 2.

    >>> view, _ = Cumulative().views(np.array([[0.2, 0.5, 0.3]]), np.array([1]))
    >>> view
    View(outputs=array([0.2]), labels=array([0]))
    """

    def words(self, *, pairs: bool = False) -> str:
        return "each class or a lower one, against all higher ones"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        raise InputError("lens", "Cumulative() shows several events and cannot stand here")

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        up_to = np.minimum(np.cumsum(probs, axis=1, dtype=np.float64), 1.0)
        return [
            View(up_to[:, k], (labels <= k).astype(np.int64)) for k in range(probs.shape[1] - 1)
        ]


@dataclass(frozen=True, repr=False)
class Classwise(Lens):
    """Each class against all others; errors are averaged over classes (Yang et al. 2023, Example
    2).

    weights : the weight of each class in the mean error: one number per class, in the order of the
        columns; or "prevalence", the share of the class among the true labels. Default: equal.

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
            raise InputError("weights", "must be non-negative numbers, not all 0", weights.tolist())
        object.__setattr__(self, "weights", tuple(weights.tolist()))

    def __repr__(self) -> str:
        return "Classwise()" if self.weights is None else f"Classwise(weights={self.weights!r})"

    def words(self, *, pairs: bool = False) -> str:
        words = "each class against all others"
        if self.weights is None:
            return words
        how = "prevalence" if self.weights == "prevalence" else "given weights"
        return f"{words} (weighted by {how})"

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
                f"must have one number for each of the {len(priors)} classes",
                len(self.weights),
            )
        return np.asarray(self.weights) / math.fsum(self.weights)

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        raise InputError(
            "lens",
            "must have a single induced problem; Classwise has one per class",
            way_out=("use OneVsRest(index) for a single class",),
        )

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        if self.weights is not None:
            raise InputError(
                "lens",
                "class weights apply only to binned calibration errors",
                repr(self),
                way_out=("use Classwise()",),
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
        """From a column with the group of the true class of each row.

        classes : the class of each column, in order; without it the labels are column numbers.
            Every class must occur, and always with the same group.

        >>> labels, groups = ["cat", "car", "dog"], ["animal", "thing", "animal"]
        >>> Groups.of_hierarchy(labels, groups, classes=["car", "cat", "dog"])
        Groups(groups=('thing', 'animal', 'animal'))
        """
        labels, groups = as_array(labels, "labels").tolist(), as_array(groups, "groups").tolist()
        if len(labels) != len(groups):
            raise InputError(
                "groups", f"must have one value per label ({len(labels)})", len(groups)
            )
        found: dict[Any, Any] = {}
        for label, group in zip(labels, groups, strict=True):
            if found.setdefault(label, group) != group:
                raise InputError(
                    "groups",
                    "a class must belong to one group only",
                    f"{label!r} is in {found[label]!r} and {group!r}",
                )
        order = range(int(max(labels)) + 1) if classes is None else list(classes)
        missing = [c for c in order if c not in found]
        if missing:
            raise InputError("labels", "must contain every class", f"{missing[0]!r} is missing")
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
                    "groups", f"must give the group of each of the {classes} classes", len(lists)
                )
            return np.unique(np.array(lists), return_inverse=True)[1]
        member = np.full(classes, -1)
        for g, columns in enumerate(lists):
            for column in columns:
                if not 0 <= column < classes:
                    raise InputError("groups", f"must contain columns 0 to {classes - 1}", column)
                if member[column] >= 0:
                    raise InputError(
                        "groups",
                        "a class must belong to one group only",
                        f"class {column} is in two",
                    )
                member[column] = g
        if (member < 0).any():
            missing = int(np.flatnonzero(member < 0)[0])
            raise InputError("groups", "must cover all classes", f"class {missing} is in none")
        return member

    def words(self, *, pairs: bool = False) -> str:
        return "groups of classes"

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        from ..kernels.lens_views import group_sums

        member = self.membership(probs.shape[1])
        outputs = np.empty((len(probs), int(member.max()) + 1))
        probs = np.ascontiguousarray(probs)
        each_chunk(probs, lambda part: group_sums(probs[part], member, outputs[part]))
        return View(outputs, member[labels])


@dataclass(frozen=True)
class Composed(Lens):
    """Two lenses, applied one after the other."""

    first: Lens
    second: Lens

    def words(self, *, pairs: bool = False) -> str:
        return f"{self.first.words(pairs=pairs)}, then {self.second.words()}"

    def views(self, probs: np.ndarray, labels: np.ndarray) -> list[View]:
        found = []
        for outputs, induced in self.first.views(probs, labels):
            matrix = outputs if outputs.ndim == 2 else np.column_stack([1 - outputs, outputs])
            found += self.second.views(matrix, induced)
        return found

    def view(self, probs: np.ndarray, labels: np.ndarray) -> View:
        views = self.views(probs, labels)
        if len(views) != 1:
            raise InputError("lens", "must have a single induced problem", len(views))
        return views[0]
