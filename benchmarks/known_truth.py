"""Estimators against worlds with known truth: bias, coverage, false alarms and power, as
docs/known-truth.md shows them.

python benchmarks/known_truth.py                       1,000 replications; writes
docs/known-truth.md python benchmarks/known_truth.py --only 'scores*'      some cases (patterns of
"family / world / n"); no page unless --out python benchmarks/known_truth.py --replications 20     a
quick look

Finished replications are kept in the results file, so that an interrupted run goes on where it
stopped. Results of another version of the package or of the worlds are left out, unless --keep-old
is given.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import probaudit
from known_truth_cases import LEVEL, Case, Found, Item, cases, families, truth_of
from known_truth_worlds import Truth, worlds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "known-truth.md"
CHUNK = 20  # replications of a task
ROUNDING = 1e-9  # truths are means of many numbers


@dataclass
class Tally:
    """Sums over replications of one item.

    runs : with a result. intervals : with a finite interval. failed : without a result; `why` is
        the first message.
    """

    runs: int = 0
    intervals: int = 0
    failed: int = 0
    value: float = 0.0
    bias: float = 0.0
    bias_squared: float = 0.0
    truth: float = 0.0
    covered: int = 0
    starts_below: int = 0
    above_zero: int = 0
    below_zero: int = 0
    width: float = 0.0
    alarms: int = 0
    why: str = ""

    def add(self, found: Found | Exception, truth: Truth | None) -> None:
        if isinstance(found, Exception):
            self.failed += 1
            self.why = self.why or f"{type(found).__name__}: {found}".splitlines()[0][:160]
            return
        self.runs += 1
        if math.isfinite(found.p_value) or math.isfinite(found.reported):
            self.alarms += int(
                found.p_value <= LEVEL if math.isfinite(found.p_value) else found.reported > 0
            )
            return
        target = found.truth if truth is None else truth.value
        self.value += found.value
        self.bias += found.value - target
        self.bias_squared += (found.value - target) ** 2
        self.truth += target
        if math.isfinite(found.low) and math.isfinite(found.high):
            self.intervals += 1
            self.covered += int(found.low - ROUNDING <= target <= found.high + ROUNDING)
            self.starts_below += int(found.low <= target + ROUNDING)
            self.above_zero += int(found.low > ROUNDING)
            self.below_zero += int(found.high < -ROUNDING)
            self.width += found.high - found.low

    def __add__(self, other: Tally) -> Tally:
        sums = {
            name: mine + getattr(other, name) for name, mine in vars(self).items() if name != "why"
        }
        return Tally(**sums, why=self.why or other.why)


@dataclass
class Results:
    """What the results file holds: replications done, tallies and truths, by case."""

    done: dict[str, set[int]] = field(default_factory=dict)
    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    truths: dict[str, dict[str, Truth | None]] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> None:
        name = line["case"]
        if "truths" in line:
            self.truths[name] = {
                key: None if t is None else Truth(*t) for key, t in line["truths"].items()
            }
            return
        numbers = set(range(line["first"], line["first"] + line["count"]))
        if numbers & self.done.setdefault(name, set()):
            return
        self.done[name] |= numbers
        known = self.tallies.setdefault(name, {})
        for item, sums in line["items"].items():
            known[item] = known.get(item, Tally()) + Tally(**sums)


def source_hash() -> str:
    """Of the package and the worlds: results of other code are not mixed with these."""
    digest = hashlib.sha256()
    package = Path(probaudit.__file__).parent
    here = Path(__file__).parent
    for path in [
        *sorted(package.rglob("*.py")),
        here / "known_truth_worlds.py",
        here / "known_truth_cases.py",
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def load(path: Path, source: str | None) -> Results:
    """Results of a file, of one version of the code unless `source` is None. A last line that was
    cut off is skipped."""
    found = Results()
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if source is None or line.get("source") == source:
            found.take(line)
    return found


def truths_of_world(names: Iterable[Case]) -> list[dict[str, Any]]:
    """The truths of all cases of one world, as lines."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in names:
            found: dict[str, list[float] | None] = {}
            for name, item in families()[case.family].items.items():
                truth = truth_of(case, item)
                found[name] = None if truth is None else [truth.value, truth.error]
            lines.append({"case": case.name, "truths": found})
    return lines


def replicate(
    case: Case, first: int, count: int, truths: dict[str, Truth | None]
) -> dict[str, Any]:
    """Some replications of a case, as a line."""
    family, world = families()[case.family], worlds()[case.world]
    tallies = {name: Tally() for name in family.items}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(first, first + count):
            for name, found in family.run(world.sample(case.n, number)).items():
                tallies[name].add(
                    _checked(found, family.items[name], truths.get(name)), truths.get(name)
                )
    seconds = round(time.process_time() - start, 3)
    items = {name: asdict(tally) for name, tally in tallies.items()}
    return {"case": case.name, "first": first, "count": count, "seconds": seconds, "items": items}


def _checked(found: Found | Exception, item: Item, truth: Truth | None) -> Found | Exception:
    """An estimate without a truth to judge it by is a failure of this script, and must show."""
    if isinstance(found, Exception) or item.kind in ("test", "rate"):
        return found
    if truth is None and not math.isfinite(found.truth):
        return LookupError("the world has no such truth")
    return found if math.isfinite(found.value) else ValueError("no finite value")


def replications_of(case: Case, asked: int) -> int:
    return max(2, round(asked * case.share))


def tasks(chosen: Iterable[Case], asked: int, known: Results) -> Iterator[tuple[Case, int, int]]:
    for case in chosen:
        done = known.done.get(case.name, set())
        left = [number for number in range(replications_of(case, asked)) if number not in done]
        while left:
            run = [number for place, number in enumerate(left[:CHUNK]) if number == left[0] + place]
            yield case, run[0], len(run)
            left = left[len(run) :]


def run(
    chosen: list[Case], asked: int, path: Path, *, processes: int, keep_old: bool = False
) -> Results:
    """Compute what the results file lacks, and return all of it."""
    source = source_hash()
    known = load(path, None if keep_old else source)
    with path.open("a") as file, _pool(processes) as pool:

        def keep(line: dict[str, Any]) -> None:
            file.write(json.dumps(line | {"source": source}) + "\n")
            file.flush()
            known.take(line)

        by_world: dict[str, list[Case]] = {}
        for case in chosen:
            if case.name not in known.truths:
                by_world.setdefault(case.world, []).append(case)
        for lines in _each(
            pool, [(truths_of_world, (names,)) for names in by_world.values()], "truths of worlds"
        ):
            for line in lines:
                keep(line)
        left = [
            (replicate, (*task, known.truths[task[0].name])) for task in tasks(chosen, asked, known)
        ]
        for line in _each(pool, left, f"tasks of up to {CHUNK} replications"):
            keep(line)
    return known


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes, or None for calls in this one. If the run is stopped, tasks that have not begun
    are dropped."""
    if processes == 1:
        yield None
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        # of the processes to come: threads of theirs would only compete
        os.environ.setdefault(name, "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; run again to go on"))
    # Spawned, as threads of compiled code do not survive a fork.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _each(
    pool: ProcessPoolExecutor | None, calls: list[tuple[Any, tuple]], words: str
) -> Iterator[Any]:
    start = time.perf_counter()
    if pool is None:
        results: Iterator[Any] = (function(*given) for function, given in calls)
    else:
        futures = [pool.submit(function, *given) for function, given in calls]
        results = (future.result() for future in as_completed(futures))
    for number, result in enumerate(results, 1):
        yield result
        if number % 50 == 0 or number == len(calls):
            print(
                f"{number:,} of {len(calls):,} {words}, {time.perf_counter() - start:,.0f} s",
                flush=True,
            )


def chosen_cases(pattern: str | None) -> list[Case]:
    found = [case for case in cases() if pattern is None or fnmatchcase(case.name, pattern)]
    if not found:
        raise SystemExit(f"--only: no case matches {pattern!r}; cases are named family / world / n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--replications",
        type=int,
        default=1_000,
        help="of cheap cases; others run a stated share of them",
    )
    parser.add_argument("--only", help='pattern of "family / world / n"')
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, help="the page; docs/known-truth.md unless given, and none with --only"
    )
    parser.add_argument(
        "--results", type=Path, default=Path(tempfile.gettempdir()) / "probaudit-known-truth.jsonl"
    )
    parser.add_argument(
        "--keep-old",
        action="store_true",
        help="count results of other versions of the code as well",
    )
    given = parser.parse_args()
    from known_truth_page import page, text_table

    chosen = chosen_cases(given.only)
    found = run(
        chosen,
        given.replications,
        given.results,
        processes=given.processes,
        keep_old=given.keep_old,
    )
    if given.only:
        print(text_table(chosen, found))
    out = given.out or (None if given.only else PAGE)
    if out is not None:
        out.write_text(page(chosen, found, given.replications))
        print(f"wrote {out}")
    unexplained = Counter(failure for case in chosen for failure in _failures(case, found))
    for message, count in unexplained.most_common():
        print(f"{count} x {message}")


def _failures(case: Case, found: Results) -> Iterator[str]:
    for name, tally in found.tallies.get(case.name, {}).items():
        if tally.failed:
            yield f"{name}: {tally.why}"


if __name__ == "__main__":
    main()
