"""What an audit is computed from: sums over all rows, and a sample of rows for everything that must
be fitted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..choices.lenses import Binary, TopK, TopLabel
from ..data.predictions import Block, Predictions
from ..errors import InputError
from .event_grids import MANY_EVENTS as MANY_EVENTS
from .event_grids import EventGrids, cells_for
from .events import EventGrid, EventSums, event_sums
from .plan import Plan
from .sampling import priority
from .state import Statistics, rows_of
from .summary import Summary, numbers

SAMPLE_ROWS = 200_000
SAMPLE_VALUES = 20_000_000
CLASS_GRIDS = 1_000  # number of classes above which classes have no grids of their own
RANKS = (2, 3, 5, 10)
TILE_VALUES = 2**17  # outputs of a tile, which stay in a cache while several events are counted
TILE_ROWS = 2**11  # at least, so that the calls for many classes do not cost more than their work


# a function of the number of the first row of a block, and of the block
Job = Callable[[int, Predictions], list[np.ndarray]]
Total = Callable[[Job], list[np.ndarray]]


@dataclass(frozen=True)
class Others:
    """The rows from which a sample was drawn. `total(job)` sums the integer arrays that a job
    returns for blocks of all rows. The sample consists of the rows with a priority up to
    `bound`."""

    summary: Summary
    total: Total
    bound: np.uint64

    @property
    def plan(self) -> Plan:
        return self.summary.plan


@dataclass(frozen=True)
class Evidence:
    """The result of a state, or of a pass over rows in memory; the numbers are identical.

    summary : sums over all rows.
    top : the event that the most probable class is the true one, by its probability.
    classes : the same for each class in order; empty for given confidences, or above 1,000 classes.
    ranks : by k, the event that the true class is among the k most probable, by their summed
        probability; for k below the number of classes.
    sample : all rows, or `sample_size` of them, drawn at random, in their order. Calibrators,
        regions and everything else that is fitted use these.
    fingerprint : a hash of the state of all rows.
    places : the number of each row of the sample among all rows; None if the sample is all rows.
    total : sums over all rows in another pass, if they are available (see `Others`).
    """

    summary: Summary
    top: EventSums
    classes: tuple[EventSums, ...]
    ranks: dict[int, EventSums]
    sample: Predictions
    fingerprint: str
    places: np.ndarray | None = None
    total: Total | None = None

    @property
    def sampled(self) -> bool:
        """Whether the sample leaves rows out."""
        return self.places is not None

    @property
    def sample_words(self) -> str:
        """A description of the sample for definitions; empty if it is all rows."""
        return f", on a sample of {len(self.sample):,} rows" if self.sampled else ""

    @property
    def judged(self) -> EventSums:
        """The event that `plan.lens` shows."""
        event = self.summary.plan.event
        return self.top if event is None else self.classes[event]

    @property
    def others(self) -> Others | None:
        """All rows, if the sample leaves some out and they can be read again."""
        if self.places is None or self.total is None:
            return None
        return Others(self.summary, self.total, priority(self.places).max())

    def row_numbers(self, rows: np.ndarray) -> tuple[int, ...]:
        """The numbers, among all rows, of some rows of the sample."""
        return tuple((rows if self.places is None else self.places[rows]).tolist())


class EvidenceState:
    """The mergeable state of the sums of an `Evidence`: integers, the same bytes for any division
    into blocks."""

    def __init__(self, plan: Plan) -> None:
        K, whole = plan.n_classes, plan.kind != "pairs"
        classes = K if whole and K <= CLASS_GRIDS else 0
        if plan.event is not None and not classes:
            raise InputError("event", f"must not be given for more than {CLASS_GRIDS:,} classes", K)
        ranks = [k for k in RANKS if whole and k < K]
        self.statistics = Statistics(plan, class_cells=whole and K == 2 and not plan.weighted)
        self._events = EventGrids(classes, ranks) if whole and K > 2 and not plan.weighted else None
        self._weighted = WeightedEvents(plan, classes, ranks) if plan.weighted else None

    @property
    def plan(self) -> Plan:
        return self.statistics.plan

    def update(self, block: Block) -> EvidenceState:
        """Add the rows of a block. Unless bad rows are dropped, a block with a bad row raises and
        adds nothing."""
        self.add(block)
        return self

    def add(self, block: Block) -> tuple[np.ndarray, np.ndarray | None]:
        """The same as `update`; returns what `Statistics.add` returns."""
        if self._events is not None and self.statistics.sees_events(block):
            return self.statistics.add(block, self._events)
        # The whole block first: it raises before any grid changes.
        status, top = self.statistics.add(block)
        if self._weighted is None and (self._events is None or self.plan.kind == "probabilities"):
            if self._events is not None:
                self._events.update(block, status)
            return status, top
        for tile in tiles(block, self.plan.n_classes):
            outputs = tile._replace(values=probabilities(tile.values, self.plan))
            first = tile.first_row - block.first_row
            part = status[first : first + len(tile.values)]
            if self._events is not None:
                self._events.update(outputs, part)
            if self._weighted is not None:
                self._weighted.update(outputs, part)
        return status, top

    def merge(self, other: EvidenceState) -> EvidenceState:
        """Add another state to this one."""
        self.statistics.merge(other.statistics)
        if self._events is not None and other._events is not None:
            self._events.merge(other._events)
        if self._weighted is not None and other._weighted is not None:
            self._weighted.merge(other._weighted)
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """Every number of the state, by name."""
        events = {} if self._events is None else self._events.arrays()
        return (
            self.statistics.arrays()
            | events
            | ({} if self._weighted is None else self._weighted.arrays())
        )

    def restore(self, stored: Mapping[str, np.ndarray]) -> None:
        """Take the numbers of a stored state of the same plan."""
        self.statistics.restore(stored)
        if self._events is not None:
            self._events.restore(stored)
        if self._weighted is not None:
            self._weighted.restore(stored)

    def to_bytes(self) -> bytes:
        return b"".join(array.tobytes() for array in self.arrays().values())

    def evidence(self, sample: Predictions, places: np.ndarray | None = None) -> Evidence:
        """The result of the state, with a sample of its rows. Raises if there are no good rows."""
        summary = self.statistics.finalise()
        if summary.rows == 0:
            raise InputError(sample.name("probs"), "no row is left to judge", summary.why_empty())
        grid = summary.grid
        top = EventSums(
            grid.rows, grid.hit_rows, grid.weight, grid.weight, grid.confidence, grid.hits
        )
        classes: tuple[EventSums, ...] = ()
        ranks: dict[int, EventSums] = {}
        if self._weighted is not None:
            top, classes, ranks = self._weighted.finalise()
        elif self._events is not None:
            classes, ranks = self._events.finalise()
        elif self.plan.kind != "pairs":
            class_cells = self.statistics.class_cells
            classes = tuple(
                event_sums(s[:, 0].copy(), s[:, 1].copy(), numbers(s[:, 2:])[:, 0])
                for s in class_cells
            )
        fingerprint = hashlib.sha256(self.statistics.to_bytes()).hexdigest()[:16]
        return Evidence(summary, top, classes, ranks, sample, fingerprint, places)


class WeightedEvents:
    """The grids of the top label, of each class and of each rank, for rows with weights."""

    def __init__(self, plan: Plan, classes: int, ranks: Sequence[int]) -> None:
        self._plan = plan
        self._top = EventGrid(weighted=True)
        self._classes = [EventGrid(cells_for(classes), weighted=True) for _ in range(classes)]
        self._ranks = {k: EventGrid(weighted=True) for k in ranks}

    def update(self, block: Block, status: np.ndarray) -> None:
        """Add the good rows of a block of probabilities of all classes."""
        weights = self._plan.scaled(block.weights)
        if weights is None:
            return
        good = np.flatnonzero((status == 0) & (weights > 0))
        probs, labels, weights = block.values[good], block.labels[good], weights[good]
        if not len(labels):
            return
        self._top.update(
            *(Binary() if self._plan.kind == "pairs" else TopLabel()).view(probs, labels), weights
        )
        if self._ranks:
            largest, place = TopK(max(self._ranks)).view(probs, labels)
            summed = np.cumsum(largest, axis=1)
            for k, grid in self._ranks.items():
                grid.update(summed[:, k - 1], place < k, weights)
        for k, grid in enumerate(self._classes):
            grid.update(probs[:, k], labels == k, weights)

    def merge(self, other: WeightedEvents) -> None:
        for mine, theirs in zip(self._all(), other._all(), strict=True):
            mine.merge(theirs)

    def _named(self) -> dict[str, list[EventGrid]]:
        return {"top": [self._top], "classes": self._classes, "ranks": list(self._ranks.values())}

    def _all(self) -> list[EventGrid]:
        return [grid for grids in self._named().values() for grid in grids]

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            f"{name}.{part}": np.stack([getattr(grid, f"_{part}") for grid in grids])
            for name, grids in self._named().items()
            for part in ("cells", "sums")
            if grids
        }

    def restore(self, stored: Mapping[str, np.ndarray]) -> None:
        for name, grids in self._named().items():
            for part in ("cells", "sums"):
                for i, grid in enumerate(grids):
                    getattr(grid, f"_{part}")[...] = stored[f"{name}.{part}"][i]

    def finalise(self) -> tuple[EventSums, tuple[EventSums, ...], dict[int, EventSums]]:
        classes = tuple(grid.finalise() for grid in self._classes)
        return (
            self._top.finalise(),
            classes,
            {k: grid.finalise() for k, grid in self._ranks.items()},
        )


def tiles(block: Block, classes: int) -> Iterator[Block]:
    """The rows of a block in tiles that fit into a cache, in memory row by row."""
    size = max(TILE_ROWS, TILE_VALUES // classes)
    for first in range(0, len(block.values), size):
        part = slice(first, first + size)
        weights = None if block.weights is None else block.weights[part]
        yield Block(
            block.first_row + first,
            rows_of(block, part),
            block.labels[part],
            weights,
            block.raw_labels[part],
        )


def probabilities(values: np.ndarray, plan: Plan) -> np.ndarray:
    """The outputs of rows as probabilities, [rows, K]; undefined for bad rows."""
    if plan.kind in ("probabilities", "pairs"):
        return values if values.shape[1] > 1 else np.column_stack([1 - values[:, 0], values[:, 0]])
    from ..kernels.event_pass import probabilities as fill

    probs = np.empty((len(values), plan.n_classes))
    fill(values, plan.kind == "log_probabilities", probs)
    return probs


def sample_size(outputs: int, features: int = 0) -> int:
    """How many rows a sample holds, given the number of outputs and features of a row.

    >>> sample_size(2), sample_size(1000, features=64)
    (200000, 18796)
    """
    return max(1, min(SAMPLE_ROWS, SAMPLE_VALUES // (outputs + features)))
