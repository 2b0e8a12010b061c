"""A finished state as plain numbers, from which every estimate is computed without the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..text import counted

if TYPE_CHECKING:
    from ..kernels.tallies import Tallies
    from .plan import Plan

PART_BITS = 62


def merge_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two arrays of pairs (see kernels.fixed_point), [..., 2m] as whole, part, whole,
    part; canonical again.

    >>> merge_pairs(np.array([1, 3 << 60]), np.array([2, 2 << 60])) == np.array([4, 1 << 60])
    array([ True,  True])
    """
    part = a[..., 1::2] + b[..., 1::2]
    total = np.empty_like(a)
    total[..., 0::2] = a[..., 0::2] + b[..., 0::2] + (part >> PART_BITS)
    total[..., 1::2] = part & (2**PART_BITS - 1)
    return total


def numbers(pairs: np.ndarray) -> np.ndarray:
    """The float64 value of each pair.

    >>> numbers(np.array([1, 1 << 61, -1, 0]))
    array([ 1.5, -1. ])
    """
    return pairs[..., 0::2] + np.ldexp(pairs[..., 1::2].astype(np.float64), -PART_BITS)


def pairs_of_groups(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Pairs of the sums of `values` in [0, 1] over consecutive groups that begin at `starts`."""
    ticks = np.rint(np.ldexp(values, PART_BITS)).astype(np.int64)
    high = np.add.reduceat(ticks >> 31, starts)
    low = np.add.reduceat(ticks & (2**31 - 1), starts)
    high += low >> 31
    return np.stack(
        [high >> (PART_BITS - 31), ((high & (2**31 - 1)) << 31) | (low & (2**31 - 1))], axis=-1
    )


@dataclass(frozen=True)
class ClassSums:
    """The number of rows of each true class, and sums over them of weights w and of a score s.
    Arrays [K]."""

    rows: np.ndarray
    weight: np.ndarray  # sum w
    weight_squared: np.ndarray  # sum w^2
    score: np.ndarray  # sum w s
    score_cross: np.ndarray  # sum w^2 s
    score_squared: np.ndarray  # sum w^2 s^2
    infinite: np.ndarray  # rows whose score is infinite; they are in no sum of s


@dataclass(frozen=True)
class Grid:
    """Sums over the rows of each of G equal cells of confidence in [0, 1]. Arrays [G]."""

    rows: np.ndarray
    weight: np.ndarray
    confidence: np.ndarray  # sum w conf
    hits: np.ndarray  # sum w [argmax is right]
    log: np.ndarray
    brier: np.ndarray
    infinite: np.ndarray
    hit_rows: np.ndarray


@dataclass(frozen=True)
class Decisions:
    """Sums of w and of w^2 over the rows of each (true class, decision) that occurred."""

    shape: tuple[int, int]
    true: np.ndarray
    decision: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    weight_squared: np.ndarray

    def matrix(self) -> np.ndarray:
        """The dense table of weights, [classes, decisions]."""
        table = np.zeros(self.shape)
        table[self.true, self.decision] = self.weight
        return table

    def cost(self, per_row: np.ndarray, classes: ClassSums) -> ClassSums:
        """Class sums of a cost, given the cost of each entry."""
        K = self.shape[0]

        def by_class(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.true, values, minlength=K)

        return ClassSums(
            classes.rows,
            classes.weight,
            classes.weight_squared,
            by_class(self.weight * per_row),
            by_class(self.weight_squared * per_row),
            by_class(self.weight_squared * per_row**2),
            np.zeros(K, np.int64),
        )


@dataclass(frozen=True)
class Summary:
    """The results of a pass. Weights are on the plan's scale, so only their ratios have a
    meaning."""

    plan: Plan
    rows: int
    bad: Mapping[str, int]
    log: ClassSums
    brier: ClassSums
    outputs: np.ndarray  # [K] sum w p_k over all rows
    ranks: np.ndarray  # [K] weight of rows whose true class has this rank, from 0
    argmax: Decisions
    reject: Decisions  # decision K is to reject
    costs: Mapping[str, Decisions]
    _cells: tuple[np.ndarray, np.ndarray] = field(repr=False)  # as in Tallies: cells, weight_cells
    ignored: int = 0  # rows with the ignored label, which are not bad

    @cached_property
    def grid(self) -> Grid:
        """Sums by confidence; computed when first used, as scores do not need it."""
        from .events import middles

        cells, weight_cells = self._cells
        rows, hit_rows, infinite = (column.copy() for column in cells[:, :3].T)
        offset, log, brier = numbers(cells[:, 3:]).T
        weight, hits = rows * 1.0, hit_rows * 1.0
        if self.plan.weighted:
            weight, hits = numbers(weight_cells).T
        return Grid(
            rows=rows,
            weight=weight,
            confidence=weight * middles(len(rows)) + offset,
            hits=hits,
            log=log,
            brier=brier,
            infinite=infinite,
            hit_rows=hit_rows,
        )

    @property
    def dropped(self) -> int:
        return sum(self.bad.values())

    @property
    def ignored_words(self) -> str:
        """The rows with the ignored label, for reports."""
        return f"{counted(self.ignored)} with label {self.plan.ignore_label!r}"

    def why_empty(self) -> str:
        """Why no row counted, for an error message."""
        broken = [
            f"{count:,} rows break the rule for the {rule}"
            for rule, count in self.bad.items()
            if count
        ]
        if self.ignored:
            broken.append(f"{self.ignored:,} rows have the ignored label")
        return ", ".join(broken) or "all weights are zero"

    @property
    def priors(self) -> np.ndarray:
        """The class frequencies, weighted."""
        return self.log.weight / self.log.weight.sum()


def summarise(
    plan: Plan,
    t: Tallies,
    sparse: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    cost_counts: Mapping[str, np.ndarray],
    cost_sums: Mapping[str, np.ndarray],
    bad: Mapping[str, int],
) -> Summary:
    """The summary of a state, given its arrays and the counts of decisions kept apart from them."""
    K = plan.n_classes
    both = _decisions(
        (K, 2 * K), *(_dense(t.decisions, t.weight_decisions) if sparse is None else sparse)
    )
    rejected = both.decision >= K
    argmax = _merge(
        Decisions((K, K), both.true, both.decision % K, both.rows, both.weight, both.weight_squared)
    )
    reject = _merge(
        Decisions(
            (K, K + 1),
            both.true,
            np.where(rejected, K, both.decision),
            both.rows,
            both.weight,
            both.weight_squared,
        )
    )
    rows = np.bincount(both.true, both.rows, minlength=K).astype(np.int64)
    sums = numbers(t.sums)
    if plan.weighted:
        weight, weight_squared, log_cross, brier_cross = numbers(t.weight_sums).T
    else:
        weight, weight_squared, log_cross, brier_cross = (
            rows * 1.0,
            rows * 1.0,
            sums[:, 0],
            sums[:, 2],
        )
    none = np.zeros(K, np.int64)
    return Summary(
        plan=plan,
        rows=int(rows.sum()),
        bad=bad,
        log=ClassSums(
            rows, weight, weight_squared, sums[:, 0], log_cross, sums[:, 1], t.infinite.copy()
        ),
        brier=ClassSums(rows, weight, weight_squared, sums[:, 2], brier_cross, sums[:, 3], none),
        outputs=numbers(t.outputs)[:, 0],
        ranks=_ranks(plan, t, argmax),
        argmax=argmax,
        reject=reject,
        costs={
            name: _decisions(counts.shape, *_dense(counts, cost_sums[name]))
            for name, counts in cost_counts.items()
        },
        _cells=(t.cells.copy(), t.weight_cells.copy()),
    )


def _dense(counts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes = np.flatnonzero(counts)
    return (
        codes,
        counts.reshape(-1)[codes],
        sums[codes] if len(sums) else np.empty((len(codes), 0), np.int64),
    )


def _decisions(
    shape: tuple[int, ...], codes: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> Decisions:
    K, M = shape
    weight, squared = numbers(sums).T if sums.shape[1] else (counts * 1.0, counts * 1.0)
    return Decisions((K, M), codes // M, codes % M, counts, weight, squared)


def _merge(d: Decisions) -> Decisions:
    """The same with the entries of equal (true class, decision) added up."""
    K, M = d.shape
    codes, place = np.unique(d.true * M + d.decision, return_inverse=True)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, values, minlength=len(codes))

    counts = total(d.rows).astype(np.int64)
    return Decisions(
        (K, M), codes // M, codes % M, counts, total(d.weight), total(d.weight_squared)
    )


def _ranks(plan: Plan, t: Tallies, argmax: Decisions) -> np.ndarray:
    if plan.n_classes == 2:  # kernels do not count the ranks of two classes
        hits = argmax.true == argmax.decision
        return np.array([argmax.weight[hits].sum(), argmax.weight[~hits].sum()])
    return numbers(t.weight_ranks)[:, 0] if plan.weighted else t.ranks * 1.0
