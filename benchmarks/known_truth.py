"""Evaluate every estimator in simulated worlds with known truth and write docs/known-truth.md.

The page shows bias, coverage, false alarms and power.

    # 1,000 replications; writes docs/known-truth.md
    python benchmarks/known_truth.py
    # the cases that match a pattern of "family / world / n"; writes no page unless --out is given
    python benchmarks/known_truth.py --only 'scores*'
    # a quick trial
    python benchmarks/known_truth.py --replications 20

Finished replications are stored in the results file, so an interrupted run resumes from there.
Results computed by another version of the package, the worlds or the cases are ignored unless
--keep-old is given.
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
from known_truth_cases import LEVEL, Case, Item, Outcome, cases, families, truth_of
from known_truth_worlds import Truth, worlds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "known-truth.md"
CHUNK = 20  # replications per task
ROUNDING = 1e-9  # truths are means of many numbers and carry rounding errors


@dataclass
class Tally:
    """Sums of one item over replications.

    runs : replications with a result.
    intervals : replications with a finite interval.
    failed : replications without a result. `why` is the first error message.
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

    def add(self, outcome: Outcome | Exception, truth: Truth | None) -> None:
        if isinstance(outcome, Exception):
            self.failed += 1
            self.why = self.why or f"{type(outcome).__name__}: {outcome}".splitlines()[0][:160]
            return
        self.runs += 1
        if math.isfinite(outcome.p_value) or math.isfinite(outcome.reported):
            self.alarms += int(
                outcome.p_value <= LEVEL if math.isfinite(outcome.p_value) else outcome.reported > 0
            )
            return
        target = outcome.truth if truth is None else truth.value
        self.value += outcome.value
        self.bias += outcome.value - target
        self.bias_squared += (outcome.value - target) ** 2
        self.truth += target
        if math.isfinite(outcome.low) and math.isfinite(outcome.high):
            self.intervals += 1
            self.covered += int(outcome.low - ROUNDING <= target <= outcome.high + ROUNDING)
            self.starts_below += int(outcome.low <= target + ROUNDING)
            self.above_zero += int(outcome.low > ROUNDING)
            self.below_zero += int(outcome.high < -ROUNDING)
            self.width += outcome.high - outcome.low

    def __add__(self, other: Tally) -> Tally:
        sums = {
            name: mine + getattr(other, name) for name, mine in vars(self).items() if name != "why"
        }
        return Tally(**sums, why=self.why or other.why)


@dataclass
class Results:
    """Contents of the results file: finished replications, tallies and truths of each case."""

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
    """Hash of the package, the worlds and the cases, so that versions are not mixed."""
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
    """Read a results file: one version of the code, or all versions if `source` is None.

    Incomplete lines, as an interrupted run leaves them, are skipped.
    """
    results = Results()
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if source is None or line.get("source") == source:
            results.take(line)
    return results


def truths_of_world(chosen: Iterable[Case]) -> list[dict[str, Any]]:
    """Lines of the results file with the truths of cases that share a world."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in chosen:
            truths: dict[str, list[float] | None] = {}
            for name, item in families()[case.family].items.items():
                truth = truth_of(case, item)
                truths[name] = None if truth is None else [truth.value, truth.error]
            lines.append({"case": case.name, "truths": truths})
    return lines


def replicate(
    case: Case, first: int, count: int, truths: dict[str, Truth | None]
) -> dict[str, Any]:
    """Run `count` replications of a case and return a line of the results file."""
    family, world = families()[case.family], worlds()[case.world]
    tallies = {name: Tally() for name in family.items}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(first, first + count):
            for name, outcome in family.run(world.sample(case.n, number)).items():
                tallies[name].add(
                    _checked(outcome, family.items[name], truths.get(name)), truths.get(name)
                )
    seconds = round(time.process_time() - start, 3)
    items = {name: asdict(tally) for name, tally in tallies.items()}
    return {"case": case.name, "first": first, "count": count, "seconds": seconds, "items": items}


def _checked(outcome: Outcome | Exception, item: Item, truth: Truth | None) -> Outcome | Exception:
    """Turn an estimate without a known truth, or without a finite value, into a failure."""
    if isinstance(outcome, Exception) or item.kind in ("test", "rate"):
        return outcome
    if truth is None and not math.isfinite(outcome.truth):
        return LookupError("no truth is known for this item")
    return outcome if math.isfinite(outcome.value) else ValueError("no finite value")


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
    """Run the missing replications and return the complete results."""
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
            pool, [(truths_of_world, (group,)) for group in by_world.values()], "truths of worlds"
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
    """Start worker processes; None if one process is enough. A stopped run drops waiting tasks."""
    if processes == 1:
        yield None
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        # Inherited by the workers, whose threads would only compete with each other.
        os.environ.setdefault(name, "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped. Run it again to resume."))
    # Spawn, because threads of compiled code do not survive a fork.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _each(
    pool: ProcessPoolExecutor | None, calls: list[tuple[Any, tuple]], label: str
) -> Iterator[Any]:
    start = time.perf_counter()
    if pool is None:
        results: Iterator[Any] = (function(*arguments) for function, arguments in calls)
    else:
        futures = [pool.submit(function, *arguments) for function, arguments in calls]
        results = (future.result() for future in as_completed(futures))
    for number, result in enumerate(results, 1):
        yield result
        if number % 50 == 0 or number == len(calls):
            print(
                f"{number:,} of {len(calls):,} {label}, {time.perf_counter() - start:,.0f} s",
                flush=True,
            )


def chosen_cases(pattern: str | None) -> list[Case]:
    chosen = [case for case in cases() if pattern is None or fnmatchcase(case.name, pattern)]
    if not chosen:
        raise SystemExit(
            f"--only: must match a case (found: {pattern!r}). Cases are named 'family / world / n'."
        )
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--replications",
        type=int,
        default=1_000,
        help="replications of cheap cases; expensive cases run a share of them",
    )
    parser.add_argument(
        "--only", help='run only cases that match this pattern of "family / world / n"'
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--out",
        type=Path,
        help="the page to write (default: docs/known-truth.md; with --only: none)",
    )
    parser.add_argument(
        "--results", type=Path, default=Path(tempfile.gettempdir()) / "probaudit-known-truth.jsonl"
    )
    parser.add_argument(
        "--keep-old",
        action="store_true",
        help="also use results computed by other versions of the code",
    )
    options = parser.parse_args()
    from known_truth_page import page, text_table

    chosen = chosen_cases(options.only)
    results = run(
        chosen,
        options.replications,
        options.results,
        processes=options.processes,
        keep_old=options.keep_old,
    )
    if options.only:
        print(text_table(chosen, results))
    out = options.out or (None if options.only else PAGE)
    if out is not None:
        out.write_text(page(chosen, results, options.replications))
        print(f"wrote {out}")
    failures = Counter(failure for case in chosen for failure in _failures(case, results))
    for message, count in failures.most_common():
        print(f"{count} x {message}")


def _failures(case: Case, results: Results) -> Iterator[str]:
    for name, tally in results.tallies.get(case.name, {}).items():
        if tally.failed:
            yield f"{name}: {tally.why}"


if __name__ == "__main__":
    main()
