"""Best-of-several timing. Jobs alternate, so that noise of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def best(
    jobs: Mapping[str, Callable[[], Any]], seconds: float = 6.0, at_least: int = 3
) -> dict[str, float]:
    """The shortest time of each job, in seconds, over rounds in which every job runs once."""
    times = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < at_least or time.perf_counter() < end:
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            times[name] = min(times[name], time.perf_counter() - start)
        rounds += 1
    return times


def line(name: str, value: float, goal: str = "") -> None:
    print(f"{name:62} {value:9.2f}   {goal}")
