"""Rows shared out over threads, for kernels that release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

T = TypeVar("T")

CHUNKS = 8
CHUNK_VALUES = 2**16


def default_threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_chunk(values: np.ndarray, job: Callable[[slice], T]) -> list[T]:
    """What a job gives for chunks of rows, in order. The chunks depend on the size of the array
    alone, not on the machine."""
    rows, chunks = len(values), max(1, min(CHUNKS, values.size // CHUNK_VALUES))
    parts = [slice(i * rows // chunks, (i + 1) * rows // chunks) for i in range(chunks)]
    threads = min(chunks, default_threads())
    if threads == 1:
        return [job(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(job, parts))
