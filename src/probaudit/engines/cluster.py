"""The engine for Dask clusters: workers build a state for each part of the rows; the states are
merged as a tree."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..data.predictions import Predictions
from ..data.work import Progress, default_threads
from ..errors import InputError
from ..states import AuditState, Plan
from ..states.evidence import Job
from ..version import __version__
from .totals import BLOCK_ROWS, added

if TYPE_CHECKING:
    from distributed import Client, Future

FAN_IN = 8  # states merged at a time
PATIENCE = 30.0  # seconds without any worker before a computation is given up
CHECK_EVERY = 0.5  # seconds between checks of the workers
CONNECT_TIMEOUT = 20.0  # seconds


class ClusterError(RuntimeError):
    """The cluster cannot finish: it lost its workers or its scheduler, or a part of the rows kills
    every worker."""


class RowPart(NamedTuple):
    """Consecutive rows that one worker reads.

    content : from which a reader gets the rows: a `dask.delayed` object, or a small object that is
        sent to the worker.
    """

    start: int
    rows: int
    content: Any

    @property
    def end(self) -> int:
        return self.start + self.rows


Blocks = Iterator[tuple[int, Predictions]]
Reader = Callable[[Any, int], Blocks]


class PartitionedRows(Protocol):
    """Rows divided into parts. `reader(content, start)` runs on workers: it yields the rows of a
    part in blocks, each with the number of its first row."""

    @property
    def parts(self) -> Sequence[RowPart]: ...

    @property
    def reader(self) -> Reader: ...


@contextlib.contextmanager
def connected(
    client: Client | None = None, *, scheduler: str | None = None, workers: int | None = None
) -> Iterator[Client]:
    """A client: the given one, or one for the scheduler at an address, or Dask's default client, or
    one for a new local cluster of processes.

    workers : the number of processes of a local cluster, each with one thread; by default one per
        core.
    """
    if client is not None:
        yield client
        return
    try:
        import distributed
        from dask import config
    except ImportError:
        way_out = ("run `pip install 'probaudit[dask]'`",)
        raise InputError("engine", "requires Dask", "dask", way_out=way_out) from None
    if scheduler is not None:
        try:
            found = distributed.Client(scheduler, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as problem:
            rule = "must be the address of a running Dask scheduler"
            raise InputError("scheduler", rule, f"{scheduler!r}: {problem}") from None
        with found:
            yield found
        return
    if workers is not None and workers < 1:
        raise InputError("workers", "must be at least 1", workers)
    if workers is None and (found := _default_client()) is not None:
        yield found
        return
    with (
        config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=workers or default_threads(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as local,
    ):
        yield local


def _default_client() -> Client | None:
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def gather(
    source: PartitionedRows,
    plan: Plan,
    *,
    client: Client | None = None,
    progress: bool | None = None,
) -> AuditState:
    """The state of one pass over the rows on a cluster. It has the same bytes as for the same rows
    in memory.

    If a worker is lost, other workers read its parts again. A state knows the rows it covers, so
    that missing rows and rows counted twice raise. The first bad row raises the same error as in
    memory.
    """
    with connected(client) as client:
        parts = [part for part in source.parts if part.rows]
        if not parts:
            return AuditState.empty(plan)
        futures = each_part(client, _state, source, parts, plan, parts[-1].end)
        with Progress(sum(part.rows for part in parts), progress) as bar:
            content = collect(
                client,
                futures,
                tree(client, futures, _merged),
                lambda place: bar.advance(parts[place].rows),
            )
    state = AuditState.from_bytes(content)
    if list(state.covered) != [(parts[0].start, parts[-1].end)]:
        raise ClusterError(
            f"the state covers rows {list(state.covered)}, "
            f"not {parts[0].start} to {parts[-1].end - 1}"
        )
    if state.sample is None or len(state.sample.numbers) < min(state.rows, state.sample.size):
        raise ClusterError("too few rows have a small priority")  # see likely_bound
    return state


def total(source: PartitionedRows, job: Job, *, client: Client | None = None) -> list[np.ndarray]:
    """The sum of the results of a job over all blocks (`engines.totals`), computed by the
    workers."""
    with connected(client) as client:
        parts = [part for part in source.parts if part.rows]
        futures = each_part(client, _part_total, source, parts, job)
        totals: list[np.ndarray] = collect(client, futures, tree(client, futures, _added))
    return totals


def each_part(
    client: Client,
    job: Callable[..., Any],
    source: PartitionedRows,
    parts: Sequence[RowPart],
    *choices: Any,
) -> list[Future]:
    """`job(reader, part, version, *choices)` for every part, on the workers, in the order of the
    parts. The fields of `part` are in a list, whose content Dask computes first."""
    from dask.delayed import delayed

    # As nodes of the graph they are sent once, not with every task.
    reader, *shared = [
        delayed(thing, pure=False, traverse=False) for thing in (source.reader, *choices)
    ]
    run = delayed(job, pure=False, traverse=False)
    return list(client.compute([run(reader, list(part), __version__, *shared) for part in parts]))


def blocks_of_part(reader: Reader, part: Sequence[Any], version: str) -> Blocks:
    """The rows of a part, on a worker. Raises if there are more or fewer than expected.

    part : the fields of a `RowPart`.
    """
    if version != __version__:
        raise ClusterError(
            f"client and workers need the same version of probaudit; the client has {version}, "
            f"a worker has {__version__}"
        )
    start, rows, content = part
    end = start
    for first, block in reader(content, start):
        yield first, block
        end = first + len(block)
    if end != start + rows:
        found = f"{end - start} rows from row {start}, not {rows}"
        raise InputError("source", "must not change while it is read", found)


def _state(reader: Reader, part: Sequence[Any], version: str, plan: Plan, total: int) -> bytes:
    state = AuditState.empty(plan)
    for first, block in blocks_of_part(reader, part, version):
        # A part samples its share of all rows, not a full sample of its own.
        state.sample_for(block).expect(total)
        state.update(block, start=first)
    return state.to_bytes()


def _part_total(reader: Reader, part: Sequence[Any], version: str, job: Job) -> list[np.ndarray]:
    totals: list[np.ndarray] = []
    for first, block in blocks_of_part(reader, part, version):
        for cut in range(0, len(block), BLOCK_ROWS):
            totals = added(totals, job(first + cut, block.take(slice(cut, cut + BLOCK_ROWS))))
    return totals


def _added(*parts: list[np.ndarray]) -> list[np.ndarray]:
    first, *others = parts
    totals = [part.copy() for part in first]  # results of other tasks must not change
    for other in others:
        totals = added(totals, other)
    return totals


def _merged(*states: bytes) -> bytes:
    first, *others = states
    state = AuditState.from_bytes(first)
    for other in others:
        state.merge(AuditState.from_bytes(other))
    return state.to_bytes()


def each_block(
    client: Client, source: PartitionedRows, job: Callable[[int, Predictions], Any], rows: int
) -> list[Any]:
    """`job(start, block)` for every block of `rows` consecutive rows, in order. The blocks do not
    depend on the parts.

    Each task computes the blocks that begin in its part. For the last of them it may read from the
    following parts.
    """
    from dask.delayed import delayed

    parts = [part for part in source.parts if part.rows]
    reader, work = (delayed(thing, pure=False, traverse=False) for thing in (source.reader, job))
    run, tasks, total = delayed(_job_results, pure=False, traverse=False), [], parts[-1].end
    for place, part in enumerate(parts):
        begin, end = -(-part.start // rows) * rows, min(-(-part.end // rows) * rows, total)
        if begin < part.end:
            needed = [list(other) for other in parts[place:] if other.start < end]
            tasks.append(run(reader, needed, range(begin, end, rows), __version__, work))
    return [result for results in computed(client, tasks) for result in results]


def _job_results(
    reader: Reader,
    parts: list[list[Any]],
    starts: range,
    version: str,
    job: Callable[[int, Predictions], Any],
) -> list[Any]:
    """The results of a job for the blocks that begin at `starts`; the last one ends at its stop."""
    begin, end, rows = starts.start, starts.stop, starts.step
    results, waiting, held = [], [], 0
    for part in parts:
        for first, block in blocks_of_part(reader, part, version):
            low, high = max(begin - first, 0), min(end - first, len(block))
            while low < high:
                taken = min(high - low, rows - held)
                waiting.append(block.take(slice(low, low + taken)))
                low, held = low + taken, held + taken
                if held == rows or first + low == end:
                    results.append(job(first + low - held, joined(waiting)))
                    waiting, held = [], 0
            if first + len(block) >= end:
                return results
    return results


def joined(blocks: list[Predictions]) -> Predictions:
    """Consecutive blocks as one, with labels, outputs and weights only."""
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.sample_weight for block in blocks if block.sample_weight is not None]
    return replace(
        blocks[0],
        y=np.concatenate([block.y for block in blocks]),
        probs=np.concatenate([block.probs for block in blocks]),
        sample_weight=np.concatenate(weights) if weights else None,
        features=None,
        feature_names=None,
        columns=None,
        clusters=None,
    )


def computed(client: Client, tasks: Sequence[Any]) -> list[Any]:
    """The results of small delayed tasks, in order."""
    futures = list(client.compute(list(tasks)))
    return list(collect(client, futures, client.submit(_listed, futures, pure=False)))


def _listed(results: list[Any]) -> list[Any]:
    return results


def tree(client: Client, futures: Sequence[Future], merged: Callable[..., Any]) -> Future:
    """A future for the merged results of all futures, FAN_IN of which are merged at a time."""
    level = list(futures)
    while len(level) > 1:
        level = [
            client.submit(merged, *level[i : i + FAN_IN], pure=False)
            for i in range(0, len(level), FAN_IN)
        ]
    return level[0]


def collect(
    client: Client,
    futures: list[Future],
    last: Future,
    done: Callable[[int], None] = lambda place: None,
) -> Any:
    """The result of `last`, a future that depends on all the others. Each of these is released when
    it is done.

    If several parts fail, the error of the first one is raised: parts after a failed one are
    cancelled, and parts before it are awaited.
    """
    from distributed import as_completed

    waiting = {future.key: (place, future) for place, future in enumerate(futures)}
    failed: tuple[int, Future] | None = None
    with _Watch(client, lambda: [last, *(future for _, future in waiting.values())]) as watch:
        pending = as_completed(futures, loop=client.loop)
        futures.clear()
        for future in pending:
            place, _ = waiting.pop(future.key, (-1, None))
            if future.status == "finished":
                done(place)
            elif future.status == "error" and place >= 0 and (failed is None or place < failed[0]):
                failed = place, future
                if last.key != future.key:
                    last.release()
                for key in [key for key, (other, _) in waiting.items() if other > place]:
                    waiting.pop(key)[1].release()
        return watch.result(last if failed is None else failed[1])


class _Watch:
    """Stops waiting when the cluster has had no worker, or no scheduler, for PATIENCE seconds."""

    def __init__(self, client: Client, futures: Callable[[], list[Future]]) -> None:
        self._client, self._futures = client, futures
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._check_workers, daemon=True)
        self._lost: str | None = None

    def _check_workers(self) -> None:
        alive = time.monotonic()
        while self._lost is None and not self._stop.wait(CHECK_EVERY):
            try:
                if self._client.nthreads():
                    alive = time.monotonic()
            except Exception:  # a lost scheduler raises many kinds of errors
                pass
            if time.monotonic() - alive > PATIENCE:
                self._lost = f"no worker for {PATIENCE:.0f} seconds"
        if self._lost is not None:
            for future in self._futures():
                future.release()  # ends the wait for its result

    def result(self, future: Future) -> Any:
        """The result of a future. Raises a ClusterError if the cluster failed."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker as problem:
            raise ClusterError(f"workers died repeatedly on the same task: {problem}") from None
        except (CancelledError, OSError, TimeoutError) as problem:
            raise ClusterError(f"the cluster was lost: {self._lost or problem}") from None

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
