"""A finished state as plain numbers, from which every estimate is computed without another look at
the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .events import middles
from .exact import numbers

if TYPE_CHECKING:
    from ..kernels.tallies import Tallies
    from .state import Plan


@dataclass(frozen=True)
class ClassSums:
    """For the rows of each true class: how many, and sums over them of weights w and of a score s.
    Arrays [K]."""

    rows: np.ndarray
    weight: np.ndarray  # sum w
    weight_squared: np.ndarray  # sum w^2
    score: np.ndarray  # sum w s
    score_cross: np.ndarray  # sum w^2 s
    score_squared: np.ndarray  # sum w^2 s^2
    infinite: np.ndarray  # rows whose score is infinite; they enter no sum of s


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
    """All that a pass found out. Weights are on the plan's scale, so only ratios of them mean
    anything."""

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
    grid: Grid

    @property
    def dropped(self) -> int:
        return sum(self.bad.values())

    def why_empty(self) -> str:
        """Why no row counted, in words."""
        broken = [
            f"{count:,} rows break the rule for the {rule}"
            for rule, count in self.bad.items()
            if count
        ]
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
        grid=_grid(plan, t),
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
    """The same with entries of equal place added up."""
    K, M = d.shape
    codes, place = np.unique(d.true * M + d.decision, return_inverse=True)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, values, minlength=len(codes))

    counts = total(d.rows).astype(np.int64)
    return Decisions(
        (K, M), codes // M, codes % M, counts, total(d.weight), total(d.weight_squared)
    )


def _ranks(plan: Plan, t: Tallies, argmax: Decisions) -> np.ndarray:
    if plan.n_classes == 2:  # two classes need no count of their own
        hits = argmax.true == argmax.decision
        return np.array([argmax.weight[hits].sum(), argmax.weight[~hits].sum()])
    return numbers(t.weight_ranks)[:, 0] if plan.weighted else t.ranks * 1.0


def _grid(plan: Plan, t: Tallies) -> Grid:
    rows, hits, infinite = t.cells[:, :3].T
    offset, log, brier = numbers(t.cells[:, 3:]).T
    weight, hit = numbers(t.weight_cells).T if plan.weighted else (rows * 1.0, hits * 1.0)
    middle = middles(len(rows))
    return Grid(
        rows.copy(), weight, weight * middle + offset, hit, log, brier, infinite.copy(), hits.copy()
    )
