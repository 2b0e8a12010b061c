"""Fit calibrators to rows that do not fit into memory: each step of the search is one pass over
blocks of rows.

The blocks are those of the fit in memory, and their sums are added in the same order. Without
weights and dropped rows the fit is bit-identical; otherwise it agrees up to rounding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn.base import clone

from ...data.predictions import Predictions
from ...data.work import Progress, default_threads
from ...engines.cluster import joined
from ...engines.good_rows import calibrator_outputs, good_of_block, weights_of
from ...engines.row_source import RowSource
from ...errors import InputError
from ...states import Plan
from ..base import MOST_ROWS, Calibrator, Sample
from .softmax_sums import (
    BlockViews,
    SoftmaxRows,
    SoftmaxSums,
    V,
    rows_per_block,
    sample_numbers,
    sum_in_order,
)
from .summed import SummedCalibrator

C = TypeVar("C", bound=Calibrator)
Job = Callable[[int, Predictions], Any]
Each = Callable[[Job, int], Iterable[Any]]


def fits_in_passes(calibrator: Calibrator) -> bool:
    """Whether a calibrator can be fitted in passes: its fit needs only sums over rows."""
    return isinstance(calibrator, SummedCalibrator)


def fit_stream(
    calibrator: C, source: RowSource, *, threads: int | None = None, progress: bool | None = False
) -> C:
    """A copy of a calibrator, fitted to the rows of a source (`scan`) in repeated passes.

    The result is that of the fit in memory, up to the rounding of sums.

    progress : whether to show a progress bar for each pass; None for only on a terminal.
    """
    threads = default_threads() if threads is None else threads
    return fit_in_passes(
        calibrator, source.plan(), source.n, partial(_each_of_source, source, threads, progress)
    )


def _each_of_source(
    source: RowSource, threads: int, progress: bool | None, job: Job, rows: int
) -> Iterator[Any]:
    """The results of a job for every block of `rows` rows, in order. `threads` blocks run at a
    time."""
    waiting: deque[tuple[int, Future[Any]]] = deque()

    def first() -> Any:
        size, future = waiting.popleft()
        result = future.result()
        bar.advance(size)
        return result

    with Progress(source.n, progress) as bar, ThreadPoolExecutor(threads) as pool:
        for start, block in source.blocks(rows):
            waiting.append((len(block), pool.submit(job, start, block)))
            if len(waiting) > threads:
                yield first()
        while waiting:
            yield first()


def fit_in_passes(calibrator: C, plan: Plan, n: int, each: Each) -> C:
    """A copy of a calibrator, fitted to the n rows of a plan.

    each : `each(job, rows)` gives `job(start, block)` for every block of `rows` consecutive rows,
        in order. It is called in each step of the search, with jobs that can be pickled.
    """
    if not isinstance(calibrator, SummedCalibrator):
        raise InputError(
            "calibrator",
            "must learn from sums over rows to be fitted to a stream",
            type(calibrator).__name__,
            way_out=("fit it to a sample",),
        )
    calibrator._check_choices()
    rows = StreamedRows(plan, n, each)
    copy = clone(calibrator).set_params(from_logits=rows.from_logits, classes=list(plan.classes))
    copy.classes_, copy.n_features_in_ = np.array(plan.classes), rows.classes
    copy.fit_report_ = copy.learn(rows)
    return cast(C, copy)


class BlockCounts(NamedTuple):
    """Counts of a block: the weight and the number of rows of each class, [2, K]; the largest
    weight; whether all outputs are finite; and the rows of the sample, if any."""

    counts: np.ndarray
    largest: float
    finite: bool
    few: Predictions | None


@dataclass(frozen=True)
class BlockReading:
    """Reads the rows of a block as a sample. Weights are divided by `largest` and multiplied by
    `scale`, so that they are numbers of rows as in `base.as_repeats`."""

    plan: Plan
    from_logits: bool = False
    largest: float = 1.0
    scale: float = 1.0

    def good(self, start: int, rows: Predictions) -> np.ndarray:
        """The indexes of the valid rows."""
        block = rows.block(0, len(rows))._replace(first_row=start)
        return np.flatnonzero(good_of_block(self.plan, block))

    def counts_of(self, numbers: np.ndarray, start: int, rows: Predictions) -> BlockCounts:
        """The counts of a block, and its rows among those with the given numbers."""
        good = self.good(start, rows)
        codes, weights = rows.codes[good], weights_of(rows, good)
        few = good[np.isin(good + start, numbers)]
        counts = np.stack(
            [np.bincount(codes, w, self.plan.n_classes) for w in (weights, np.ones(len(good)))]
        )
        return BlockCounts(
            counts,
            float(weights.max(initial=0.0)),
            bool(np.isfinite(rows.probs[good]).all()),
            rows.take(few) if len(few) else None,
        )

    def raw_sum(self, start: int, rows: Predictions) -> float:
        """The sum of the log losses of outputs that are probabilities."""
        sample = self.sample(start, rows)
        truth = sample.values[np.arange(len(sample)), sample.codes] / sample.values.sum(
            axis=1, dtype=np.float64
        )
        with np.errstate(divide="ignore"):
            return float(-(sample.weights @ np.log(truth)))

    def answer_of(
        self,
        view: Callable[[Sample], V],
        question: Callable[[V], Any],
        start: int,
        rows: Predictions,
    ) -> Any | None:
        """The result of a function for a view of the valid rows; None if there are none."""
        sample = self.sample(start, rows)
        return question(view(sample)) if len(sample) else None

    def scale_sums(
        self, beta: float, raw: bool, start: int, rows: Predictions
    ) -> np.ndarray | None:
        sample = self.sample(start, rows)
        return SoftmaxRows(sample, threads=1).scale_sums(beta, raw) if len(sample) else None

    def bias_sums(
        self, beta: float, bias: np.ndarray, start: int, rows: Predictions
    ) -> list[np.ndarray] | None:
        sample = self.sample(start, rows)
        return SoftmaxRows(sample, threads=1).bias_sums(beta, bias) if len(sample) else None

    def sample(self, start: int, rows: Predictions) -> Sample:
        good = self.good(start, rows)
        weights = weights_of(rows, good) / self.largest * self.scale
        return Sample(
            _calibrator_values(rows, good, self.from_logits),
            self.from_logits,
            rows.codes[good],
            weights,
        )


class StreamedRows(SoftmaxSums):
    """The valid rows of a plan, read again for every sum."""

    reread = True

    def __init__(self, plan: Plan, n: int, each: Each) -> None:
        self.classes, self._each = plan.n_classes, each
        count = partial(BlockReading(plan).counts_of, sample_numbers(n, self.classes))
        blocks: list[BlockCounts] = self._blocks(count)
        counts, largest = (
            sum_in_order(one.counts for one in blocks),
            max(one.largest for one in blocks),
        )
        self.from_logits = plan.kind in ("logits", "log_probabilities") and all(
            one.finite for one in blocks
        )
        self.n = int(counts[1].sum())
        if self.n == 0:
            raise InputError(plan.names.get("probs", "probs"), "must have at least one valid row")
        if np.count_nonzero(counts[1]) < 2:
            only = plan.classes[int(np.argmax(counts[1]))]
            raise InputError(
                plan.names.get("y", "y"),
                "needs rows of two classes or more",
                f"has one class, {only!r}",
            )
        given = float(counts[0].sum())
        scale = min(max(given, float(self.n)), MOST_ROWS) / (given / largest)
        self._row_weights = counts[0] / largest * scale
        self._reading = BlockReading(plan, self.from_logits, largest, scale)
        self._few = [one.few for one in blocks if one.few is not None]

    def _blocks(self, job: Job) -> list[Any]:
        results = self._each(job, rows_per_block(self.classes))
        return [result for result in results if result is not None]

    @property
    def weight(self) -> float:
        return float(self._row_weights.sum())

    @property
    def frequencies(self) -> np.ndarray:
        """The share of each class."""
        return self._row_weights / self.weight

    @property
    def raw_score(self) -> float:
        return (
            self.unscaled_score
            if self.from_logits
            else float(sum(self._blocks(self._reading.raw_sum))) / self.weight
        )

    @cached_property
    def few(self) -> Sample | None:
        return self._reading.sample(0, joined(self._few)) if self._few else None

    def viewed_as(self, view: Callable[[Sample], V]) -> BlockViews[V]:
        return BlockViews(
            lambda question: self._blocks(partial(self._reading.answer_of, view, question))
        )

    def scale_sums(self, beta: float, raw: bool) -> np.ndarray:
        return sum_in_order(self._blocks(partial(self._reading.scale_sums, beta, raw)))

    def bias_sums(self, beta: float, bias: np.ndarray) -> list[np.ndarray]:
        parts = self._blocks(partial(self._reading.bias_sums, beta, bias.copy()))
        return [sum_in_order(part) for part in zip(*parts, strict=True)]


def _calibrator_values(rows: Predictions, good: np.ndarray, logits: bool) -> np.ndarray:
    """The outputs in the form that calibrators take: float32 or float64, all columns; probabilities
    sum to 1."""
    values, _ = calibrator_outputs(rows, good, logits)
    return np.ascontiguousarray(values, np.float32 if values.dtype == np.float32 else np.float64)
