"""Features of rows, as numbers and categories, and as one-byte codes for trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..data.arrays import as_array, named_columns, wrong_features
from ..data.predictions import Predictions
from ..data.work import each_chunk
from ..errors import InputError

CUTS = 255
SAMPLE = 20_000  # rows that determine the cuts of a feature
MOST_CATEGORIES = 100
PIECE = 2**20  # feature values converted at a time


@dataclass(frozen=True, eq=False)
class Features:
    """Features as a matrix with a name for each column.

    categories : the value of each indicator column.
    given_cuts : the cuts of the rows that these are read like, see `form`.
    """

    names: tuple[str, ...]
    values: np.ndarray
    categories: Mapping[int, Any] = field(default_factory=dict)
    given_cuts: np.ndarray | None = None

    @classmethod
    def of(cls, data: Any, rows: int, argument: str = "features") -> Features:
        """From a matrix (of any float or integer format), a data frame of any library, or a mapping
        of names to columns.

        >>> Features.of({"size": [1.5, 2.5], "colour": ["red", "blue"]}, 2).names
        ('size', 'colour')
        """
        columns = named_columns(data, argument)
        if columns is None:
            values = as_array(data, argument)
            if values.ndim != 2 or len(values) != rows or not values.shape[1]:
                raise wrong_features(argument, rows, values.shape)
            if values.dtype.kind in "fiu":
                return cls(tuple(f"f_{k}" for k in range(values.shape[1])), values)
            columns = {f"f_{k}": values[:, k] for k in range(values.shape[1])}
        names: list[str] = []
        parts: list[np.ndarray] = []
        categories: dict[int, Any] = {}
        for name, column in columns.items():
            if column.shape != (rows,):
                raise InputError(
                    argument,
                    f"column {name!r} must have one value per row ({rows})",
                    f"shape {column.shape}",
                )
            known = _category_values(column)
            for value in [None] if known is None else known:
                if known is not None:
                    categories[len(parts)] = value
                names.append(str(name))
                parts.append(column if known is None else column == value)
        if not parts:
            raise InputError(argument, "must have at least one column")
        wide = any(part.dtype.kind in "iu" or part.dtype.itemsize == 8 for part in parts)
        return cls(
            tuple(names),
            np.column_stack(parts).astype(np.float64 if wide else np.float32),
            categories,
        )

    @classmethod
    def none(cls, rows: int) -> Features:
        return cls((), np.empty((rows, 0), np.float32))

    @property
    def form(self) -> Features:
        """The names, categories and cuts without rows, to read other rows by."""
        return replace(self, values=self.values[:0].copy(), given_cuts=self.cuts)

    def read(self, data: Any, rows: int) -> Features:
        """Other rows with the same columns, categories and cuts."""
        if not self.names:
            return replace(self, values=np.empty((rows, 0), np.float32))
        columns = named_columns(data, "features")
        if columns is None:
            matrix = as_array(data, "features")
            if not self.categories:
                return replace(self, values=matrix)
            columns = dict(zip(dict.fromkeys(self.names), matrix.T, strict=True))
        values = np.empty((rows, len(self.names)), self.values.dtype)
        for k, name in enumerate(self.names):
            values[:, k] = (
                columns[name] == self.categories[k] if k in self.categories else columns[name]
            )
        return replace(self, values=values)

    @cached_property
    def cuts(self) -> np.ndarray:
        """Up to 255 quantiles of each feature, rising, then infinity; NaN counts as the largest
        value."""
        if self.given_cuts is not None:
            return self.given_cuts
        n, d = self.values.shape
        rows = (
            np.arange(n)
            if n <= SAMPLE
            else np.sort(np.random.default_rng(0).choice(n, SAMPLE, replace=False))
        )
        found = np.full((d, CUTS), np.inf, self._dtype)
        for k in range(d):
            known = np.sort(self.values[rows, k].astype(self._dtype))
            known = known[np.isfinite(known)]
            values = np.unique(known)
            if len(values) > CUTS + 1:
                values = np.unique(
                    np.r_[known[np.arange(1, CUTS + 1) * len(known) // (CUTS + 1)], known[-1]]
                )
            values = values[:-1]  # no row lies above the last
            found[k, : len(values)] = values
        return found

    @property
    def _dtype(self) -> Any:
        return (
            np.float64
            if self.values.dtype.kind in "iu" or self.values.dtype.itemsize == 8
            else np.float32
        )

    @cached_property
    def codes(self) -> np.ndarray:
        """Each value as the number of cuts below it, one byte."""
        from ..kernels.regions import code_rows

        codes, step = np.empty(self.values.shape, np.uint8), max(1, PIECE // self.values.shape[1])

        def fill(part: slice) -> None:
            for first in range(part.start, part.stop, step):
                piece = slice(first, min(first + step, part.stop))
                code_rows(
                    np.ascontiguousarray(self.values[piece], self._dtype), self.cuts, codes[piece]
                )

        each_chunk(codes, fill)
        return codes

    def bound(self, column: int, low: float, high: float) -> str:
        """The condition low < feature <= high, in words."""
        name = self.names[column]
        if column in self.categories:
            return f"{name} {'=' if low >= 0 else '!='} {self.categories[column]}"
        if not np.isfinite(low):
            return f"{name} <= {high:.3g}"
        return (
            f"{name} > {low:.3g}" if not np.isfinite(high) else f"{low:.3g} < {name} <= {high:.3g}"
        )


def _category_values(column: np.ndarray) -> list[Any] | None:
    """The values of a categorical column, the most frequent first; one value if there are two, as
    one indicator is enough; None for a column of numbers."""
    if column.dtype.kind in "fiu":
        return None
    counts: dict[Any, int] = {}
    for value in column.tolist():
        counts[value] = counts.get(value, 0) + 1
    ordered = sorted(counts, key=lambda value: (-counts[value], str(value)))
    return ordered[:1] if len(ordered) == 2 else ordered[:MOST_CATEGORIES]


def features_of(predictions: Predictions) -> Any:
    """The features that came with the rows, by name if they have names."""
    names, features = predictions.feature_names, predictions.features
    if names is None:
        return features
    columns = (
        features.T
        if features.dtype != object
        else (np.array(column.tolist()) for column in features.T)
    )
    return dict(zip(names, columns, strict=True))
