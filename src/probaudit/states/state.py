"""The mergeable state of a pass: empty, update, merge, finalise.

Everything in it is an integer, so `a + b == b + a`, `empty + a == a`, and any cutting of the rows
into blocks gives the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import bits_of
from ..data.predictions import Block, Kind, OnBadRows, Predictions
from ..errors import InputError
from .bad_rows import RULES, explain
from .decisions import DENSE_CLASSES, SparseCounts
from .event_grids import EventGrids
from .events import CELLS
from .exact import numbers
from .summary import Summary, summarise

if TYPE_CHECKING:
    from ..kernels.tallies import Tallies

# The arrays of a state that hold pairs, and how many plain columns come before these.
PLAIN_COLUMNS = {
    "sums": 0,
    "outputs": 0,
    "cells": 3,
    "weight_ranks": 0,
    "weight_decisions": 0,
    "weight_sums": 0,
    "weight_cells": 0,
    "class_cells": 2,
}
SETTLING = threading.Lock()  # not of the state itself, which may be copied and sent
CALL_VALUES = 2**20  # values that are turned from columns into rows at a time

FEW_CLASSES = 32  # for which loops over the rows of a tile are the faster ones (kernels.narrow)
# whose ticks in a row have room in a word (kernels.wide_columns)
MANY_CLASSES = range(FEW_CLASSES + 1, 2**11)

SPARSE = ("sparse.codes", "sparse.counts", "sparse.sums")

KINDS: dict[Kind, int] = {"probabilities": 0, "pairs": 1, "logits": 2, "log_probabilities": 3}


@dataclass(frozen=True, eq=False)
class Plan:
    """What a pass computes. States of equal plans can be merged.

    weight_exponent : weights are divided by 2^weight_exponent, a power of two not below any of
        them, so that sums keep the same bits behind the point whatever the scale of the weights;
        None without weights. A weight below 2^-58 of the largest is lost in the sums.
    """

    classes: tuple[Any, ...]
    kind: Kind = "probabilities"
    weight_exponent: int | None = None
    reject_cost: float = 0.1
    tolerance: float = 1e-5
    on_bad_rows: OnBadRows = "error"
    costs: Mapping[str, Cost] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Predictions, costs: Mapping[str, Cost] | None = None, reject_cost: float = 0.1
    ) -> Plan:
        """The plan for these rows: their classes, kind, tolerance and scale of weights."""
        if not 0 <= reject_cost < 1:
            raise InputError(
                "reject_cost", "must lie in [0, 1): the cost of an error is 1", reject_cost
            )
        for cost in (costs or {}).values():
            if rows.pairs:
                raise InputError(
                    "costs", "need probabilities of all classes, not confidence and correctness"
                )
            cost.check_classes(rows.n_classes)
        return cls(
            classes=rows.class_order,
            kind=rows.kind,
            weight_exponent=None
            if rows.sample_weight is None
            else weight_exponent(rows.sample_weight),
            reject_cost=float(reject_cost),
            tolerance=rows.row_tolerance,
            on_bad_rows=rows.on_bad_rows,
            costs=dict(costs or {}),
            names=rows.names,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._choices() == other._choices()

    def __hash__(self) -> int:
        return hash(self._choices())

    def _choices(self) -> tuple[object, ...]:
        """All but the names; matrices of costs by their values, classes by type too, for 1 ==
        True."""
        classes = tuple((type(c), c) for c in self.classes)
        costs = tuple(
            (name, cost.matrix.shape, cost.matrix.tobytes())
            for name, cost in sorted(self.costs.items())
        )
        return (
            classes,
            self.kind,
            self.weight_exponent,
            self.reject_cost,
            self.tolerance,
            self.on_bad_rows,
            costs,
        )

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def weighted(self) -> bool:
        return self.weight_exponent is not None

    def scaled(self, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights on the plan's scale, at most 1."""
        if (weights is None) != (self.weight_exponent is None):
            raise InputError("sample_weight", "all blocks of a state must have weights, or none")
        if weights is None or self.weight_exponent is None:
            return None
        with np.errstate(over="ignore"):  # a negative weight may overflow; the kernel refuses it
            scaled = np.ldexp(weights, -self.weight_exponent)
        above = np.flatnonzero((scaled > 1) & (scaled < np.inf))
        if len(above):
            rule = f"must not exceed the 2^{self.weight_exponent} that the state was planned for"
            raise InputError("sample_weight", rule, weights[above[0]])
        return scaled


def rows_of(block: Block, part: slice, room: np.ndarray | None = None) -> np.ndarray:
    """The values of some rows of a block, in memory row by row; in a room, if it has the right
    form."""
    if not block.by_column:
        return block.values[part]
    from ..kernels.transposing import rows_of_columns

    columns, shape = block.values, (len(block.labels[part]), block.values.shape[1])
    fits = (
        room is not None
        and room.dtype == columns.dtype
        and shape[0] <= len(room)
        and shape[1] == room.shape[1]
    )
    rows = room[: shape[0]] if fits and room is not None else np.empty(shape, columns.dtype)
    rows_of_columns(columns.addresses, part.start, rows)
    return rows


def weight_exponent(weights: np.ndarray) -> int:
    """The least e with every finite weight <= 2^e.

    >>> weight_exponent(np.array([0.0, 3.0, 4.0]))
    2
    """
    largest = float(np.max(weights, initial=0.0, where=np.isfinite(weights)))
    mantissa, exponent = np.frexp(largest)
    return int(exponent) - (1 if mantissa == 0.5 else 0)


class Statistics:
    """Counts and exact sums over rows. `update` adds a block, `merge` (or +) another state,
    `finalise` reads it."""

    def __init__(self, plan: Plan, *, class_cells: bool = False) -> None:
        """class_cells : whether each of two classes gets a grid over its own probability; only for
        rows without weights."""
        # numba is loaded when the first pass starts
        from ..kernels.tallies import Tallies, new_running

        def zeros(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.int64)

        K, weighted = plan.n_classes, plan.weighted
        dense = K if K <= DENSE_CLASSES else 0
        self.plan, self._class_cells = plan, class_cells
        self._settled: Tallies = Tallies(
            ranks=zeros(K),
            infinite=zeros(K),
            decisions=zeros(dense, 2 * dense),
            sums=zeros(K, 8),
            outputs=zeros(K, 2),
            cells=zeros(CELLS, 9),
            weight_ranks=zeros(K if weighted else 0, 2),
            weight_decisions=zeros(2 * dense * dense if weighted else 0, 4),
            weight_sums=zeros(K if weighted else 0, 8),
            weight_cells=zeros(CELLS if weighted else 0, 4),
            class_cells=zeros(2 * CELLS if class_cells else 0, 4),
        )
        self._room: np.ndarray | None = None
        self._running, self._waiting = new_running(K, 2 * CELLS if class_cells else CELLS), 0
        self._sparse = None if dense else SparseCounts(weighted)
        self._costs = {name: zeros(*cost.matrix.shape) for name, cost in plan.costs.items()}
        self._weight_costs = {
            name: zeros(cost.matrix.size if weighted else 0, 4) for name, cost in plan.costs.items()
        }
        self._bad = zeros(len(RULES) + 1)

    @property
    def _tallies(self) -> Tallies:
        """The arrays, with the sums of all rows in them."""
        from ..kernels.tallies import flush_cells

        if self._waiting:
            with SETTLING:  # to read a state must be safe from several threads
                if self._waiting:
                    flush_cells(self._running, self._settled)
                    self._waiting = 0
        return self._settled

    @classmethod
    def empty(cls, plan: Plan) -> Statistics:
        return cls(plan)

    def update(self, block: Block) -> Statistics:
        """Add the rows of a block. Unless bad rows are dropped, a block that has one raises and
        adds nothing."""
        self.add(block)
        return self

    def add(
        self, block: Block, events: EventGrids | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """As update; gives 0 for each good row, else 1 + the index in RULES of the rule it breaks;
        and, where the pass knows, the most probable class of each row that counted.

        events : grids to which the same look at the rows adds them, if it `sees_events`; it also
            copies what is to be `copied`.
        """
        weights = self.plan.scaled(block.weights)
        if block.copied is not None and not self.sees_events(block):
            block.copied[1][...] = block.values[block.copied[0]]
        status, codes = self._score(block, weights, events)
        if status.any():
            self._set_bad_apart(block, weights, status, events)
        if self._sparse is not None:
            counted = status == 0 if weights is None else (status == 0) & (weights > 0)
            self._sparse.add(codes, None if weights is None else weights[counted])
        self._decide(block, weights, status)
        return status, None if self._sparse is None else codes % (
            2 * self.plan.n_classes
        ) % self.plan.n_classes

    def sees_events(self, block: Block) -> bool:
        """Whether one look at a block tells of events, too: probabilities of many classes, in
        columns, without weights."""
        plain = self.plan.kind == "probabilities" and not self.plan.weighted
        return block.by_column and plain and self.plan.n_classes in MANY_CLASSES

    def _set_bad_apart(
        self,
        block: Block,
        weights: np.ndarray | None,
        status: np.ndarray,
        events: EventGrids | None = None,
    ) -> None:
        """Count bad rows by the rule they break; or take the block's good rows out again and
        raise."""
        if self.plan.on_bad_rows == "error":
            fresh, fresh_events = (
                Statistics(self.plan, class_cells=self._class_cells),
                None if events is None else events.like(),
            )
            fresh._score(block, weights, fresh_events)
            self._merge_tallies(fresh._tallies, -1)
            if events is not None and fresh_events is not None:
                events.merge(fresh_events, -1)
            first = int(np.flatnonzero(status)[0])
            raise explain(self.plan, block, first, int(status[first]))
        counts = np.bincount(status, minlength=len(RULES) + 1)
        self._bad[1:] += counts[1:]

    def status(self, block: Block) -> np.ndarray:
        """0 for each good row of a block, else 1 + the index in RULES of the rule it breaks; adds
        nothing."""
        return Statistics(self.plan)._score(block, self.plan.scaled(block.weights))[0]

    def _score(
        self, block: Block, weights: np.ndarray | None, events: EventGrids | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the fused kernels; the status of each row, and the decision codes if these are kept
        apart."""
        from ..kernels import narrow, wide, wide_columns
        from ..kernels.tallies import CALL

        K, kind = self.plan.n_classes, KINDS[self.plan.kind]
        status = np.zeros(len(block.values), np.int8)
        codes = []
        rows, addresses, like = block.arrays
        sees_events = self.sees_events(block)
        turned = block.by_column and K > FEW_CLASSES and not sees_events  # into rows
        call = max(1, CALL_VALUES // K) if turned else CALL
        for first in range(0, len(status), call):
            part = slice(first, first + call)
            labels = block.labels[part]
            t = self._tallies if self._waiting + len(labels) > CALL else self._settled
            self._waiting += len(labels)
            w = None if weights is None else weights[part]
            code = np.empty(0 if self._sparse is None else len(labels), np.int64)
            sums = (
                labels,
                w,
                t,
                self._running,
                status[part],
                code,
                kind,
                self.plan.tolerance,
                self.plan.reject_cost,
            )
            if K <= FEW_CLASSES:
                score: Any = narrow.narrow_logits if kind >= 2 else narrow.narrow_probabilities
                counted = score(None if rows is None else rows[part], addresses, like, first, *sums)
            elif sees_events:
                seen, copied = (
                    events or EventGrids(0, []),
                    block.copied or (np.empty(0, np.int64), like),
                )
                most = self._largest(like).view(f"u{like.itemsize}")
                counted = wide_columns.wide_columns(
                    addresses, like, first, *sums, most, seen.grids, seen.words, *copied
                )
            else:
                values = rows_of(block, part, self._room)
                if turned and len(values) == call:
                    # to be used again: new pages of memory would cost as much as to fill them
                    self._room = values
                scale = 2.0 ** min(50, 61 - K.bit_length())
                if kind >= 2:
                    counted = wide.wide_logits(values, *sums, scale)
                else:
                    counted = wide.wide_probabilities(
                        values, bits_of(values), *sums, self._largest(values), scale
                    )
            codes.append(code[:counted])
        return status, np.concatenate(codes) if codes else np.empty(0, np.int64)

    def _largest(self, values: np.ndarray) -> np.ndarray:
        """The bits of the largest probability that is let pass, of the type of some values."""
        return bits_of(np.array([1 + self.plan.tolerance], values.dtype))

    def _decide(self, block: Block, weights: np.ndarray | None, status: np.ndarray) -> None:
        if not self.plan.costs:
            return
        from ..kernels.deciding import decide

        kind = KINDS[self.plan.kind]
        values, labels = (
            np.ascontiguousarray(block.values),
            block.labels.astype(np.int64, copy=False),
        )
        for name, cost in self.plan.costs.items():
            counts, sums = self._costs[name], self._weight_costs[name]
            decide(values, labels, weights, status, kind, cost.matrix, counts, sums)

    def merge(self, other: Statistics) -> Statistics:
        """Add another state to this one."""
        if self.plan != other.plan:
            raise InputError("other", "states can be merged only when their plans are equal")
        from ..kernels.merging import merge

        self._merge_tallies(other._tallies, 1)
        for name in self.plan.costs:
            self._costs[name] += other._costs[name]
            if self.plan.weighted:
                merge(self._weight_costs[name], other._weight_costs[name], 0, 1)
        if self._sparse is not None and other._sparse is not None:
            self._sparse.merge(other._sparse)
        self._bad += other._bad
        return self

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.plan, class_cells=self._class_cells).merge(self).merge(other)

    def _merge_tallies(self, other: Tallies, sign: int) -> None:
        from ..kernels.merging import merge

        for name, mine in self._tallies._asdict().items():
            theirs = getattr(other, name)
            if mine.size and name in PLAIN_COLUMNS:
                merge(mine, theirs, PLAIN_COLUMNS[name], sign)
            elif mine.size:
                mine += sign * theirs

    def to_bytes(self) -> bytes:
        """Every number of the state except `class_cells`. Equal rows give equal bytes, for any
        division into blocks, any order and any merge tree."""
        arrays = [
            *self._tallies[:-1],
            self._bad,
            *self._costs.values(),
            *self._weight_costs.values(),
        ]
        if self._sparse is not None:
            arrays += self._sparse.settle()
        return b"".join(array.tobytes() for array in arrays)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number of the state, by name."""
        found = dict(self._tallies._asdict()) | {"bad": self._bad}
        for name in self._costs:
            found |= {
                f"costs.{name}": self._costs[name],
                f"weight_costs.{name}": self._weight_costs[name],
            }
        if self._sparse is not None:
            found |= dict(zip(SPARSE, self._sparse.settle(), strict=True))
        return found

    def restore(self, stored: Mapping[str, np.ndarray]) -> None:
        """Take the numbers of a state of the same plan that was stored."""
        if self._sparse is not None:
            self._sparse.restore(*(stored[name] for name in SPARSE))
        for name, array in self.arrays().items():
            if name not in SPARSE:
                array[...] = stored[name]

    @property
    def class_cells(self) -> np.ndarray:
        """For each of two classes, if asked for: rows, hits, and the pair of the sum of p - middle,
        [2, G, 4]."""
        return self._tallies.class_cells.reshape(2, -1, 4)

    def mean_outputs(self) -> np.ndarray:
        """The weighted mean of each class's probability, [K], without finalising the rest."""
        t = self._tallies
        weight = numbers(t.weight_sums)[:, 0].sum() if self.plan.weighted else t.cells[:, 0].sum()
        return np.asarray(numbers(t.outputs)[:, 0] / weight)

    def finalise(self) -> Summary:
        """The state as plain numbers."""
        sparse = None if self._sparse is None else self._sparse.settle()
        bad = dict(zip(RULES, self._bad[1:].tolist(), strict=True))
        return summarise(self.plan, self._tallies, sparse, self._costs, self._weight_costs, bad)
