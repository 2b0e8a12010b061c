"""Classes matched to output columns: by the column names, and in the type of the labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import Argument, InputError
from ..text import listed
from .arrays import as_array, column_names, is_missing

Pattern = str | Sequence[str]

# Text that says whether an answer is correct, in any case; C and I as in logs of Inspect.
TRUTH_VALUES = {
    "true": True,
    "false": False,
    "t": True,
    "f": False,
    "yes": True,
    "no": False,
    "y": True,
    "n": False,
    "1": True,
    "0": False,
    "correct": True,
    "incorrect": False,
    "c": True,
    "i": False,
    "right": True,
    "wrong": False,
    "pass": True,
    "fail": False,
}

DATE = r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?"  # with or without a time


def class_list(classes: Any, argument: str) -> list[Any]:
    """Class names as a list of plain Python values. A set is refused, because it has no order."""
    ordered = (
        classes if isinstance(classes, (list, tuple)) else as_array(classes, argument).tolist()
    )
    if not isinstance(ordered, (list, tuple)):
        raise InputError(
            argument, "must be a sequence of classes, in the order of the columns", repr(classes)
        )
    plain = [value.item() if isinstance(value, np.generic) else value for value in ordered]
    try:
        set(plain)
    except TypeError as problem:
        raise InputError(argument, "a class must be a single value", str(problem)) from None
    return plain


@lru_cache(maxsize=32)
def are_names(classes: tuple[Any, ...]) -> bool:
    """Whether all classes are text that is no number. A label that is a number cannot be such a
    class: it is the position of its class, from 0.

    >>> are_names(("cat", "dog")), are_names(("cat", "2")), are_names((0, 1)), are_names(())
    (True, False, False, False)
    """
    return bool(classes) and all(
        isinstance(c, str) and _number(c.strip(), whole=False) is None for c in classes
    )


def in_class_order(names: Sequence[str], classes: Sequence[Any]) -> list[str] | None:
    """Column names in the order of the classes, if every name is a class with a common prefix and
    suffix; otherwise None.

    >>> in_class_order(["p_owl", "p_cat", "p_dog"], ["cat", "dog", "owl"])
    ['p_cat', 'p_dog', 'p_owl']
    """
    wanted = [str(c) for c in classes]
    if not names or len(names) != len(wanted):
        return None
    first, affixes = names[0], (len("".join(names)) - len("".join(wanted))) // len(wanted)
    for start in range(affixes + 1):
        ordered = [first[:start] + c + first[len(first) - affixes + start :] for c in wanted]
        if sorted(ordered) == sorted(names):
            return ordered
    return None


def check_column_order(data: Any, classes: Sequence[Any], argument: str) -> None:
    """Raise if a frame has the classes as columns, but in another order. Columns are matched to
    classes by position, not by name."""
    names = column_names(data)
    ordered = in_class_order(names, classes)
    if ordered is not None and ordered != names:
        raise InputError(
            argument,
            f"columns must be in the order of the classes: {listed(ordered)}",
            listed(names),
            way_out=("reorder the columns",),
        )


def order_columns(
    names: list[str], wildcards: list[str], classes: Sequence[Any], argument: str
) -> list[str]:
    """Columns in the order of the classes, if their names contain the classes; otherwise in the
    given order.

    wildcards : the class part of each name, see `wildcard_parts`.
    """
    ordered, numbers = in_class_order(names, classes), typed_as(wildcards, np.array(classes))
    if (
        ordered is None
        and numbers is not None
        and len(numbers) == len(classes)
        and set(numbers) == set(classes)
    ):
        # a number can be spelled in several ways
        ordered = [names[numbers.index(c)] for c in classes]
    if ordered is None and wildcards != names:
        raise InputError(
            argument,
            f"needs a column for each of {listed([str(c) for c in classes])}",
            listed(wildcards),
        )
    if ordered is None and len(names) == len(classes) - 1:
        ordered = in_class_order(names, classes[1:])
        for c in classes[1:] if ordered is None else ():
            if in_class_order(names, [other for other in classes if other != c]):
                raise InputError(
                    argument,
                    f"only the column of the first class, {classes[0]}, may be left out",
                    f"no column for {c}",
                )
    return ordered or names


def wildcard_parts(names: list[str], pattern: Pattern) -> list[Any]:
    """The part of each name that the star of a pattern matches. The whole names if the pattern has
    other wildcards or several stars.

    >>> wildcard_parts(["p_cat", "p_dog"], "p_*")
    ['cat', 'dog']
    >>> wildcard_parts(["p cat [%]", "p dog [%]"], "p * [%]")
    ['cat', 'dog']
    """
    if not isinstance(pattern, str):
        pattern = ",".join(map(str, pattern))
    if pattern.count("*") != 1 or any(sign in pattern for sign in ",?"):
        return list(names)
    before, after = pattern.strip().split("*")
    if not all(name.startswith(before) and name.endswith(after) for name in names):
        return list(names)  # a list of letters in brackets
    return [name[len(before) : len(name) - len(after)] for name in names]


def typed_as(classes: list[Any], labels: np.ndarray) -> tuple[Any, ...] | None:
    """Class names in the type of the labels. Names in a file are text, but labels may be numbers or
    booleans. Dates stay text: `labels_as_text` converts the labels instead.

    None if a name cannot be a label of that type.
    """
    kind = _kind(labels)
    if not all(isinstance(c, str) for c in classes) or kind not in "biufM":
        return tuple(classes)
    if kind == "M":
        return tuple(classes) if all(re.fullmatch(DATE, c) for c in classes) else None
    if kind == "b":
        booleans = {"false": False, "true": True, "0": False, "1": True}
        typed = [booleans.get(c.lower()) for c in classes]
    else:
        typed = [_number(c, whole=kind != "f") for c in classes]
    return None if None in typed else tuple(typed)


def _number(text: str, *, whole: bool) -> Any:
    """Text as a number; None if it is not one. Whole numbers become integers, however they are
    spelled.

    >>> _number("01", whole=True), _number("1.0", whole=True)
    (1, 1)
    >>> _number("0.5", whole=False), _number("0.5", whole=True)
    (0.5, None)
    """
    if re.fullmatch(r"-?\d+(\.0*)?", text):
        return int(text.split(".")[0])
    return float(text) if re.fullmatch(r"-?\d*\.\d+", text) and not whole else None


def as_truth(labels: np.ndarray, argument: str, *, strict: bool) -> np.ndarray:
    """Correctness given as text, as booleans (`TRUTH_VALUES`). Labels that are not text are
    returned unchanged.

    strict : raise at a value that is not known; otherwise such rows are left as they are, to be
        counted as invalid.

    >>> as_truth(np.array(["Yes", "no"]), "right", strict=True).tolist()
    [True, False]
    """
    if _kind(labels) not in "USTO":
        return labels
    found = np.array(
        [
            TRUTH_VALUES.get(value.strip().lower(), value) if isinstance(value, str) else value
            for value in labels.tolist()
        ],
        object,
    )
    unknown = (row for row, value in enumerate(found) if isinstance(value, str))
    row = next(unknown, None)
    if row is not None and strict:
        words = list(TRUTH_VALUES)
        pairs = [f"{yes} / {no}" for yes, no in zip(words[::2], words[1::2], strict=True)]
        raise InputError(
            argument,
            f"must be a truth value: {', '.join(pairs)}",
            repr(found[row]),
            row=row,
            way_out=("pass ", Argument("classes"), ", the words for false and true"),
        )
    return found.astype(bool) if row is None and not any(map(is_missing, found)) else found


def labels_as_text(labels: np.ndarray, classes: tuple[Any, ...] | None) -> np.ndarray:
    """Labels that are dates, as text if the classes are text. A date equal to a class is spelled
    like the class. All other labels are returned unchanged."""
    if labels.dtype.kind != "M" or not classes or not all(isinstance(c, str) for c in classes):
        return labels
    texts = np.full(labels.shape, None, object)
    known = ~np.isnat(labels)
    texts[known] = labels[known].astype(str)
    for name in classes:
        if re.fullmatch(DATE, name):
            texts[labels == np.datetime64(name)] = name
    return texts


def _kind(labels: np.ndarray) -> str:
    """The numpy kind of labels. For objects, as where labels are missing, the kind of the first
    label present."""
    if labels.dtype.kind != "O":
        return labels.dtype.kind
    present = (value for value in labels.flat if not is_missing(value))
    return np.asarray(next(present, None)).dtype.kind
