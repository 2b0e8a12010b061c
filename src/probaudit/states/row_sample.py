"""The mergeable sample of rows: those of least priority, with their labels, outputs and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.predictions import IGNORED, Predictions
from ..errors import InputError
from .plan import Plan
from .sampling import drawn, least, likely_bound, priority, within

NUMBERS = "numbers"
COLUMN = "column."
# rows per row of the sample, above which finding its rows beforehand would take too long
MOST_ROWS_FOR_A_SEAT = 16
# types of column values that are kept; others become text, as reports show them
PLAIN = (str, bool, int, float)

Arrays = dict[str, np.ndarray]


class Seats:
    """The places of those of the rows 0..rows-1 that are in a sample, if it is known beforehand
    that all of them will come: each goes to its place at once.

    Concatenating parts at the end would take twice the memory, and fresh memory is slow.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.numbers = drawn(rows, size)
        self._taken = np.zeros(len(self.numbers), bool)
        self._arrays: Arrays = {}

    def inside(self, first: int, count: int) -> np.ndarray:
        """The indexes, from 0, of those of `count` rows from number `first` on that are in the
        sample."""
        low, high = np.searchsorted(self.numbers, [first, first + count])
        return self.numbers[low:high] - first

    @property
    def all_taken(self) -> bool:
        return bool(self._taken.all())

    def room(self, name: str, numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
        """A view of the places of rows with these consecutive numbers. `like` has the type and
        shape of a row."""
        # Several threads may call this at once: only one of their arrays is kept, and none that is
        # in use is ever replaced.
        whole = self._arrays.setdefault(
            name, np.empty((len(self.numbers), *like.shape[1:]), like.dtype)
        )
        first = int(np.searchsorted(self.numbers, numbers[0])) if len(numbers) else 0
        return whole[first : first + len(numbers)]

    def put(self, numbers: np.ndarray, part: Arrays, form: Arrays) -> None:
        """Put rows of the sample with these numbers into their places. `form` has the types of all
        rows so far."""
        place = np.searchsorted(self.numbers, numbers)
        for name, array in part.items():
            kind, known = form[name].dtype, self._arrays.get(name)
            if known is None:
                self._arrays[name] = np.empty((len(self.numbers), *array.shape[1:]), kind)
            elif known.dtype != kind:
                self._arrays[name] = known.astype(kind)
            if array.base is not self._arrays[name]:  # else it was written there already (`room`)
                self._arrays[name][place] = array
        self._taken[place] = True

    def rows(self, form: Arrays) -> Arrays:
        """The rows so far, in the order of their numbers, with arrays as in `form`; `form` itself
        if there are none."""
        if not self._taken.any():
            return form
        whole = {
            name: self._arrays[name].astype(array.dtype, copy=False) for name, array in form.items()
        }
        return (
            whole if self.all_taken else {name: array[self._taken] for name, array in whole.items()}
        )


class RowSample:
    """At most `size` rows, in the order of their numbers. New rows are buffered until there are
    many, or until the sample is read.

    Types are those of all rows that were offered: a missing value in a column of integers makes it
    a column of floats, even if that row is not in the sample.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError("sample_rows", "must be at least 1", size)
        self.size = size
        self._form: Arrays = {}  # empty arrays, of the types of all rows
        self._parts: list[dict[str, np.ndarray]] = []
        self._held = 0
        self._seats: Seats | None = None
        self._bound = np.uint64(2**64 - 1)  # rows of higher priority cannot enter any more
        self.feature_names: tuple[str, ...] | None = None

    def expect(self, rows: int) -> None:
        """Expect all rows from 0 up to this number, so that those that cannot enter are skipped at
        once."""
        self._bound = min(self._bound, likely_bound(rows, self.size))

    def expect_here(self, rows: int) -> None:
        """Expect all rows from 0 up to this number in this very sample, not in others to be merged
        with it: their places are then known."""
        self.expect(rows)
        if rows <= MOST_ROWS_FOR_A_SEAT * self.size and not self._form:
            self._seats = Seats(rows, self.size)

    def update(self, rows: Predictions, start: int) -> None:
        """Offer rows, the first of which has this number."""
        self.take(self.picked(rows, start), names_of(rows))

    def picked(self, rows: Predictions, start: int) -> dict[str, np.ndarray]:
        """A copy of those rows that may enter, for `take`. The sample does not change."""
        inside = self._inside(rows, start)
        return {NUMBERS: start + inside} | _part(rows, inside, rows.probs[inside])

    def room_for(self, rows: Predictions, start: int) -> dict[str, np.ndarray]:
        """The same as `picked`, but with an uninitialised array for the outputs, into which the
        pass copies them (`Block.copied`)."""
        inside = self._inside(rows, start)
        numbers = start + inside
        room = np.empty((len(inside), rows.probs.shape[1]), rows.probs.dtype)
        room = room if self._seats is None else self._seats.room("probs", numbers, room)
        return {NUMBERS: numbers} | _part(rows, inside, room)

    def _inside(self, rows: Predictions, start: int) -> np.ndarray:
        """The indexes of the rows that may enter."""
        if self._seats is None:
            return within(start, len(rows), self._bound)
        return self._seats.inside(start, len(rows))

    def check(self, rows: Predictions) -> None:
        """Raise unless rows have the same parts as those before them."""
        self._joint(
            {NUMBERS: np.empty(0, np.int64)} | _part(rows, slice(1), rows.probs[:1]), names_of(rows)
        )

    def _joint(
        self, part: dict[str, np.ndarray], feature_names: tuple[str, ...] | None
    ) -> dict[str, np.ndarray]:
        """Empty arrays, of types for the rows so far and these."""
        form = _joint(self._form or part, part)
        if self._form and feature_names != self.feature_names:
            raise InputError(
                "features",
                f"all rows of a state must have the features {self.feature_names}",
                feature_names,
            )
        return form

    def take(self, part: dict[str, np.ndarray], feature_names: tuple[str, ...] | None) -> None:
        """Add rows that were `picked`."""
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
        """The rows as arrays by name, in the order of their numbers; no arrays if no row was ever
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
        # a stable sort is fast, because the parts are sorted
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
        """An array of the rows of all parts, each at its place; those with a negative place are
        left out. Removes the array from the parts."""
        arrays = [part.pop(name) for part in self._parts]
        whole = np.empty((size, *arrays[0].shape[1:]), self._form[name].dtype)
        for place in reversed(places):
            array, kept = arrays.pop(), np.flatnonzero(place >= 0)
            whole[place[kept]] = array[kept]
        return whole

    def merge(self, other: RowSample) -> None:
        if self.size != other.size:
            raise InputError(
                "other", f"must have a sample of the same size ({self.size})", other.size
            )
        rows = other.settle()
        if self._seats is not None:  # they have no places for the rows of the other sample
            self._parts, self._seats = [self._seats.rows(self._form)] if self._form else [], None
        if rows:
            self.take(dict(rows), other.feature_names)

    def restore(self, rows: dict[str, np.ndarray], feature_names: tuple[str, ...] | None) -> None:
        """Take the rows of a stored sample (`settle`)."""
        if len({len(array) for array in rows.values()}) != 1:
            raise InputError("state", "the arrays of its sample must have the same length")
        if any(
            rows[name].dtype.kind != kind
            for name, kind in {NUMBERS: "i", "codes": "i", "probs": "f"}.items()
        ):
            raise InputError("state", "its sample must have row numbers, labels and outputs")
        self.take(rows, feature_names)

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the rows, rising."""
        return self.settle().get(NUMBERS, np.empty(0, np.int64))

    def predictions(self, plan: Plan) -> Predictions:
        """The sample as predictions."""
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
            labels_of(rows["codes"], plan.classes, plan.ignore_label),
            rows["probs"],
            from_logits=plan.kind == "logits",
            from_log_probs=plan.kind == "log_probabilities",
            pairs=plan.kind == "pairs",
            classes=plan.classes,
            event=plan.named_event,
            feature_names=self.feature_names,
            columns=columns or None,
            on_bad_rows=plan.on_bad_rows,
            tolerance=plan.tolerance,
            names=plan.names,
            ignore_label=plan.ignore_label,
            **options,
        )


def _part(rows: Predictions, inside: Any, outputs: np.ndarray) -> dict[str, np.ndarray]:
    """Everything that belongs to some of the rows, by name, given their outputs."""
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
    """Values that can be stored: decimals, times, bytes, records and other objects become text."""
    if array.dtype.kind in "TV":  # numpy would pickle these
        array = array.astype(object)
    if array.dtype.kind != "O" or all(
        value is None or isinstance(value, PLAIN) for value in array.flat
    ):
        return array
    kept = [
        value if value is None or isinstance(value, PLAIN) else _as_text(name, value)
        for value in array.flat
    ]
    return np.array([*kept, None], object)[:-1].reshape(array.shape)


def _as_text(name: str, value: Any) -> str:
    """A value as text. Raises for sets, and for objects without a text form of their own: their
    text would differ between processes."""
    kind: Any = type(value)
    if isinstance(value, (set, frozenset)) or (kind.__str__, kind.__repr__) == (
        object.__str__,
        object.__repr__,
    ):
        rule = (
            "a column of a state must contain text, numbers, booleans, dates, or objects with "
            "their own __str__"
        )
        raise InputError("columns", rule, f"{name.removeprefix(COLUMN)!r} has {kind.__name__}")
    return str(value)


def labels_of(codes: np.ndarray, classes: tuple[Any, ...], ignore_label: Any = None) -> np.ndarray:
    """The class of each code. A code without a class becomes something that is not a class, and
    IGNORED the ignored label.

    >>> labels_of(np.array([1, -1, 0]), ("cat", "dog")), labels_of(np.array([1, 7]), (0, 1))
    (array(['dog', None, 'cat'], dtype=object), array([1, 7]))
    """
    if ignore_label is not None and (ignored := codes == IGNORED).any():
        labels = np.array(labels_of(np.where(ignored, -1, codes), classes), object)
        labels[ignored] = ignore_label
        return labels
    if classes == tuple(range(len(classes))) and not any(isinstance(c, bool) for c in classes):
        return codes
    inside = (codes >= 0) & (codes < len(classes))
    if inside.all() and len({type(c) for c in classes}) == 1:
        return np.array(classes)[codes]
    labels = np.empty(len(codes), object)
    labels[inside] = np.array([*classes, None], object)[:-1][codes[inside]]
    return labels


def _joint(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Empty arrays, of types that hold both. Raises unless the two have the same parts, of the same
    shape and kind."""
    if mine.keys() != theirs.keys():
        odd = sorted(mine.keys() ^ theirs.keys())[0].removeprefix(COLUMN)
        rule = "all rows of a state must have the same parts"
        raise InputError("rows", rule, f"some have no {odd!r}")
    form = {}
    for name, array in mine.items():
        other, kinds = theirs[name], {array.dtype.kind, theirs[name].dtype.kind}
        alike = kinds <= set("US") or "O" in kinds or not kinds & set("USMmV") or len(kinds) == 1
        if array.shape[1:] != other.shape[1:] or not alike:
            column = name.removeprefix(COLUMN)
            rule = f"{column!r} must have the same kind and shape in all rows of a state"
            raise InputError(
                "rows",
                rule,
                f"{other.dtype} {other.shape[1:]} after {array.dtype} {array.shape[1:]}",
            )
        form[name] = np.empty((0, *array.shape[1:]), np.result_type(array.dtype, other.dtype))
    return form
