"""Rating grades: is the default rate of each grade that of its predicted probability? And has the
population moved between grades?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..data.arrays import as_array, as_numbers
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.populations import MOST_NUMBERS, group_column
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.events import EventTable
from ..scoring.intervals import Z95, wilson
from .significance import holm

LEVEL = 0.05
LEAST_SHARE = 1e-4  # of a grade without rows, so that the stability index stays finite


@dataclass(frozen=True)
class Grade:
    """Rows of one grade: the mean predicted probability, the observed rate with Wilson's interval,
    and the one-sided p-values that the probability is too low.

    binomial : P(at least as many events | predicted). jeffreys : the posterior probability that
        the rate is at most the predicted one, with Jeffreys' prior (ECB 2019, Section 2.5.3.1).
    too_high : P(at most as many events | predicted), the other side of the binomial test.
    adjusted : the smaller of both binomial tails, doubled, after Holm's correction for the number
        of grades.
    """

    name: str
    rows: int
    events: int
    predicted: float
    observed: Estimate
    binomial: float
    too_high: float
    jeffreys: float
    adjusted: float

    @property
    def verdict(self) -> str:
        """ "risk too low", "risk too high" or ""."""
        if not self.adjusted <= LEVEL:
            return ""
        return "risk too low" if self.observed > self.predicted else "risk too high"


@dataclass(frozen=True)
class GradeTable:
    """The grades in order."""

    grades: tuple[Grade, ...]

    def __iter__(self) -> Iterator[Grade]:
        return iter(self.grades)

    def __len__(self) -> int:
        return len(self.grades)

    def __getitem__(self, place: int) -> Grade:
        return self.grades[place]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each grade."""
        import narwhals as nw

        names = ("name", "rows", "events", "predicted", "binomial", "too_high", "jeffreys")
        columns: dict[str, list[Any]] = {
            name: [getattr(grade, name) for grade in self] for name in (*names, "adjusted")
        }
        columns["observed"] = [float(grade.observed) for grade in self]
        columns["observed_low"] = [grade.observed.low for grade in self]
        columns["observed_high"] = [grade.observed.high for grade in self]
        columns["verdict"] = [grade.verdict for grade in self]
        return nw.from_dict(columns, backend="pandas").to_native()


@documents_row_options
def grade_table(
    y_true: Any,
    y_proba: Any = None,
    grades: Any = None,
    *,
    scale: Any = None,
    **options: Unpack[RowOptions],
) -> GradeTable:
    """Test each rating grade: a binomial test and Jeffreys' test of the predicted probability.

    grades : the grade of each row; or
    scale : a master scale, the rising limits of the probability between grades. A row on a limit
        belongs to the higher grade.

    Tests assume independent rows of equal weight.

    >>> table = grade_table([0, 1, 1, 0], [0.1, 0.2, 0.6, 0.7], scale=[0.5])
    >>> [(grade.name, grade.rows, grade.events) for grade in table]
    [('below 0.5', 2, 1), ('0.5 and above', 2, 1)]
    """
    if (grades is None) == (scale is None):
        raise InputError("grades", "give either the grade of each row or a master scale")
    rows = rows_of(y_true, y_proba, **options)
    if rows.sample_weight is not None or rows.cluster_numbers is not None:
        argument = "clusters" if rows.sample_weight is None else "sample_weight"
        raise InputError(
            argument,
            "tests of grades assume independent rows of equal weight",
            way_out=("use `validation_table` with the grades as groups",),
        )
    event = EventTable.of(rows)
    members = event.rows
    assert members is not None
    p, happened = event.p[members.place], members.happened
    names, number = _grades_of(p, grades, scale, len(rows))
    return GradeTable(_tested(names, number, p, happened))


def _grades_of(
    p: np.ndarray, grades: Any, scale: Any, rows: int
) -> tuple[tuple[str, ...], np.ndarray]:
    if scale is None:
        column = as_array(grades, "grades")
        if len(column) != rows or len(p) != rows:
            raise InputError("grades", f"must have one value for each of {len(p):,} rows", rows)
        known, number = np.unique(column.astype(str), return_inverse=True)
        if len(known) > MOST_NUMBERS:  # many numbers would be cut into ranges
            return tuple(known.tolist()), number.reshape(-1)
        found = group_column("grades", column)
        return found.values, found.number
    limits = np.atleast_1d(as_numbers(scale, "scale"))
    if not len(limits) or not (np.diff(limits) > 0).all() or limits[0] <= 0 or limits[-1] >= 1:
        raise InputError("scale", "must be rising limits inside (0, 1)", limits.tolist())
    text = [f"{limit:g}" for limit in limits.tolist()]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(text)]
    names = (f"below {text[0]}", *between, f"{text[-1]} and above")
    return names, np.searchsorted(limits, p, side="right")


def _tested(
    names: tuple[str, ...], number: np.ndarray, p: np.ndarray, happened: np.ndarray
) -> tuple[Grade, ...]:
    from scipy.special import betainc
    from scipy.stats import binom

    found = []
    for place, name in enumerate(names):
        inside = number == place
        n, k = int(inside.sum()), int(happened[inside].sum())
        if not n:
            continue
        mean = math.fsum(p[inside]) / n
        low, high = wilson(k / n, n)
        words = "share of rows in which the event happened"
        found.append(
            (
                name,
                n,
                k,
                mean,
                Estimate(k / n, low=low, high=high, n=n, definition=words),
                float(binom.sf(k - 1, n, mean)),
                float(binom.cdf(k, n, mean)),
                float(betainc(k + 0.5, n - k + 0.5, mean)),
            )
        )
    both = np.array([min(1.0, 2 * min(grade[5], grade[6])) for grade in found])
    return tuple(
        Grade(*grade, adjusted=q) for grade, q in zip(found, holm(both).tolist(), strict=True)
    )


def population_stability(expected: Any, actual: Any, *, bins: int | Any = 10) -> Estimate:
    """The population stability index between two samples of probabilities (or of grades): the sum
    over bins of (a - e) log(a / e), a and e the shares of rows. It is the Jeffreys divergence of
    the two histograms.

    bins : so many bins with equally many expected rows, or their limits. Grades given as text are
        their own bins.

    Shares below 0.01% count as that, so that an empty bin does not make the index infinite. Rules
    of thumb call 0.1 to 0.25 a small and more a large shift; they ignore the number of rows, so the
    interval matters: it comes from the delta method.

    >>> population_stability(["a", "a", "b", "b"], ["a", "a", "b", "b"]).value
    0.0
    """
    first, second = as_array(expected, "expected"), as_array(actual, "actual")
    if not len(first) or not len(second):
        raise InputError("actual" if len(first) else "expected", "must have rows")
    if first.dtype.kind in "OUSTb":
        names = np.unique(np.concatenate([first.astype(str), second.astype(str)]))
        counts = [
            np.bincount(np.searchsorted(names, x.astype(str)), minlength=len(names))
            for x in (first, second)
        ]
    else:
        limits = _limits(as_numbers(first, "expected"), bins)
        counts = [
            np.bincount(np.searchsorted(limits, x, side="right"), minlength=len(limits) + 1)
            for x in (as_numbers(first, "expected"), as_numbers(second, "actual"))
        ]
    e, a = (np.maximum(count / count.sum(), LEAST_SHARE) for count in counts)
    value = math.fsum((a - e) * np.log(a / e))
    slopes = (1 - a / e - np.log(a / e), np.log(a / e) + 1 - e / a)
    variance = sum(
        (float((x * slope**2).sum()) - float((x * slope).sum()) ** 2) / count.sum()
        for x, slope, count in zip((e, a), slopes, counts, strict=True)
    )
    half = Z95 * math.sqrt(max(variance, 0.0))
    words = f"population stability index, {len(e)} bins"
    n = int(counts[0].sum() + counts[1].sum())
    return Estimate(value, low=max(value - half, 0.0), high=value + half, n=n, definition=words)


def _limits(expected: np.ndarray, bins: int | Any) -> np.ndarray:
    if isinstance(bins, (int, np.integer)):
        if bins < 2:
            raise InputError("bins", "must be at least 2", bins)
        return np.unique(np.quantile(expected, np.arange(1, bins) / bins))
    limits = np.atleast_1d(as_numbers(bins, "bins"))
    if not (np.diff(limits) > 0).all():
        raise InputError("bins", "limits must rise", limits.tolist())
    return np.asarray(limits)
