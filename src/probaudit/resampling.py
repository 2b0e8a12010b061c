"""Drawing rows again, for intervals of errors that are sums over cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .arrays import as_array
from .errors import InputError
from .estimates.cells import Categories, Cells
from .estimates.intervals import Method, Statistic, bootstrap, sampling_units, unit_table


@dataclass(frozen=True)
class Term:
    """One or more of the errors whose weighted sum is asked for: their cells, and how to draw the rows of each again."""

    cells: Cells
    share: float
    categories: tuple[Callable[[], Categories], ...]
    rows: np.ndarray | None = None  # the places of its rows
    total: int = 0
    grid_cells: int = 0


@dataclass(frozen=True)
class Bootstrap:
    """How an interval is found: by which method, from how many resamples, and whether rows are drawn in groups."""

    method: Method
    groups: np.ndarray | None
    resamples: int
    seed: int
    bias_removed: int = 0

    @classmethod
    def of(cls, method: Any, groups: Any, resamples: int, seed: int, *, bias_removed: int = 0) -> Bootstrap | None:
        if method is None:
            if groups is not None:
                raise InputError("groups", 'needs interval="percentile" or "bca"')
            return None
        if method not in ("percentile", "bca"):
            raise InputError("interval", 'must be "percentile" or "bca"', repr(method))
        if resamples < 1:
            raise InputError("resamples", "must be at least 1", resamples)
        return cls(method, None if groups is None else as_array(groups, "groups"), resamples, seed, bias_removed)

    def interval(self, value: float, terms: Sequence[Term], error: Callable[[Cells], np.ndarray]) -> tuple[float, float]:
        """For the sum of share x error over terms. One term is drawn by categories of rows; those of several hang together, so
        that units of rows are drawn."""

        def errors(categories: Categories, counts: np.ndarray) -> np.ndarray:
            return np.concatenate([np.atleast_1d(error(cells)) for cells in categories.resampled(counts)])

        parts = [(term, make, term.share / len(term.categories)) for term in terms for make in term.categories]
        if len(parts) == 1 and self.groups is None:
            categories = parts[0][1]()
            return self._found(value, categories.counts, partial(errors, categories))
        if any(term.rows is None for term in terms):
            raise InputError("exact", "must be True for an interval of several events, or by groups")
        units = self.units(terms[0].total)
        size = int(units.max()) + 1

        def statistic(counts: np.ndarray) -> np.ndarray:
            total = np.zeros(len(counts))
            for term, make, share in parts:
                categories = make()
                table = unit_table(units[term.rows], categories.of_row, size, len(categories.counts))
                total += share * errors(categories, counts @ table)
            return total

        return self._found(value, np.ones(size), statistic)

    def units(self, total: int) -> np.ndarray:
        """The unit of each of all rows."""
        if self.groups is not None and self.groups.shape != (total,):
            raise InputError("groups", f"needs one value per row ({total})", f"has shape {self.groups.shape}")
        return sampling_units(total, self.seed, self.groups)

    def _found(self, value: float, counts: np.ndarray, statistic: Statistic) -> tuple[float, float]:
        return bootstrap(
            value,
            counts,
            statistic,
            method=self.method,
            resamples=self.resamples,
            seed=self.seed,
            bias_removed=self.bias_removed,
        )
