"""The mergeable sample of rows: those of least priority, with all that belongs to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.predictions import Predictions
from ..errors import InputError
from .sampling import least, likely_bound, priority, within
from .seats import Seats
from .state import Plan

NUMBERS = "numbers"
COLUMN = "column."
# beyond which to look for the rows of a sample beforehand would take too long
MOST_ROWS_FOR_A_SEAT = 16
# values of columns that are kept as they are; others as text, as reports show them
PLAIN = (str, bool, int, float)


class RowSample:
    """At most `size` rows, in the order of their numbers. Rows wait unsorted until there are many
    of them, or are asked for.

    Their types are those of all rows that were offered: a gap in a column of integers makes it one
    of floats, kept or not.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError("sample_rows", "must be at least 1", size)
        self.size = size
        self._form: dict[str, np.ndarray] = {}  # no rows, of the types of all
        self._parts: list[dict[str, np.ndarray]] = []
        self._held = 0
        self._seats: Seats | None = None
        self._bound = np.uint64(2**64 - 1)  # priorities above it cannot enter any more
        self.feature_names: tuple[str, ...] | None = None

    def expect(self, rows: int) -> None:
        """Be told that all rows from 0 up to this number will come: those that cannot enter are
        then passed over at once."""
        self._bound = min(self._bound, likely_bound(rows, self.size))

    def expect_here(self, rows: int) -> None:
        """Be told that all rows from 0 up to this number will come to this very sample: their
        places are then known."""
        self.expect(rows)
        if rows <= MOST_ROWS_FOR_A_SEAT * self.size and not self._form:
            self._seats = Seats(rows, self.size)

    def update(self, rows: Predictions, start: int) -> None:
        """Offer rows, the first of which has this number."""
        self.take(self.picked(rows, start), names_of(rows))

    def picked(self, rows: Predictions, start: int) -> dict[str, np.ndarray]:
        """Those of some rows that may enter, for `take`; a copy, so that the others can go. Lets
        none in."""
        inside = self._inside(rows, start)
        return {NUMBERS: start + inside} | _part(rows, inside, rows.probs[inside])

    def room_for(self, rows: Predictions, start: int) -> dict[str, np.ndarray]:
        """As `picked`, but with room only for the outputs: whoever looks at them is to copy them
        there (`Block.copied`)."""
        inside = self._inside(rows, start)
        numbers, room = (
            start + inside,
            np.empty((len(inside), rows.probs.shape[1]), rows.probs.dtype),
        )
        room = room if self._seats is None else self._seats.room("probs", numbers, room)
        return {NUMBERS: numbers} | _part(rows, inside, room)

    def _inside(self, rows: Predictions, start: int) -> np.ndarray:
        """Which of some rows may enter."""
        if self._seats is None:
            return within(start, len(rows), self._bound)
        return self._seats.inside(start, len(rows))

    def check(self, rows: Predictions) -> None:
        """Raise unless rows have the parts that those before them had."""
        self._joint(
            {NUMBERS: np.empty(0, np.int64)} | _part(rows, slice(1), rows.probs[:1]), names_of(rows)
        )

    def _joint(
        self, part: dict[str, np.ndarray], feature_names: tuple[str, ...] | None
    ) -> dict[str, np.ndarray]:
        """The form of the rows so far and of these."""
        found = _joint(self._form or part, part)
        if self._form and feature_names != self.feature_names:
            raise InputError(
                "features",
                f"all rows of a state need the features {self.feature_names}",
                feature_names,
            )
        return found

    def take(self, part: dict[str, np.ndarray], feature_names: tuple[str, ...] | None) -> None:
        """Let rows in that were `picked`."""
        self._form, self.feature_names = self._joint(part, feature_names), feature_names
        if not len(part[NUMBERS]):
            return
        if self._seats is not None:
            self._seats.put(part[NUMBERS], part, self._form)
            return
        self._parts.append(part)
        self._held += len(part[NUMBERS])
        if self._held > self.size + max(1024, self.size // 4):
            self.settle()

    def settle(self) -> dict[str, np.ndarray]:
        """The rows as arrays by name, in the order of their numbers; no arrays if none was ever
        offered."""
        if self._seats is not None:
            rows = self._seats.rows(self._form)
            if not self._seats.all_taken:
                return rows
            self._parts, self._held, self._seats = [rows], len(rows[NUMBERS]), None
        if not self._parts:
            return self._form
        numbers = np.concatenate([part[NUMBERS] for part in self._parts])
        hashes = priority(numbers)
        kept = least(hashes, self.size)
        if len(kept) == self.size:
            self._bound = hashes[kept].max()
        # parts are sorted, which it makes use of
        order = kept[np.argsort(numbers[kept], kind="stable")]
        typed = all(array.dtype == self._form[name].dtype for name, array in self._parts[0].items())
        if (
            not typed
            or len(self._parts) > 1
            or len(order) < len(numbers)
            or (np.diff(order) != 1).any()
        ):
            place = np.full(len(numbers), -1)
            place[order] = np.arange(len(order))
            ends = np.cumsum([len(part[NUMBERS]) for part in self._parts])
            whole = {
                name: self._gathered(name, np.split(place, ends[:-1]), len(order))
                for name in list(self._parts[0])
            }
            self._parts, self._held = [whole], len(order)
        return self._parts[0]

    def _gathered(self, name: str, places: list[np.ndarray], size: int) -> np.ndarray:
        """The rows of all parts, each at its place, or nowhere if that is negative. The parts lose
        theirs."""
        arrays = [part.pop(name) for part in self._parts]
        found = np.empty((size, *arrays[0].shape[1:]), self._form[name].dtype)
        for place in reversed(places):
            array, kept = arrays.pop(), np.flatnonzero(place >= 0)
            found[place[kept]] = array[kept]
        return found

    def merge(self, other: RowSample) -> None:
        if self.size != other.size:
            raise InputError(
                "other", f"must have a sample of the same size ({self.size})", other.size
            )
        rows = other.settle()
        if self._seats is not None:  # which are for other rows
            self._parts, self._seats = [self._seats.rows(self._form)] if self._form else [], None
        if rows:
            self.take(dict(rows), other.feature_names)

    def restore(self, rows: dict[str, np.ndarray], feature_names: tuple[str, ...] | None) -> None:
        """Take the rows of a sample that was stored (`settle`)."""
        if len({len(array) for array in rows.values()}) != 1:
            raise InputError("state", "the parts of its sample must be of one length")
        if any(
            rows[name].dtype.kind != kind
            for name, kind in {NUMBERS: "i", "codes": "i", "probs": "f"}.items()
        ):
            raise InputError("state", "its sample needs numbers, labels and outputs of rows")
        self.take(rows, feature_names)

    @property
    def numbers(self) -> np.ndarray:
        """Of the rows, rising."""
        return self.settle().get(NUMBERS, np.empty(0, np.int64))

    def predictions(self, plan: Plan) -> Predictions:
        """The sample as rows to be judged."""
        rows = self.settle()
        columns = {
            name.removeprefix(COLUMN): column
            for name, column in rows.items()
            if name.startswith(COLUMN)
        }
        options: dict[str, Any] = {
            name: rows[name] for name in ("sample_weight", "features", "clusters") if name in rows
        }
        return Predictions(
            labels_of(rows["codes"], plan.classes),
            rows["probs"],
            from_logits=plan.kind == "logits",
            from_log_probs=plan.kind == "log_probabilities",
            pairs=plan.kind == "pairs",
            classes=plan.classes,
            feature_names=self.feature_names,
            columns=columns or None,
            on_bad_rows=plan.on_bad_rows,
            tolerance=plan.tolerance,
            names=plan.names,
            **options,
        )


def _part(rows: Predictions, inside: Any, outputs: np.ndarray) -> dict[str, np.ndarray]:
    """All that belongs to some of the rows, by name; their outputs are given."""
    whole = {
        "sample_weight": rows.sample_weight,
        "features": rows.features,
        "clusters": rows.clusters,
    }
    whole |= {f"{COLUMN}{name}": column for name, column in (rows.columns or {}).items()}
    part = {name: _kept(name, array[inside]) for name, array in whole.items() if array is not None}
    return {"codes": rows.codes_of(inside), "probs": outputs} | part


def names_of(rows: Predictions) -> tuple[str, ...] | None:
    return None if rows.feature_names is None else tuple(rows.feature_names)


def _kept(name: str, array: np.ndarray) -> np.ndarray:
    """Values as they can be stored: decimals, times, bytes, records and whatever else as text."""
    if array.dtype.kind in "TV":  # which numpy would pickle
        array = array.astype(object)
    if array.dtype.kind != "O" or all(
        value is None or isinstance(value, PLAIN) for value in array.flat
    ):
        return array
    kept = [
        value if value is None or isinstance(value, PLAIN) else _said(name, value)
        for value in array.flat
    ]
    return np.array([*kept, None], object)[:-1].reshape(array.shape)


def _said(name: str, value: Any) -> str:
    """A value in words. Those of a set, or of an object that has none of its own, would differ from
    process to process."""
    kind: Any = type(value)
    if isinstance(value, (set, frozenset)) or (kind.__str__, kind.__repr__) == (
        object.__str__,
        object.__repr__,
    ):
        rule = (
            "a column of a state must hold text, numbers, booleans, dates, or objects with a "
            "text form of their own"
        )
        raise InputError("columns", rule, f"{name.removeprefix(COLUMN)!r} has {kind.__name__}")
    return str(value)


def labels_of(codes: np.ndarray, classes: tuple[Any, ...]) -> np.ndarray:
    """The class of each code; where it is none, something that is no class.

    >>> labels_of(np.array([1, -1, 0]), ("cat", "dog")), labels_of(np.array([1, 7]), (0, 1))
    (array(['dog', None, 'cat'], dtype=object), array([1, 7]))
    """
    if classes == tuple(range(len(classes))) and not any(isinstance(c, bool) for c in classes):
        return codes
    inside = (codes >= 0) & (codes < len(classes))
    if inside.all() and len({type(c) for c in classes}) == 1:
        return np.array(classes)[codes]
    found = np.empty(len(codes), object)
    found[inside] = np.array([*classes, None], object)[:-1][codes[inside]]
    return found


def _joint(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """No rows, of types that hold both; refused unless they have the same parts, of the same shape
    and kind."""
    if mine.keys() != theirs.keys():
        odd = sorted(mine.keys() ^ theirs.keys())[0].removeprefix(COLUMN)
        raise InputError("rows", "all rows of a state need the same parts", f"some have no {odd!r}")
    found = {}
    for name, array in mine.items():
        other, kinds = theirs[name], {array.dtype.kind, theirs[name].dtype.kind}
        alike = kinds <= set("US") or "O" in kinds or not kinds & set("USMmV") or len(kinds) == 1
        if array.shape[1:] != other.shape[1:] or not alike:
            column = name.removeprefix(COLUMN)
            rule = f"all rows of a state need a {column!r} of the same kind and shape"
            raise InputError(
                "rows",
                rule,
                f"{other.dtype} {other.shape[1:]}, after {array.dtype} {array.shape[1:]}",
            )
        found[name] = np.empty((0, *array.shape[1:]), np.result_type(array.dtype, other.dtype))
    return found
