"""Which column is of which class, by its name; and classes of the type that labels have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.arrays import in_class_order, is_missing
from ..errors import InputError
from ..text import listed

Pattern = str | Sequence[str]

MOMENT = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?"  # a date, with or without a time


def for_classes(
    names: list[str], stars: list[str], classes: Sequence[Any], argument: str
) -> list[str]:
    """Columns in the order of the classes, if their names tell them; as listed, if they tell
    nothing."""
    ordered, numbers = in_class_order(names, classes), typed_as(stars, np.array(classes))
    if (
        ordered is None
        and numbers is not None
        and len(numbers) == len(classes)
        and set(numbers) == set(classes)
    ):
        # numbers may be spelled in several ways
        ordered = [names[numbers.index(c)] for c in classes]
    if ordered is None and stars != names:
        raise InputError(
            argument,
            f"needs a column for each of {listed([str(c) for c in classes])}",
            f"found {listed(stars)}",
        )
    if ordered is None and len(names) == len(classes) - 1:
        ordered = in_class_order(names, classes[1:])
        for c in classes[1:] if ordered is None else ():
            if in_class_order(names, [other for other in classes if other != c]):
                raise InputError(
                    argument,
                    f"only the first class, {classes[0]}, may be left out",
                    f"no column is of {c}",
                )
    return ordered or names


def stars_of(names: list[str], pattern: Pattern) -> list[Any]:
    """What the star of a pattern stands for in each name; the names themselves if there is any
    other wildcard."""
    if not isinstance(pattern, str):
        pattern = ",".join(map(str, pattern))
    if pattern.count("*") != 1 or any(sign in pattern for sign in ",?["):
        return list(names)
    before, after = pattern.strip().split("*")
    return [name[len(before) : len(name) - len(after)] for name in names]


def typed_as(classes: list[Any], labels: np.ndarray) -> tuple[Any, ...] | None:
    """Class names of the labels' type: a name in a file is text, the labels may be numbers or
    booleans. Where these are dates, it is they that become text (`as_classes`).

    None if the names are not those of such labels.
    """
    kind = _kind(labels)
    if not all(isinstance(c, str) for c in classes) or kind not in "biufM":
        return tuple(classes)
    if kind == "M":
        return tuple(classes) if all(re.fullmatch(MOMENT, c) for c in classes) else None
    if kind == "b":
        truth = {"false": False, "true": True, "0": False, "1": True}
        found = [truth.get(c.lower()) for c in classes]
    else:
        found = [_number(c, whole=kind != "f") for c in classes]
    return None if None in found else tuple(found)


def _number(text: str, *, whole: bool) -> Any:
    """The number that a text is, or None; whole numbers as such, however they are spelled.

    >>> _number("01", whole=True), _number("1.0", whole=True)
    (1, 1)
    >>> _number("0.5", whole=False), _number("0.5", whole=True)
    (0.5, None)
    """
    if re.fullmatch(r"-?\d+(\.0*)?", text):
        return int(text.split(".")[0])
    return float(text) if re.fullmatch(r"-?\d*\.\d+", text) and not whole else None


def as_classes(labels: np.ndarray, classes: tuple[Any, ...] | None) -> np.ndarray:
    """Labels that are dates as text, if classes are: each in the spelling of the class that is the
    same moment."""
    if labels.dtype.kind != "M" or not classes or not all(isinstance(c, str) for c in classes):
        return labels
    texts = np.full(labels.shape, None, object)
    known = ~np.isnat(labels)
    texts[known] = labels[known].astype(str)
    for name in classes:
        if re.fullmatch(MOMENT, name):
            texts[labels == np.datetime64(name)] = name
    return texts


def _kind(labels: np.ndarray) -> str:
    """The numpy kind of labels; that of the first label present if they are objects, as where some
    are missing."""
    if labels.dtype.kind != "O":
        return labels.dtype.kind
    return np.asarray(
        next((value for value in labels.flat if not is_missing(value)), None)
    ).dtype.kind
