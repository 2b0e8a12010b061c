"""Totals of a further pass over all rows: the results of a job, added over all blocks.

A job applies what was fitted to a sample. It returns arrays of integers, so that the totals are the
same for any division into blocks and for any engine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..data.predictions import Predictions
from ..data.work import Progress, default_threads
from ..states.evidence import Job
from .row_source import RowSource, numbered

BLOCK_ROWS = 2**16
# ticks per unit, and per tick: sums over 2^34 rows then fit into 63 bits
TICKS = 2.0**28


def in_ticks(numbers: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of values with |value| <= 1 by number, [size, 2]: in ticks, and the remainder in ticks
    of a tick.

    Float sums of a block are exact, because it has far fewer than 2^25 rows.
    """
    whole = np.rint(values * TICKS)
    rest = np.rint((values * TICKS - whole) * TICKS)
    return np.column_stack([np.bincount(numbers, part, size) for part in (whole, rest)]).astype(
        np.int64
    )


def from_ticks(sums: np.ndarray) -> np.ndarray:
    """Sums in ticks as numbers, [..., 2 m] to [..., m].

    >>> from_ticks(in_ticks(np.array([0, 0, 1]), np.array([0.5, 0.25, 2.0**-40]), 2)).tolist()
    [[0.75], [9.094947017729282e-13]]
    """
    return np.asarray(sums[..., 0::2] / TICKS + sums[..., 1::2] / TICKS**2)


def added(totals: list[np.ndarray], more: list[np.ndarray]) -> list[np.ndarray]:
    """Add arrays to totals in place; returns the totals."""
    if not totals:
        return more
    for total, part in zip(totals, more, strict=True):
        total += part
    return totals


def total_of_rows(rows: Predictions, threads: int | None, job: Job) -> list[np.ndarray]:
    """The sum of the results of a job over blocks of rows in memory."""
    threads = default_threads() if threads is None else threads
    totals: list[np.ndarray] = []
    with ThreadPoolExecutor(threads) as pool:
        starts = range(0, len(rows), BLOCK_ROWS)
        for part in pool.map(
            lambda start: job(start, rows.take(slice(start, start + BLOCK_ROWS))), starts
        ):
            totals = added(totals, part)
    return totals


def total_of_source(
    source: RowSource, threads: int | None, progress: bool | None, job: Job
) -> list[np.ndarray]:
    """The sum of the results of a job over blocks of rows in files. Each thread reads one piece of
    a file after another."""
    threads = default_threads() if threads is None else threads
    pieces, lock, failed = iter(source.pieces), threading.Lock(), threading.Event()

    def blocks() -> Iterator[tuple[int, Predictions]]:
        while not failed.is_set():
            with lock:
                piece = next(pieces, None)
            if piece is None:
                return
            for start, batch in source.batches(piece):
                yield start, numbered(source.predictions, batch, start)

    def work(_: int) -> list[np.ndarray]:
        totals: list[np.ndarray] = []
        try:
            for start, block in blocks():
                totals = added(totals, job(start, block))
                bar.advance(len(block))
        except BaseException:
            failed.set()
            raise
        return totals

    totals: list[np.ndarray] = []
    with Progress(source.n, progress) as bar, ThreadPoolExecutor(threads) as pool:
        try:
            for part in pool.map(work, range(threads)):
                totals = added(totals, part) if part else totals
        except BaseException:
            failed.set()
            raise
    source.check_unchanged()
    return totals
