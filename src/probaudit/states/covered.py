"""The row numbers that a state contains, as intervals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from ..errors import Argument, InputError


class Covered:
    """Disjoint intervals [first, end) of row numbers; adjacent ones are joined.

    >>> Covered([(0, 10), (20, 30)]).add(10, 20)
    Covered([(0, 30)])
    """

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        for first, end in intervals:
            self.add(first, end)

    def add(self, first: int, end: int) -> Covered:
        """Add rows. Raises if one of them is present already."""
        if first == end:
            return self
        self.check(first, end)
        place = bisect_left(self._firsts, first)
        before = place > 0 and self._ends[place - 1] == first
        after = place < len(self._firsts) and self._firsts[place] == end
        if before and after:
            self._ends[place - 1] = self._ends.pop(place)
            del self._firsts[place]
        elif before:
            self._ends[place - 1] = end
        elif after:
            self._firsts[place] = first
        else:
            self._firsts.insert(place, first)
            self._ends.insert(place, end)
        return self

    def check(self, first: int, end: int) -> None:
        """Raise if one of these rows is present already."""
        if not 0 <= first <= end < 2**63:
            raise InputError("start", "row numbers must lie between 0 and 2^63", first)
        place = bisect_left(self._ends, first + 1)
        if first < end and place < len(self._firsts) and self._firsts[place] < end:
            twice = max(first, self._firsts[place]), min(end, self._ends[place]) - 1
            raise InputError(
                "start",
                "no row may be counted twice",
                f"rows {twice[0]} to {twice[1]} are in the state already",
                way_out=("pass the number of the first row of each part as ", Argument("start")),
            )

    def check_apart(self, other: Covered) -> None:
        """Raise if the two share a row."""
        few, many = sorted((self, other), key=lambda covered: len(covered._firsts))
        for first, end in few:
            many.check(first, end)

    def gaps(self, first: int, end: int) -> list[tuple[int, int]]:
        """The missing rows from `first` to `end`, as intervals.

        >>> Covered([(2, 5), (8, 9)]).gaps(0, 10)
        [(0, 2), (5, 8), (9, 10)]
        """
        missing, at = [], first
        for low, high in zip(self._firsts, self._ends, strict=True):
            if low >= end:
                break
            if low > at:
                missing.append((at, low))
            at = max(at, high)
        return [*missing, (at, end)] if at < end else missing

    @property
    def end(self) -> int:
        """The number after the last row."""
        return self._ends[-1] if self._ends else 0

    @property
    def rows(self) -> int:
        return sum(self._ends) - sum(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._firsts, self._ends, strict=True)))

    def __repr__(self) -> str:
        return f"Covered({list(self)})"
