"""Selections: which rows count (paper 3, Section 4.1). A selection looks at rows before the lens, or after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import as_array
from .errors import InputError
from .lenses import View


class Selection(ABC):
    """A choice of rows. `after_lens` says which outputs and labels it is shown."""

    after_lens = False

    @abstractmethod
    def mask(self, view: View) -> np.ndarray:
        """Which rows count."""

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
    """Rows whose output, as the lens shows it, lies in [low, high]."""

    low: float = 0.0
    high: float = 1.0
    after_lens = True

    def mask(self, view: View) -> np.ndarray:
        if view.outputs.ndim != 1:
            raise InputError("where", "OutputIn needs a lens that shows a single event")
        return (view.outputs >= self.low) & (view.outputs <= self.high)


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


def as_selection(where: Any) -> Selection:
    return where if isinstance(where, Selection) else Mask(where)
