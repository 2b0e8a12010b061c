"""Sums over rows of the log loss of softmax(beta z + b) and of its derivatives, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ...data.work import default_threads
from ...kernels import scaled_softmax
from ...states.sampling import drawn
from ..base import Sample
from .newton import CLOSE, Minimum, Point, bounded_minimum

# values in a block; independent of the number of threads, so that sums are too
BLOCK_VALUES = 2**20
MOST_DENSE = 32  # classes up to which the full Hessian is summed
MOST_NARROW = 64  # classes up to which loops over rows are faster than loops along a row
SPREAD = 500.0  # e^-500 does not underflow
LONGEST = 3.0  # the longest Newton step of a bias
SCALES = (1e-3, 1e3)  # bounds of a scale, which is 1 / temperature
# a sample that searches start from: its share of the rows, and its least and most rows and values
SAMPLE_SHARE, LEAST_SAMPLE, MOST_SAMPLE, SAMPLE_VALUES = 32, 256, 2**14, 2**21
ROUGH = 0.1  # relative step at which the search among the rows of a sample ends

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class BlockViews(Generic[V]):
    """Views of blocks of rows. each : applies a function to all views and returns the results in
    order."""

    each: Callable[[Callable[[V], Any]], list[Any]]

    def sums(self, question: Callable[[V], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The sum over blocks of each array that the function returns."""
        return [sum_in_order(parts) for parts in zip(*self.each(question), strict=True)]


class SoftmaxSums(ABC):
    """The sums that a fit needs, over rows with scores z (logits or log-probabilities), in memory
    or not.

    n, classes : the numbers of rows and of classes. from_logits : whether z are logits. weight :
        the sum of weights. frequencies : the weighted share of each class. reread : whether every
        sum reads the rows again, so that it is faster to compute several sums at once.
    """

    n: int
    classes: int
    from_logits: bool
    reread: ClassVar[bool]

    @property
    @abstractmethod
    def weight(self) -> float: ...

    @property
    @abstractmethod
    def frequencies(self) -> np.ndarray: ...

    @property
    @abstractmethod
    def raw_score(self) -> float:
        """The mean log loss before calibration; infinite if a true class has probability 0."""

    @abstractmethod
    def viewed_as(self, view: Callable[[Sample], V]) -> BlockViews[V]:
        """A view of each block of rows, for any sums. Functions of a view must return new arrays,
        as sums are added in place."""

    @abstractmethod
    def scale_sums(self, beta: float, raw: bool) -> np.ndarray:
        """The sums over rows of the log loss of softmax(beta z), of its first three derivatives
        with respect to beta, and (0 unless `raw`) of the log loss of softmax(z)."""

    @abstractmethod
    def bias_sums(self, beta: float, bias: np.ndarray) -> list[np.ndarray]:
        """The sums over rows of the log loss of softmax(beta z + b), and of its first two
        derivatives with respect to beta, followed by the sums for the derivatives with respect to
        the biases (see `Derivatives`)."""

    @cached_property
    @abstractmethod
    def few(self) -> Sample | None:
        """The rows of `sample_numbers`, if there are any."""

    @property
    def present(self) -> np.ndarray:
        """The classes that have rows."""
        return np.flatnonzero(self.frequencies)

    @property
    def unscaled_score(self) -> float:
        """The mean log loss of softmax(z)."""
        return float(self._first[4] if self.from_logits else self.at_scale(1.0)[0])

    def at_scale(self, beta: float) -> np.ndarray:
        """The mean log loss of softmax(beta z), and its first three derivatives with respect to
        beta."""
        mean = self._first if beta == self._start else self.scale_sums(beta, False) / self.weight
        return np.asarray(mean[:4])

    def best_scale(self, low: float, high: float, close: float = CLOSE) -> Minimum:
        """The scale within bounds with the lowest log loss, to a relative step of `close`.

        The search starts from the best scale of a sample of the rows, if there is one. The start
        changes how many steps it takes, and the result only within its precision.
        """
        return bounded_minimum(self.at_scale, min(max(self._start, low), high), low, high, close)

    @cached_property
    def _start(self) -> float:
        """About the best scale of a sample of the rows; 1 without a sample, or if its best scale is
        at a bound, such as that of a sample without errors."""
        if self.few is None:
            return 1.0
        low, high = SCALES
        found = SoftmaxRows(self.few).best_scale(low, high, ROUGH)
        return float(found.at) if found.converged and low < found.at < high else 1.0

    @cached_property
    def _first(self) -> np.ndarray:
        """The means where a search starts and, for logits, the log loss of softmax(z), which is
        their `raw_score`: one pass for both."""
        start = self._start
        sums = self.scale_sums(start, self.from_logits and start != 1.0)
        if start == 1.0:
            sums[4] = sums[0]
        return sums / self.weight

    def at(self, beta: float, bias: np.ndarray) -> Derivatives:
        """The mean log loss of softmax(beta z + b) and its derivatives."""
        sums, mass, slope, squares = (part / self.weight for part in self.bias_sums(beta, bias))
        return Derivatives(
            value=float(sums[0]),
            slope=float(sums[1]),
            curvature=float(sums[2]),
            bias_slope=mass - self.frequencies,
            mixed=slope,
            mass=mass,
            squares=squares,
        )


class SoftmaxRows(SoftmaxSums):
    """The sums over rows in memory."""

    reread = False

    def __init__(self, sample: Sample, threads: int | None = None) -> None:
        self.sample = sample
        self.codes, self.weights = sample.codes.astype(np.int64, copy=False), sample.weights
        self.threads = default_threads() if threads is None else threads
        self.n, self.classes = sample.values.shape
        self.from_logits = sample.from_logits

    @cached_property
    def scores(self) -> np.ndarray:
        return self.sample.values if self.sample.from_logits else self.sample.log_probs

    @cached_property
    def tops(self) -> np.ndarray:
        tops = np.empty(self.n)
        self._each(lambda block: scaled_softmax.row_tops(self.scores[block], tops[block]))
        return tops

    @cached_property
    def weight(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def frequencies(self) -> np.ndarray:
        """The share of each class."""
        return np.bincount(self.codes, self.weights, self.classes) / self.weight

    @property
    def raw_score(self) -> float:
        if self.sample.from_logits:
            return self.unscaled_score
        values = self.sample.values
        truth = values[np.arange(self.n), self.codes] / values.sum(axis=1, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return float(-(self.weights @ np.log(truth)) / self.weight)

    @property
    def _blocks(self) -> list[slice]:
        size = rows_per_block(self.classes)
        return [slice(start, start + size) for start in range(0, self.n, size)]

    def _each(self, job: Callable[[slice], Any]) -> list[Any]:
        """The results of a job for each block, in order."""
        return self._done(job, self._blocks)

    def _done(self, job: Callable[[T], Any], parts: Sequence[T]) -> list[Any]:
        if min(self.threads, len(parts)) < 2:
            return [job(part) for part in parts]
        with ThreadPoolExecutor(min(self.threads, len(parts))) as pool:
            return list(pool.map(job, parts))

    @cached_property
    def _samples(self) -> list[Sample]:
        """The rows of each block."""
        if len(self._blocks) == 1:
            return [self.sample]
        samples = [self.sample.take(block) for block in self._blocks]
        if not self.sample.from_logits:  # log-probabilities are the scores: save a copy
            for sample, block in zip(samples, self._blocks, strict=True):
                vars(sample)["log_probs"] = self.scores[block]
        return samples

    def viewed_as(self, view: Callable[[Sample], V]) -> BlockViews[V]:
        views: list[V | None] = [None] * len(self._samples)

        def each(question: Callable[[V], Any]) -> list[Any]:
            def job(block: int) -> Any:
                made = views[block]
                if made is None:
                    made = views[block] = view(self._samples[block])
                return question(made)

            return self._done(job, range(len(views)))

        return BlockViews(each)

    def scale_sums(self, beta: float, raw: bool) -> np.ndarray:
        tops = self.tops

        def job(block: slice) -> np.ndarray:
            sums = np.zeros(5)
            rows = self.scores[block], tops[block], self.codes[block], self.weights[block]
            if self.classes <= MOST_NARROW:
                scaled_softmax.narrow_scale_sums(*rows, beta, raw, sums)
            else:
                scaled_softmax.scale_sums(*rows, beta, raw, sums)
            return sums

        return sum_in_order(self._each(job))

    def bias_sums(self, beta: float, bias: np.ndarray) -> list[np.ndarray]:
        dense = self.classes <= MOST_DENSE
        shifts = self._shifts(beta, bias)

        def job(block: slice) -> list[np.ndarray]:
            sums = scaled_softmax.BiasSums(np.zeros(3), *np.zeros((3, self.classes)))
            products = np.zeros((self.classes, self.classes)) if dense else None
            rows = scaled_softmax.ShiftedRows(
                self.scores[block],
                self.tops[block],
                shifts[block],
                self.codes[block],
                self.weights[block],
            )
            scaled_softmax.bias_sums(rows, beta, bias, sums, products)
            return [*sums[:3], sums.squares if products is None else products]

        return [sum_in_order(parts) for parts in zip(*self._each(job), strict=True)]

    @cached_property
    def few(self) -> Sample | None:
        numbers = sample_numbers(self.n, self.classes)
        return self.sample.take(numbers) if len(numbers) else None

    def probabilities(self, beta: float, bias: np.ndarray | None = None) -> np.ndarray:
        """softmax(beta z + b), [n, K]."""
        out = np.empty(self.scores.shape)
        shifts = np.zeros(len(out)) if bias is None else self._shifts(beta, bias)

        def job(block: slice) -> None:
            scaled_softmax.softmax_rows(
                self.scores[block], self.tops[block], shifts[block], beta, bias, out[block]
            )

        self._each(job)
        return out

    def brier(self, beta: float) -> float:
        """The mean Brier score of softmax(beta z)."""

        def job(block: slice) -> float:
            rows = self.scores[block], self.tops[block], self.codes[block], self.weights[block]
            if self.classes <= MOST_NARROW:
                return scaled_softmax.narrow_brier_sum(*rows, beta)
            return scaled_softmax.brier_sum(*rows, beta)

        return float(sum(self._each(job))) / self.weight

    def _shifts(self, beta: float, bias: np.ndarray) -> np.ndarray:
        """The number subtracted from the exponents of each row, so that none overflows. The
        largest bias suffices while biases are close together."""
        shifts = np.full(len(self.scores), bias.max())
        if np.ptp(bias) > SPREAD:
            self._each(
                lambda block: scaled_softmax.largest_biased(
                    self.scores[block], beta, bias, self.tops[block], shifts[block]
                )
            )
        return shifts


def rows_per_block(classes: int) -> int:
    """The number of rows in a block."""
    return max(1, BLOCK_VALUES // classes)


def sample_numbers(n: int, classes: int) -> np.ndarray:
    """The numbers of the rows, of n, that a search starts from; none if there are few rows."""
    size = min(n // SAMPLE_SHARE, MOST_SAMPLE, SAMPLE_VALUES // classes)
    return drawn(n, size) if size >= LEAST_SAMPLE else np.empty(0, np.int64)


def sum_in_order(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The sum, added in order (and in place: into the first part)."""
    first, *rest = parts
    for part in rest:
        first += part
    return first


@dataclass(frozen=True)
class Derivatives:
    """The mean log loss and its derivatives with respect to the scale beta and the biases b."""

    value: float
    slope: float  # beta
    curvature: float  # beta, beta
    bias_slope: np.ndarray  # b
    mixed: np.ndarray  # beta, b
    mass: np.ndarray  # mean p_k
    squares: np.ndarray  # mean p_k^2, or mean p_j p_k in the upper triangle

    def point(self, present: np.ndarray) -> Point:
        """As a function of beta and the biases of the classes with rows, whose mean is fixed."""
        biases = self.bias_slope[present]
        gradient = np.concatenate([[self.slope], biases - biases.mean()])
        mass, mixed = self.mass[present], self.mixed[present]
        if self.squares.ndim == 1:
            own = mass - self.squares[present]
            return Point(
                self.value, gradient, Arrow(self.curvature, mixed, shortened(own, gradient[1:]))
            )
        products = self.squares[np.ix_(present, present)]
        products = np.triu(products) + np.triu(products, 1).T
        second = np.block(
            [
                [np.array([[self.curvature]]), mixed[None]],
                [mixed[:, None], np.diag(mass) - products],
            ]
        )
        own = np.diag(second)[1:]
        second[np.arange(1, len(second)), np.arange(1, len(second))] += (
            shortened(own, gradient[1:]) - own
        )
        return Point(self.value, gradient, Dense(second))


def shortened(
    curvature: np.ndarray, gradient: np.ndarray, unit: np.ndarray | float = 1.0
) -> np.ndarray:
    """The curvature, raised where a Newton step would be longer than LONGEST units.

    Far from the minimum the log loss of a rare class is nearly linear in its bias, so that Newton
    steps are too long. Near the minimum nothing is raised.
    """
    least = max(1e-10 * curvature.max(), np.finfo(np.float64).tiny)
    return np.maximum(np.maximum(curvature, np.abs(gradient) / (LONGEST * unit)), least)


@dataclass(frozen=True)
class Dense:
    """The full Hessian."""

    matrix: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        """A Lagrange multiplier keeps the mean of the biases. Least squares does not move in
        directions that the rows do not determine."""
        first = int(held)
        matrix = self.matrix[first:, first:]
        size = np.sqrt(np.maximum(np.diag(matrix), np.finfo(np.float64).tiny))
        border = np.ones(len(matrix))
        border[: 1 - first] = 0
        bordered = np.zeros((len(matrix) + 1, len(matrix) + 1))
        bordered[:-1, :-1] = matrix / size / size[:, None] + 1e-12 * np.eye(len(matrix))
        bordered[-1, :-1] = bordered[:-1, -1] = border / size * size[1 - first :].min()
        solution = np.linalg.lstsq(bordered, np.append(v[first:] / size, 0.0), rcond=1e-13)[0]
        out = np.zeros(len(v))
        out[first:] = solution[:-1] / size
        return out


@dataclass(frozen=True)
class Arrow:
    """The arrowhead part of the Hessian: the scale, the scale with each bias, and the diagonal of
    the biases.

    Off the diagonal, the Hessian of the biases is -mean p_j p_k, which is small with many classes.
    """

    scale: float
    mixed: np.ndarray
    own: np.ndarray

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray:
        inverse = 1 / self.own

        def centred(u: np.ndarray) -> np.ndarray:
            return inverse * (u - (inverse @ u) / inverse.sum())

        along = centred(self.mixed)
        left = max(self.scale - self.mixed @ along, 0.1 * self.scale, np.finfo(np.float64).tiny)
        first = 0.0 if held else (v[0] - along @ v[1:]) / left
        return np.concatenate([[first], centred(v[1:]) - along * first])
