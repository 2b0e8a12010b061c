"""The engine for rows in memory: blocks shared out over threads, each with a state of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..errors import InputError
from ..predictions import Predictions
from ..statistics import Plan, Statistics, Summary
from .progress import Progress

BLOCK_ROWS = 2**20
MIN_ROWS = 1024
VIEW_BYTES = 2**28
COPY_BYTES = 2**23


def default_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def block_rows(rows: Predictions, threads: int) -> int:
    """Rows of a block, so that every thread gets as many blocks as the others.

    A block pays for one call of a kernel, so it should be long. It must be short where its values have to be copied.
    """
    row_bytes = max(8, rows.probs.nbytes // len(rows))
    most = (VIEW_BYTES if rows.is_contiguous else COPY_BYTES) // row_bytes
    rounds = -(-len(rows) // (threads * max(1, min(BLOCK_ROWS, most))))
    return max(MIN_ROWS, -(-len(rows) // (threads * rounds)))


def gather(
    rows: Predictions,
    plan: Plan,
    *,
    threads: int | None = None,
    rows_per_block: int | None = None,
    progress: bool | None = None,
) -> Statistics:
    """One pass over the rows. The result has the same bytes for any number of threads and any block size."""
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise InputError("threads", "must be at least 1", threads)
    size = block_rows(rows, threads) if rows_per_block is None else rows_per_block
    if size < 1:
        raise InputError("rows_per_block", "must be at least 1", size)
    starts = iter(range(0, len(rows), size))
    lock = threading.Lock()
    errors: list[tuple[int, Exception]] = []
    with Progress(len(rows), progress) as bar:

        def work() -> Statistics:
            state = Statistics.empty(plan)
            while True:
                with lock:  # blocks are handed out in order, so no block before a failed one is left undone
                    first = None if errors else next(starts, None)
                if first is None:
                    return state
                try:
                    state.update(rows.block(first, first + size))
                except Exception as error:
                    with lock:
                        errors.append((first, error))
                    return state
                bar.advance(size)

        states = _run(work, min(threads, -(-len(rows) // size)))
    if errors:
        raise min(errors, key=lambda entry: entry[0])[1]
    total = states[0]
    for state in states[1:]:
        total.merge(state)
    return total


def summary(rows: Predictions, plan: Plan, **options: int | bool | None) -> Summary:
    """One pass over the rows, read out; raises if no row is left to judge."""
    found = gather(rows, plan, **options).finalise()  # type: ignore[arg-type]
    if found.rows == 0:
        raise InputError(rows.name("probs"), "no row is left to judge", found.why_empty())
    return found


def good_rows(rows: Predictions, plan: Plan) -> np.ndarray:
    """Which rows break no rule and have a positive weight."""
    size = block_rows(rows, 1)
    status = np.concatenate([Statistics.empty(plan).status(block) for block in rows.blocks(size)])
    return status == 0 if rows.sample_weight is None else (status == 0) & (rows.sample_weight > 0)


def _run(work: Callable[[], Statistics], threads: int) -> list[Statistics]:
    if threads == 1:
        return [work()]
    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(work) for _ in range(threads)]]
