"""What to do about labels that are not classes, by the look of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Argument, WayOut
from .classes import are_names

SWAPPED: WayOut = ("these look like probabilities: check that labels and outputs are not swapped",)
MANY_CLASSES = 6  # above which classes are not listed


def table_hint(labels: np.ndarray, argument: str) -> WayOut:
    """For labels with two dimensions or more.

    >>> table_hint(np.array([[0, 1], [1, 0]]), "y_true")
    ('for one-hot labels, pass `y_true.argmax(axis=1)`',)
    """
    if labels.ndim == 2 and labels.dtype.kind in "biuf":
        marks, sums = (labels == 0) | (labels == 1), labels.sum(axis=1)
        if marks.all():
            return (
                (f"for one-hot labels, pass `{argument}.argmax(axis=1)`",)
                if (sums == 1).all()
                else ("for independent events, use `multilabel_table`",)
            )
        if _are_shares(labels):
            return SWAPPED
    return (
        "pass one-hot labels as column numbers, independent events to "
        "`multilabel_table`, and dense outputs as [n, K, ...]",
    )


def label_hint(labels: np.ndarray, label: Any, classes: Sequence[Any]) -> WayOut:
    """For a label that is not a class; `labels` : some rows, among them that one. Labels that are
    numbers are positions if all classes are names.

    >>> label_hint(np.array([0.25, 0.5]), 0.25, (0, 1)) == SWAPPED
    True
    >>> label_hint(np.array([1, 3, 2]), 3, (0, 1, 2))[-1]
    Argument(name='classes', value='[1, 2, 3]')
    >>> label_hint(np.array([1, 3, 2]), 3, ("a", "b", "c"))
    ('if labels count from 1, subtract 1',)
    >>> label_hint(np.array(["cat", "dog"]), "cat", ("score cat", "score dog"))[-1]
    Argument(name='classes', value='')
    """
    K, positions = len(classes), are_names(tuple(classes))
    if labels.dtype.kind in "iuf" and (positions or tuple(classes) == tuple(range(K))):
        if labels.dtype.kind == "f" and label != np.floor(label) and _are_shares(labels):
            return SWAPPED
        present = np.unique(labels[np.isfinite(labels) & (labels == np.floor(labels))])
        counted = len(present) and present[0] >= 1 and present[-1] == K
        if counted and positions:
            return ("if labels count from 1, subtract 1",)
        if not positions and (counted or len(present) == K <= MANY_CLASSES):
            named = range(1, K + 1) if counted else [int(value) for value in present]
            shown = f"range(1, {K + 1})" if K > MANY_CLASSES else str(list(named))
            return ("name the class of each column with ", Argument("classes", shown))
    if positions and isinstance(label, str) and label.strip().isdecimal():
        return ("convert labels to numbers: positions of classes must not be text",)
    if isinstance(label, str) and not set(map(str, labels)) & set(map(str, classes)):
        return ("name the class of each column, in order, with ", Argument("classes"))
    return (
        "to leave out and count rows with this label, pass ",
        Argument("ignore_label", repr(label)),
    )


def _are_shares(values: np.ndarray) -> bool:
    """Whether all values lie between 0 and 1."""
    return bool(values.size and values.min() >= 0 and values.max() <= 1)
