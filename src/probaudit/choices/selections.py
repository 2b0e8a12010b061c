"""Selections: which rows are used (Kirchenbauer et al. 2022, Section 4.1).

A selection is applied before or after the lens. Selections compose: `a & b` keeps the rows of both,
`a | b` those of either, `~a` all others. Each part is applied at its own place:
`LabelIs(2) & OutputIn(0.5, 1)` keeps rows of class 2 whose output after the lens is at least 0.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_array
from ..data.row_index import index_of
from ..errors import InputError
from .lenses import View
from .partitions import SLACK


class Selection(ABC):
    """Base class of selections. A subclass implements `mask`, and `words` for reports. With
    `after_lens`, the mask is computed from the outputs of the lens."""

    after_lens = False

    @abstractmethod
    def mask(self, view: View) -> np.ndarray:
        """Which rows are kept."""

    def keeps(self, before: View, after: View) -> np.ndarray:
        """Which rows are kept, given their views before and after the lens."""
        return self.mask(after if self.after_lens else before)

    def words(self) -> str:
        """A plain-English description; the code of the selection unless a subclass has one."""
        return repr(self)

    def __and__(self, other: Selection) -> Selection:
        return Both(self, as_selection(other))

    def __or__(self, other: Selection) -> Selection:
        return Either(self, as_selection(other))

    def __invert__(self) -> Selection:
        return Complement(self)

    def select(self, rows: np.ndarray, total: int) -> Selection:
        """The same selection for a subset of all `total` rows."""
        return self


def _columns(index: int | tuple[int, ...]) -> str:
    """
    >>> _columns(2), _columns((0, 3))
    ('column 2', 'columns 0, 3')
    """
    if isinstance(index, tuple):
        return f"columns {', '.join(map(str, index))}"
    return f"column {index}"


@dataclass(frozen=True)
class LabelIs(Selection):
    """Rows whose true class is this column (or one of these), before the lens."""

    index: int | tuple[int, ...]

    def words(self) -> str:
        return f"true class in {_columns(self.index)}"

    def mask(self, view: View) -> np.ndarray:
        return np.isin(view.labels, self.index)


@dataclass(frozen=True)
class PredictedIs(Selection):
    """Rows whose most probable class is this column (or one of these), before the lens."""

    index: int | tuple[int, ...]

    def words(self) -> str:
        return f"most probable class in {_columns(self.index)}"

    def mask(self, view: View) -> np.ndarray:
        return np.isin(view.outputs.argmax(axis=1), self.index)


@dataclass(frozen=True)
class OutputIn(Selection):
    """Rows whose output after the lens lies in [low, high]. Outputs at an end are treated as in
    `EqualWidth`.

    index : which output, for a lens with several: its number, or "max" for the largest.

    >>> view = View(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([0, 0]))
    >>> OutputIn(0.5, 0.7, index="max").mask(view)
    array([False,  True])
    """

    low: float = 0.0
    high: float = 1.0
    index: int | str | None = None
    after_lens = True

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InputError("low", "must be at most `high`", (self.low, self.high))
        if isinstance(self.index, str) and self.index != "max":
            raise InputError("index", 'must be the number of an output, or "max"', repr(self.index))

    def words(self) -> str:
        which = "" if self.index is None else " " + str(self.index)
        which = "largest output" if self.index == "max" else "output" + which
        return f"{which} from {self.low:g} to {self.high:g}"

    def mask(self, view: View) -> np.ndarray:
        outputs = self._selected_outputs(view.outputs)
        return np.asarray(
            (outputs >= self.low * (1 - SLACK)) & (outputs <= self.high * (1 + SLACK))
        )

    def _selected_outputs(self, outputs: np.ndarray) -> np.ndarray:
        if outputs.ndim == 1:
            if self.index is not None:
                raise InputError(
                    "index", "applies to lenses with several outputs only", repr(self.index)
                )
            return outputs
        if self.index is None:
            raise InputError(
                "where",
                "OutputIn requires `index` for a lens with several outputs",
                f"{outputs.shape[1]} outputs",
                way_out=('set `index` to an output number or "max"',),
            )
        if self.index == "max":
            return np.asarray(outputs.max(axis=1))
        if not 0 <= int(self.index) < outputs.shape[1]:
            raise InputError(
                "index", f"must be an output of the lens, 0 to {outputs.shape[1] - 1}", self.index
            )
        return np.asarray(outputs[:, int(self.index)])


@dataclass(frozen=True, eq=False)
class Mask(Selection):
    """Rows marked True, one boolean per row."""

    values: Any

    @property
    def index(self) -> Any:
        """That of pandas, if the values have one."""
        return index_of(self.values)

    def words(self) -> str:
        return "given rows"

    def mask(self, view: View) -> np.ndarray:
        return self._validated(len(view.labels))

    def select(self, rows: np.ndarray, total: int) -> Selection:
        return Mask(self._validated(total)[rows])

    def _validated(self, total: int) -> np.ndarray:
        values = as_array(self.values, "where")
        if values.dtype.kind != "b" or values.shape != (total,):
            rule = f"a mask must have one boolean per row ({total})"
            raise InputError("where", rule, f"{values.dtype} of shape {values.shape}")
        return values


@dataclass(frozen=True, repr=False)
class Both(Selection):
    """Rows that two selections keep."""

    first: Selection
    second: Selection

    @property
    def after_lens(self) -> bool:  # type: ignore[override]
        return self.first.after_lens or self.second.after_lens

    def words(self) -> str:
        return f"({self.first.words()} and {self.second.words()})"

    def mask(self, view: View) -> np.ndarray:
        return self.keeps(view, view)

    def keeps(self, before: View, after: View) -> np.ndarray:
        return self.first.keeps(before, after) & self.second.keeps(before, after)

    def select(self, rows: np.ndarray, total: int) -> Selection:
        return type(self)(self.first.select(rows, total), self.second.select(rows, total))

    def __repr__(self) -> str:
        return f"({self.first!r} & {self.second!r})"


@dataclass(frozen=True, repr=False)
class Either(Both):
    """Rows that at least one of two selections keeps."""

    def words(self) -> str:
        return f"({self.first.words()} or {self.second.words()})"

    def keeps(self, before: View, after: View) -> np.ndarray:
        return self.first.keeps(before, after) | self.second.keeps(before, after)

    def __repr__(self) -> str:
        return f"({self.first!r} | {self.second!r})"


@dataclass(frozen=True, repr=False)
class Complement(Selection):
    """Rows that a selection does not keep."""

    chosen: Selection

    @property
    def after_lens(self) -> bool:  # type: ignore[override]
        return self.chosen.after_lens

    def words(self) -> str:
        return f"not {self.chosen.words()}"

    def mask(self, view: View) -> np.ndarray:
        return ~self.chosen.mask(view)

    def keeps(self, before: View, after: View) -> np.ndarray:
        return ~self.chosen.keeps(before, after)

    def select(self, rows: np.ndarray, total: int) -> Selection:
        return Complement(self.chosen.select(rows, total))

    def __repr__(self) -> str:
        return f"~{self.chosen!r}"


def as_selection(where: Any) -> Selection:
    return where if isinstance(where, Selection) else Mask(where)
