"""Selections: which rows count (Kirchenbauer et al. 2022, Section 4.1). A selection sees rows
before the lens, or after it.

Selections compose: `a & b` keeps the rows of both, `a | b` those of either, `~a` all others. Each
part sees the rows where it looks: `LabelIs(2) & OutputIn(0.5, 1)` keeps rows of class 2 whose
output, as the lens shows it, is at least 0.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_array
from ..errors import InputError
from .lenses import View
from .partitions import SLACK


class Selection(ABC):
    """A choice of rows. `after_lens` says which outputs and labels it is shown."""

    after_lens = False

    @abstractmethod
    def mask(self, view: View) -> np.ndarray:
        """Which rows count."""

    def keeps(self, before: View, after: View) -> np.ndarray:
        """Which rows count, given what they are before and after the lens."""
        return self.mask(after if self.after_lens else before)

    def __and__(self, other: Selection) -> Selection:
        return Both(self, as_selection(other))

    def __or__(self, other: Selection) -> Selection:
        return Either(self, as_selection(other))

    def __invert__(self) -> Selection:
        return Others(self)

    def select(self, rows: np.ndarray, total: int) -> Selection:
        """The same selection when only some of all `total` rows are left."""
        return self


@dataclass(frozen=True)
class LabelIs(Selection):
    """Rows whose true class is this column (or one of these), before the lens."""

    index: int | tuple[int, ...]

    def mask(self, view: View) -> np.ndarray:
        return np.isin(view.labels, self.index)


@dataclass(frozen=True)
class PredictedIs(Selection):
    """Rows whose most probable class is this column (or one of these), before the lens."""

    index: int | tuple[int, ...]

    def mask(self, view: View) -> np.ndarray:
        return np.isin(view.outputs.argmax(axis=1), self.index)


@dataclass(frozen=True)
class OutputIn(Selection):
    """Rows whose output, as the lens shows it, lies in [low, high]; what is at an end is as in
    `EqualWidth`.

    index : of a lens that shows several outputs, which of them: its number, or "max" for the
        largest.

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

    def mask(self, view: View) -> np.ndarray:
        outputs = self._outputs(view.outputs)
        return np.asarray(
            (outputs >= self.low * (1 - SLACK)) & (outputs <= self.high * (1 + SLACK))
        )

    def _outputs(self, outputs: np.ndarray) -> np.ndarray:
        if outputs.ndim == 1:
            if self.index is not None:
                raise InputError(
                    "index", "is for a lens that shows several outputs", repr(self.index)
                )
            return outputs
        if self.index is None:
            rule = 'OutputIn needs index=, the number of an output or "max", for a lens that shows several'
            raise InputError("where", rule, f"{outputs.shape[1]} outputs")
        if self.index == "max":
            return np.asarray(outputs.max(axis=1))
        if not 0 <= int(self.index) < outputs.shape[1]:
            raise InputError(
                "index", f"must be an output of the lens, 0 to {outputs.shape[1] - 1}", self.index
            )
        return np.asarray(outputs[:, int(self.index)])


@dataclass(frozen=True, eq=False)
class Mask(Selection):
    """Rows marked true."""

    values: Any

    def mask(self, view: View) -> np.ndarray:
        return self._checked(len(view.labels))

    def select(self, rows: np.ndarray, total: int) -> Selection:
        return Mask(self._checked(total)[rows])

    def _checked(self, total: int) -> np.ndarray:
        values = as_array(self.values, "where")
        if values.dtype.kind != "b" or values.shape != (total,):
            rule = f"a mask needs one boolean per row ({total})"
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
    """Rows that one of two selections keeps, or both."""

    def keeps(self, before: View, after: View) -> np.ndarray:
        return self.first.keeps(before, after) | self.second.keeps(before, after)

    def __repr__(self) -> str:
        return f"({self.first!r} | {self.second!r})"


@dataclass(frozen=True, repr=False)
class Others(Selection):
    """Rows that a selection does not keep."""

    chosen: Selection

    @property
    def after_lens(self) -> bool:  # type: ignore[override]
        return self.chosen.after_lens

    def mask(self, view: View) -> np.ndarray:
        return ~self.chosen.mask(view)

    def keeps(self, before: View, after: View) -> np.ndarray:
        return ~self.chosen.keeps(before, after)

    def select(self, rows: np.ndarray, total: int) -> Selection:
        return Others(self.chosen.select(rows, total))

    def __repr__(self) -> str:
        return f"~{self.chosen!r}"


def as_selection(where: Any) -> Selection:
    return where if isinstance(where, Selection) else Mask(where)
