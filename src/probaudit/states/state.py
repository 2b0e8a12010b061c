"""The mergeable state of a pass: empty, update, merge, finalise.

Everything in it is an integer, so `a + b == b + a`, `empty + a == a`, and any division of the rows
into blocks gives the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import bits_of
from ..data.predictions import Block, Kind
from ..errors import InputError
from .bad_rows import RULES, broken_rules, explain
from .decisions import DENSE_CLASSES, SparseCounts
from .event_grids import EventGrids
from .events import CELLS
from .plan import Plan
from .summary import Summary, numbers, summarise

if TYPE_CHECKING:
    from ..kernels.rules import InputRows, Options
    from ..kernels.tallies import Tallies, Target

# The arrays of a state that contain pairs, and how many plain columns come before these.
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
SETTLING = threading.Lock()  # not an attribute of states, which may be copied and pickled
CALL_VALUES = 2**20  # values that are turned from columns into rows at a time

FEW_CLASSES = 32  # up to here loops over the rows of a tile are faster (kernels.narrow)
# numbers of classes for which the ticks of a row fit into a word (kernels.wide_columns)
MANY_CLASSES = range(FEW_CLASSES + 1, 2**11)

SPARSE = ("sparse.codes", "sparse.counts", "sparse.sums")

KINDS: dict[Kind, int] = {"probabilities": 0, "pairs": 1, "logits": 2, "log_probabilities": 3}


def rows_of(block: Block, part: slice, room: np.ndarray | None = None) -> np.ndarray:
    """The values of some rows of a block, in memory row by row; in `room`, if it has the right type
    and shape."""
    if not block.by_column:
        return block.values[part]
    from ..kernels.vectors import rows_of_columns

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


class Statistics:
    """Counts and exact sums over rows. `update` adds a block, `merge` (or +) another state;
    `finalise` returns a summary."""

    def __init__(self, plan: Plan, *, class_cells: bool = False) -> None:
        """class_cells : whether each of two classes gets a grid over its own probability; only for
        rows without weights."""
        # imported here, so that numba is loaded only when the first pass starts
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
        self._bad = zeros(len(RULES) + 1)  # ignored rows, then bad rows by rule

    @property
    def _tallies(self) -> Tallies:
        """The arrays, with the sums of all rows in them."""
        from ..kernels.tallies import flush_cells
        from ..kernels.twins import FEW_ROWS

        if self._waiting:
            with SETTLING:  # several threads may read a state
                if self._waiting:
                    # its arrays do not say how many rows they hold
                    few = self._waiting <= FEW_ROWS
                    flush = flush_cells if few else flush_cells.kernel
                    flush(self._running, self._settled)
                    self._waiting = 0
        return self._settled

    @classmethod
    def empty(cls, plan: Plan) -> Statistics:
        return cls(plan)

    def update(self, block: Block) -> Statistics:
        """Add the rows of a block. Unless bad rows are dropped, a block with a bad row raises and
        adds nothing."""
        self.add(block)
        return self

    def add(
        self, block: Block, events: EventGrids | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The same as update; returns the `status` of each row and, if decisions are sparse, the
        most probable class of each row that counted.

        events : grids to which the same pass adds the rows, if it `sees_events`; it also copies
            the rows that the block wants `copied`.
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
        """Whether the pass over a block also fills the grids of events: for probabilities of many
        classes, in columns, without weights."""
        plain = self.plan.kind == "probabilities" and not self.plan.weighted
        return block.by_column and plain and self.plan.n_classes in MANY_CLASSES

    def _set_bad_apart(
        self,
        block: Block,
        weights: np.ndarray | None,
        status: np.ndarray,
        events: EventGrids | None = None,
    ) -> None:
        """Count ignored rows, and bad rows by the rule they break; or subtract the block's good
        rows again and raise."""
        broken = broken_rules(block, status)
        if self.plan.on_bad_rows == "error" and broken.any():
            fresh = Statistics(self.plan, class_cells=self._class_cells)
            fresh_events = None if events is None else events.like()
            fresh._score(block, weights, fresh_events)
            self._merge_tallies(fresh._tallies, -1)
            if events is not None and fresh_events is not None:
                events.merge(fresh_events, -1)
            first = int(np.flatnonzero(broken)[0])
            raise explain(self.plan, block, first, int(broken[first]))
        counts = np.bincount(broken, minlength=len(RULES) + 1)
        self._bad += [np.count_nonzero(status != broken), *counts[1:]]

    def status(self, block: Block) -> np.ndarray:
        """0 for each good row of a block, else 1 + the index in RULES of the rule that it breaks;
        adds nothing."""
        return Statistics(self.plan)._score(block, self.plan.scaled(block.weights))[0]

    def _score(
        self, block: Block, weights: np.ndarray | None, events: EventGrids | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the fused kernels; returns the status of each row, and the decision codes if
        decisions are sparse."""
        from ..kernels.tallies import CALL

        status = np.zeros(len(block.values), np.int8)
        codes = []
        call = max(1, CALL_VALUES // self.plan.n_classes) if self._transposes(block) else CALL
        for first in range(0, len(status), call):
            part = slice(first, first + call)
            target = self._target(status[part])
            counted = self._run_kernel(
                block, part, None if weights is None else weights[part], target, events
            )
            codes.append(target.codes[:counted])
        return status, np.concatenate(codes) if codes else np.empty(0, np.int64)

    def _transposes(self, block: Block) -> bool:
        """Whether columns are turned into rows."""
        many = self.plan.n_classes > FEW_CLASSES
        return block.by_column and many and not self.sees_events(block)

    def _target(self, status: np.ndarray) -> Target:
        """What a kernel fills for the next rows, of this status."""
        from ..kernels.tallies import CALL, Target

        settled = self._tallies if self._waiting + len(status) > CALL else self._settled
        self._waiting += len(status)
        codes = np.empty(0 if self._sparse is None else len(status), np.int64)
        return Target(settled, self._running, status, codes)

    def _run_kernel(
        self,
        block: Block,
        part: slice,
        weights: np.ndarray | None,
        target: Target,
        events: EventGrids | None,
    ) -> int:
        """Add some rows of a block; returns how many counted."""
        from ..kernels import narrow, wide_columns
        from ..kernels.rules import LOGITS, InputRows, Options

        plan, (values, addresses, like) = self.plan, block.arrays
        options = Options(KINDS[plan.kind], plan.tolerance, plan.reject_cost)
        rows = InputRows(
            values=None if values is None else values[part],
            addresses=addresses,
            like=like,
            begin=part.start,
            labels=block.labels[part],
            weights=weights,
        )
        if plan.n_classes <= FEW_CLASSES:
            logits = options.kind >= LOGITS
            kernel: Any = narrow.narrow_logits if logits else narrow.narrow_probabilities
            return int(kernel(rows, target, options))
        if not self.sees_events(block):
            values = rows_of(block, part, self._room)
            if block.by_column and (self._room is None or len(values) >= len(self._room)):
                # kept for the next call: new pages of memory cost as much as filling them
                self._room = values
            return self._run_wide(values, rows, target, options)
        grids = events or EventGrids(0, [])
        copied = block.copied or (np.empty(0, np.int64), like)
        most = self._largest(like).view(f"u{like.itemsize}")
        return int(
            wide_columns.wide_columns(
                rows,
                target,
                options,
                most,
                wide_columns.Events(grids.grids, grids.words),
                wide_columns.Copies(*copied),
            )
        )

    def _run_wide(
        self, values: np.ndarray, rows: InputRows, target: Target, options: Options
    ) -> int:
        """The same for many classes, given their outputs row by row."""
        from ..kernels import wide
        from ..kernels.rules import LOGITS

        rows = rows._replace(values=values, addresses=None)
        scale = 2.0 ** min(50, 61 - self.plan.n_classes.bit_length())
        if options.kind >= LOGITS:
            return int(wide.wide_logits(rows, target, options, scale))
        most = self._largest(values)
        return int(wide.wide_probabilities(rows, bits_of(values), target, options, most, scale))

    def _largest(self, values: np.ndarray) -> np.ndarray:
        """The bit pattern of the largest valid probability, in the type of some values."""
        return bits_of(np.array([1 + self.plan.tolerance], values.dtype))

    def _decide(self, block: Block, weights: np.ndarray | None, status: np.ndarray) -> None:
        if not self.plan.costs:
            return
        from ..kernels.bayes_decisions import CostCounts, decide

        kind, values = KINDS[self.plan.kind], np.ascontiguousarray(block.values)
        labels = block.labels.astype(np.int64, copy=False)
        for name, cost in self.plan.costs.items():
            costs = CostCounts(cost.matrix, self._costs[name], self._weight_costs[name])
            decide(values, labels, weights, status, kind, costs)

    def merge(self, other: Statistics) -> Statistics:
        """Add another state to this one."""
        if self.plan != other.plan:
            raise InputError("other", "must have the same plan as this state")
        from ..kernels.tallies import merge

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
        from ..kernels.tallies import merge

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
        arrays = dict(self._tallies._asdict()) | {"bad": self._bad}
        for name in self._costs:
            arrays |= {
                f"costs.{name}": self._costs[name],
                f"weight_costs.{name}": self._weight_costs[name],
            }
        if self._sparse is not None:
            arrays |= dict(zip(SPARSE, self._sparse.settle(), strict=True))
        return arrays

    def restore(self, stored: Mapping[str, np.ndarray]) -> None:
        """Take the numbers of a stored state of the same plan."""
        if self._sparse is not None:
            self._sparse.restore(*(stored[name] for name in SPARSE))
        for name, array in self.arrays().items():
            if name not in SPARSE:
                array[...] = stored[name]

    @property
    def class_cells(self) -> np.ndarray:
        """For each of two classes, if wanted: rows, hits, and the pair of the sum of p - middle,
        [2, G, 4]."""
        return self._tallies.class_cells.reshape(2, -1, 4)

    def mean_outputs(self) -> np.ndarray:
        """The weighted mean of each class's probability, [K], without a summary."""
        t = self._tallies
        weight = numbers(t.weight_sums)[:, 0].sum() if self.plan.weighted else t.cells[:, 0].sum()
        return np.asarray(numbers(t.outputs)[:, 0] / weight)

    def finalise(self) -> Summary:
        """The state as plain numbers."""
        sparse = None if self._sparse is None else self._sparse.settle()
        bad = dict(zip(RULES, self._bad[1:].tolist(), strict=True))
        found = summarise(self.plan, self._tallies, sparse, self._costs, self._weight_costs, bad)
        return replace(found, ignored=int(self._bad[0]))
