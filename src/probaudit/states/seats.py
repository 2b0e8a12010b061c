"""A sample of rows of which it is known beforehand which they are: each goes to its place at
once."""

from __future__ import annotations

import numpy as np

from .sampling import drawn

Arrays = dict[str, np.ndarray]


class Seats:
    """Places for those of the rows 0..rows-1 that a sample of a size holds.

    To gather parts in the end would take twice the memory, and memory that was never used is slow
    to come by.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.numbers = drawn(rows, size)
        self._taken = np.zeros(len(self.numbers), bool)
        self._arrays: Arrays = {}

    def inside(self, first: int, count: int) -> np.ndarray:
        """Which of `count` rows, numbered from `first` on, are of the sample; from 0, rising."""
        low, high = np.searchsorted(self.numbers, [first, first + count])
        return self.numbers[low:high] - first

    @property
    def all_taken(self) -> bool:
        return bool(self._taken.all())

    def room(self, name: str, numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
        """The places themselves of rows with these numbers, which follow upon each other. `like`
        has the form of a row."""
        # Threads may come at once: only one of their arrays is kept, and none that is in use is
        # ever replaced.
        whole = self._arrays.setdefault(
            name, np.empty((len(self.numbers), *like.shape[1:]), like.dtype)
        )
        first = int(np.searchsorted(self.numbers, numbers[0])) if len(numbers) else 0
        return whole[first : first + len(numbers)]

    def put(self, numbers: np.ndarray, part: Arrays, form: Arrays) -> None:
        """Rows with these numbers, all of the sample. `form` has the types of all rows so far."""
        place = np.searchsorted(self.numbers, numbers)
        for name, array in part.items():
            kind, known = form[name].dtype, self._arrays.get(name)
            if known is None:
                self._arrays[name] = np.empty((len(self.numbers), *array.shape[1:]), kind)
            elif known.dtype != kind:
                self._arrays[name] = known.astype(kind)
            if array.base is not self._arrays[name]:  # else it was put there at once (`room`)
                self._arrays[name][place] = array
        self._taken[place] = True

    def rows(self, form: Arrays) -> Arrays:
        """Those that have come, in the order of their numbers; arrays as in `form`, which are given
        back if none has come."""
        if not self._taken.any():
            return form
        whole = {
            name: self._arrays[name].astype(array.dtype, copy=False) for name, array in form.items()
        }
        return (
            whole if self.all_taken else {name: array[self._taken] for name, array in whole.items()}
        )
