"""Decision curves: the net benefit of acting on a probability at each threshold (Vickers & Elkin
2006), and the threshold at which decisions cost least."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import as_numbers, data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..text import ShownAsTable, TextTable, capitalised, counted, evenly_spaced, number, significant
from .events import EventTable
from .intervals import Z95, wilson
from .operating_points import OperatingPoints

THRESHOLDS = np.arange(1, 100) / 100
THRESHOLDS.flags.writeable = False
# The least cost is that of many thresholds, which a single test at 1.96 would not allow for. With
# this many standard errors, the interval held the best threshold in at least 94% of simulations.
CLEARLY = 2.5


@dataclass(frozen=True, eq=False, repr=False)
class DecisionCurve(ShownAsTable):
    """Net benefit at each threshold, with the ends of its 95% intervals, beside the two decisions
    that need no model.

    treat_all : the net benefit of acting on every row. Acting on none has the net benefit 0.
    rate : how often the event happened.
    """

    thresholds: np.ndarray
    net_benefit: np.ndarray
    low: np.ndarray
    high: np.ndarray
    treat_all: np.ndarray
    rate: float
    n: int
    definition: str
    event: EventTable = field(repr=False)

    @property
    def treat_none(self) -> np.ndarray:
        return np.zeros(len(self.thresholds))

    @property
    def useful(self) -> np.ndarray:
        """Where the net benefit exceeds those of acting on all rows and on none."""
        return np.asarray(self.net_benefit > np.maximum(self.treat_all, 0.0))

    def minus(self, other: DecisionCurve) -> CurveDifference:
        """The difference to the curve of another model of the same rows, with paired intervals.

        >>> y, a, b = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], [0.2, 0.6, 0.3, 0.7]
        >>> one, two = (decision_curve(y, p, thresholds=[0.5]) for p in (a, b))
        >>> one.minus(two).value
        array([0.25])
        """
        mine, theirs = self.event.rows, other.event.rows
        if mine is None or theirs is None:
            raise InputError("other", "paired differences require rows in memory")
        if not np.array_equal(self.thresholds, other.thresholds):
            raise InputError("other", "must have the same thresholds")
        parts = ("number", "happened", "weight")
        if not all(np.array_equal(getattr(mine, x), getattr(theirs, x)) for x in parts):
            raise InputError("other", "must be a curve of the same rows, in the same order")
        return _paired_difference(self, other)

    def columns(self) -> dict[str, np.ndarray]:
        """The curve as columns, one value for each threshold."""
        return {
            "threshold": self.thresholds,
            "net_benefit": self.net_benefit,
            "low": self.low,
            "high": self.high,
            "treat_all": self.treat_all,
            "treat_none": self.treat_none,
        }

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame."""
        return data_frame(self.columns())

    def _text_table(self) -> TextTable:
        rows = list(zip(*self.columns().values(), strict=True))
        shown = evenly_spaced(rows)
        left_out = len(shown) < len(rows)
        return TextTable(
            f"{capitalised(self.definition)}, {counted(self.n)}",
            ("threshold", "net benefit", "95% interval", "treat all", "treat none"),
            [
                [significant(t), number(x), f"{number(low)} to {number(high)}", *map(number, rest)]
                for t, x, low, high, *rest in shown
            ],
            f"{len(shown)} of {len(rows)} thresholds; to_frame() has all." if left_out else "",
        )


@dataclass(frozen=True, eq=False)
class CurveDifference:
    """The difference of two decision curves at each threshold, with its 95% interval."""

    thresholds: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


@takes_row_options
def decision_curve(
    y_true: Any,
    y_proba: Any = None,
    thresholds: Any = None,
    **options: Unpack[RowOptions],
) -> DecisionCurve:
    """The net benefit of a two-class model at each threshold (Vickers & Elkin 2006).

    At threshold t, the model acts on rows whose probability is t or more. A false alarm then counts
    t / (1 - t) as much as an event that was acted on, so that
    net benefit = TP / n - FP / n * t / (1 - t).

    thresholds : inside (0, 1); 0.01, 0.02, ..., 0.99 by default.

    Intervals combine Wilson's limits of TP / n and FP / n (MOVER: Zou & Donner 2008).

    >>> curve = decision_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], thresholds=[0.2, 0.5])
    >>> curve.net_benefit.round(4), curve.treat_all
    (array([0.4375, 0.25  ]), array([0.375, 0.   ]))
    """
    return decision_curve_of(EventTable.of(rows_of(y_true, y_proba, **options)), thresholds)


def decision_curve_of(event: EventTable, thresholds: Any = None) -> DecisionCurve:
    """The decision curve of an event."""
    t = THRESHOLDS if thresholds is None else _checked_thresholds(thresholds)
    odds = t / (1 - t)
    points = OperatingPoints.of(event, t)
    true, false = points.hits, points.false_alarms
    value = true - odds * false
    low, high = _limits(event, t, true, false)
    rate = event.rate
    words = "net benefit = TP / n - FP / n x t / (1 - t)" + event.words
    return DecisionCurve(
        thresholds=t,
        net_benefit=value,
        low=low,
        high=high,
        treat_all=rate - odds * (1 - rate),
        rate=rate,
        n=event.n,
        definition=words,
        event=event,
    )


def _checked_thresholds(thresholds: Any) -> np.ndarray:
    t = np.atleast_1d(as_numbers(thresholds, "thresholds"))
    if t.ndim != 1:
        raise InputError("thresholds", "must be a list of numbers", f"has shape {t.shape}")
    if not len(t) or not ((t > 0) & (t < 1)).all():
        outside = t[~((t > 0) & (t < 1))]
        raise InputError(
            "thresholds", "must lie inside (0, 1)", outside[0] if len(outside) else "none"
        )
    return np.asarray(t)


def _limits(
    event: EventTable, t: np.ndarray, true: np.ndarray, false: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The two shares are correlated: a row cannot be in both."""
    odds, rows = t / (1 - t), _rows_at(event, t)
    (low_true, high_true), (low_false, high_false) = wilson(true, rows), wilson(false, rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        joint = -np.sqrt(true * false / ((1 - true) * (1 - false)))
    joint = np.where(np.isfinite(joint), joint, 0.0)

    def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(a**2 + b**2 - 2 * joint * a * b, 0.0))

    value = true - odds * false
    down = distance(true - low_true, odds * (high_false - false))
    up = distance(high_true - true, odds * (false - low_false))
    return value - down, value + up


def _rows_at(event: EventTable, t: np.ndarray) -> np.ndarray:
    """How many independent rows of equal weight say as much at each threshold."""
    rows = np.full(len(t), event.effective_rows)
    if event.rows is None or event.rows.clusters is None:
        return rows
    for i, threshold in enumerate(t.tolist()):
        acted = (event.p >= threshold)[:, None] * np.array([-threshold / (1 - threshold), 1.0])
        rows[i] /= event.widening(acted - float((event.share * acted).sum())) ** 2
    return rows


def _row_benefits(curve: DecisionCurve, threshold: float) -> np.ndarray:
    rows = curve.event.rows
    assert rows is not None
    acted = curve.event.p[rows.place] >= threshold
    return acted * np.where(rows.happened == 1, 1.0, -threshold / (1 - threshold))


def _paired_difference(one: DecisionCurve, two: DecisionCurve) -> CurveDifference:
    rows = one.event.rows
    assert rows is not None
    share, n = rows.weight / rows.weight.sum(), one.n
    half = np.empty(len(one.thresholds))
    for i, threshold in enumerate(one.thresholds.tolist()):
        apart = _row_benefits(one, threshold) - _row_benefits(two, threshold)
        centred = apart - share @ apart
        widening = 1.0 if rows.clusters is None else rows.clusters.widening(centred)
        error = math.sqrt(float(((share * centred) ** 2).sum()) * n / max(n - 1, 1))
        half[i] = Z95 * error * widening
    value = one.net_benefit - two.net_benefit
    return CurveDifference(one.thresholds, value, value - half, value + half)


@dataclass(frozen=True, repr=False)
class BestThreshold(ShownAsTable):
    """The threshold at which decisions cost least.

    threshold : with an interval of the thresholds whose cost is not clearly larger. It is infinite
        where it is best never to make the second decision.
    cost : the mean cost there.
    bayes_threshold, bayes_cost : the threshold that is best if the probabilities are calibrated,
        and the mean cost there.
    """

    threshold: Estimate
    cost: float
    bayes_threshold: float
    bayes_cost: float

    def to_frame(self) -> Any:
        """The two thresholds and their costs as a pandas DataFrame."""
        return data_frame(
            {
                "threshold": [float(self.threshold), self.bayes_threshold],
                "low": [self.threshold.low, math.nan],
                "high": [self.threshold.high, math.nan],
                "cost": [self.cost, self.bayes_cost],
            }
        )

    def _text_table(self) -> TextTable:
        best, bayes = self.threshold, significant(self.bayes_threshold)
        span = f"{significant(best.low)} to {significant(best.high)}"
        return TextTable(
            f"Threshold of least mean cost, {counted(best.n)}",
            ("", "threshold", "not clearly worse", "mean cost"),
            [
                ["best on these rows", significant(best), span, number(self.cost)],
                ["best if calibrated", bayes, "", number(self.bayes_cost)],
            ],
        )


@takes_row_options
def best_threshold(
    y_true: Any, y_proba: Any = None, costs: Any = None, **options: Unpack[RowOptions]
) -> BestThreshold:
    """The threshold on the probability of the event at which decisions cost least.

    costs : a matrix [2, 2], what decision j costs when class i is true; a wrong decision must cost
        more than the right one. The decision of the event (the second one, unless `event` is the
        first class) is made where its probability is at least the threshold.

    The interval holds every threshold whose mean cost exceeds the least by at most 2.5 standard
    errors of the paired difference. It is wide where costs hardly depend on the threshold. The
    cost is that of the rows that chose the threshold, and slightly too low for other rows.

    >>> found = best_threshold([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], [[0, 1], [5, 0]])
    >>> float(found.threshold), found.cost, round(found.bayes_threshold, 4)
    (0.35, 0.25, 0.1667)
    """
    if costs is None:
        raise InputError("costs", "must be a matrix [2, 2]: cost of each decision for each class")
    matrix = (costs if isinstance(costs, Cost) else Cost(costs)).matrix
    if matrix.shape != (2, 2):
        raise InputError("costs", "must be a matrix [2, 2]", f"has shape {matrix.shape}")
    rows = rows_of(y_true, y_proba, **options)
    if rows.event_column == 0:
        matrix = matrix[::-1, ::-1]
    alarm, miss = float(matrix[0, 1] - matrix[0, 0]), float(matrix[1, 0] - matrix[1, 1])
    if not (alarm > 0 and miss > 0):
        raise InputError(
            "costs", "a wrong decision must cost more than the right one", matrix.tolist()
        )
    return _least_cost(EventTable.of(rows), matrix, alarm, miss)


def _least_cost(event: EventTable, matrix: np.ndarray, alarm: float, miss: float) -> BestThreshold:
    # Raising the threshold past a probability turns its rows from acted on to not acted on.
    change, total = np.array([-alarm, miss]), float(event.weight.sum())
    base = float(event.weight.sum(axis=0) @ matrix[:, 1])
    sums = np.r_[base, base + np.cumsum(event.weight @ change)]  # up to the first p, ..., above all
    bayes = alarm / (alarm + miss)
    at_bayes = float(sums[np.searchsorted(event.p, bayes, side="left")]) / total
    least, candidates = int(np.argmin(sums)), np.r_[event.p, np.inf]
    # the difference of two costs is due to the rows between their thresholds
    spread = np.r_[0.0, np.cumsum(event.squared @ change**2)] / total**2
    apart = (sums - sums[least]) / total
    error = np.sqrt(np.maximum(np.abs(spread - spread[least]) - apart**2 / event.n, 0.0))
    tied = np.flatnonzero(apart <= CLEARLY * error)
    wider = _widening_between(event, change, int(tied[0]), int(tied[-1]))
    ends = (math.nan, math.nan)
    if not math.isnan(wider):
        tied = np.flatnonzero(apart <= CLEARLY * wider * error)
        ends = (float(candidates[tied[0]]), float(candidates[tied[-1]]))
    words = "threshold of least mean cost, and thresholds not clearly worse" + event.words
    threshold = Estimate(
        float(candidates[least]), low=ends[0], high=ends[1], n=event.n, definition=words
    )
    return BestThreshold(threshold, float(sums[least]) / total, bayes, at_bayes)


def _widening_between(event: EventTable, change: np.ndarray, first: int, last: int) -> float:
    """How many times clusters widen the error of the difference between two thresholds; at least
    1."""
    if event.rows is None or event.rows.clusters is None:
        return 1.0
    moved = np.zeros(event.share.shape)
    moved[first:last] = change
    wider = event.widening(moved - float((event.share * moved).sum()))
    return wider if math.isnan(wider) else max(1.0, wider)
