"""Best-of-several timing. Jobs alternate, so that noise of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def best(
    jobs: Mapping[str, Callable[[], Any]],
    seconds: float = 6.0,
    at_least: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The shortest time of each job, in seconds, over rounds in which every job runs once.

    clock : `time.process_time` for CPU seconds of all threads, which other programs on the machine
        hardly change.
    """
    times = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < at_least or time.perf_counter() < end:
        for name, job in jobs.items():
            start = clock()
            job()
            times[name] = min(times[name], clock() - start)
        rounds += 1
    return times


def line(name: str, value: float, goal: str = "") -> None:
    print(f"{name:62} {value:9.2f}   {goal}")
