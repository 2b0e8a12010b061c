"""Rating grades: is the default rate of each grade that of its predicted probability? And has the
population moved between grades?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..data.arrays import as_array, as_numbers, data_frame
from ..data.inputs import RowOptions, check_equal_weights, rows_of, takes_row_options
from ..data.keywords import with_known_keywords
from ..data.populations import MOST_NUMBERS, group_column
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.events import EventTable
from ..scoring.intervals import Z95, wilson
from ..text import ShownAsTable, TextTable, p_value, percent
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
        """ "predicted too low", "predicted too high" or ""."""
        if not self.adjusted <= LEVEL:
            return ""
        return "predicted too low" if self.observed > self.predicted else "predicted too high"


@dataclass(frozen=True, repr=False)
class GradeTable(ShownAsTable):
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
        names = ("name", "rows", "events", "predicted", "binomial", "too_high", "jeffreys")
        columns: dict[str, list[Any]] = {
            name: [getattr(grade, name) for grade in self] for name in (*names, "adjusted")
        }
        columns["observed"] = [float(grade.observed) for grade in self]
        columns["observed_low"] = [grade.observed.low for grade in self]
        columns["observed_high"] = [grade.observed.high for grade in self]
        columns["verdict"] = [grade.verdict for grade in self]
        return data_frame(columns)

    def _text_table(self) -> TextTable:
        rows = [
            [
                str(grade.name),
                f"{grade.rows:,}",
                f"{grade.events:,}",
                percent(grade.predicted),
                percent(grade.observed),
                f"{percent(grade.observed.low)} to {percent(grade.observed.high)}",
                p_value(grade.adjusted),
                grade.verdict,
            ]
            for grade in self
        ]
        headers = ("grade", "rows", "events", "predicted", "observed", "95% interval", "p", "")
        return TextTable(f"{len(self)} grades", headers, rows, "p: adjusted for all grades (Holm).")


@takes_row_options
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
    instead = "`validation_table` with the grades as groups"
    rows.check_index("grades", grades)
    check_equal_weights(rows, "a test of grades", instead)
    if rows.cluster_numbers is not None:
        way_out = (f"use {instead}",)
        raise InputError("clusters", "a test of grades needs independent rows", way_out=way_out)
    event = EventTable.of(rows)
    members = event.rows
    assert members is not None
    p, happened = event.p[members.place], members.happened
    names, number = _grades_of(p, grades, scale, len(rows), members.number)
    return GradeTable(_tested(names, number, p, happened))


def _grades_of(
    p: np.ndarray, grades: Any, scale: Any, total: int, places: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    if scale is None:
        column = as_array(grades, "grades")
        if column.shape != (total,):
            raise InputError(
                "grades", f"must have one value per row ({total:,})", f"has shape {column.shape}"
            )
        found = group_column("grades", column[places], cut=False)
        return found.values, found.number
    limits = _rising(scale, "scale")
    if limits[0] <= 0 or limits[-1] >= 1:
        raise InputError("scale", "must lie inside (0, 1)", limits.tolist())
    text = [f"{limit:g}" for limit in limits.tolist()]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(text)]
    names = (f"below {text[0]}", *between, f"{text[-1]} and above")
    return names, np.searchsorted(limits, p, side="right")


def _rising(limits: Any, argument: str) -> np.ndarray:
    values = np.atleast_1d(as_numbers(limits, argument))
    if values.ndim != 1 or not len(values):
        raise InputError(argument, "must be a list of limits", f"has shape {values.shape}")
    if not np.isfinite(values).all() or not (np.diff(values) > 0).all():
        raise InputError(argument, "must be finite, rising limits", values.tolist())
    return np.asarray(values)


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


@with_known_keywords
def population_stability(expected: Any, actual: Any, *, bins: Any = None) -> Estimate:
    """The population stability index between two samples of probabilities or grades: the sum over
    bins of (a - e) log(a / e), where a and e are the shares of rows. It is the Jeffreys divergence
    of the two histograms.

    bins : the number of bins with equally many expected rows, or their limits; 10 by default. Text,
        and numbers with at most 20 different values, are their own bins, and take none.

    Shares below 0.01% count as that, so that an empty bin does not make the index infinite. Rules
    of thumb call 0.1 to 0.25 a small shift and more a large one, whatever the number of rows. The
    interval (delta method, centred at the index minus its bias) tells whether the rows show one.

    >>> population_stability(["a", "a", "b", "b"], ["a", "a", "b", "b"]).value
    0.0
    """
    counts = _histograms(_column(expected, "expected"), _column(actual, "actual"), bins)
    e, a = (np.maximum(count / count.sum(), LEAST_SHARE) for count in counts)
    value = math.fsum((a - e) * np.log(a / e))
    slopes = (1 - a / e - np.log(a / e), np.log(a / e) + 1 - e / a)
    variance = sum(
        (float((x * slope**2).sum()) - float((x * slope).sum()) ** 2) / count.sum()
        for x, slope, count in zip((e, a), slopes, counts, strict=True)
    )
    bias = (len(e) - 1) * sum(1 / count.sum() for count in counts)
    half = Z95 * math.sqrt(max(variance, 0.0))
    return Estimate(
        value,
        low=min(value, max(value - bias - half, 0.0)),
        high=max(value, value - bias + half),
        n=int(counts[0].sum() + counts[1].sum()),
        definition=f"population stability index, {len(e)} bins",
    )


def _column(values: Any, argument: str) -> np.ndarray:
    column = as_array(values, argument)
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if column.ndim != 1 or not len(column):
        raise InputError(argument, "must be one column with rows", f"has shape {column.shape}")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0])
        raise InputError(argument, "must be finite", column[row], row=row)
    return column


def _histograms(first: np.ndarray, second: np.ndarray, bins: Any) -> list[np.ndarray]:
    both = (first, second)
    text = any(x.dtype.kind not in "fiu" for x in both)
    if text or (bins is None and len(np.unique(np.concatenate(both))) <= MOST_NUMBERS):
        if bins is not None:
            raise InputError("bins", "must be omitted for text, whose values are the bins", bins)
        names = np.unique(np.concatenate([x.astype(str) if text else x for x in both]))
        return [
            np.bincount(np.searchsorted(names, x.astype(str) if text else x), minlength=len(names))
            for x in both
        ]
    if bins is None or isinstance(bins, (int, np.integer)):
        count = 10 if bins is None else int(bins)
        if count < 2:
            raise InputError("bins", "must be at least 2", bins)
        limits = np.unique(np.quantile(first, np.arange(1, count) / count))
    else:
        limits = _rising(bins, "bins")
    return [
        np.bincount(np.searchsorted(limits, x, side="right"), minlength=len(limits) + 1)
        for x in both
    ]
