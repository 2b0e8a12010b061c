"""Selective prediction: the error rate of a classifier that answers only where it is confident."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

import numpy as np

from ..choices.lenses import TopLabel
from ..data.arrays import data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..errors import InputError
from ..estimate import Estimate
from ..text import ShownAsTable, TextTable, counted, number
from .discrimination import auc
from .events import EventTable, bounded_estimate
from .intervals import wilson

POINTS = 100  # of the curve
NEAR = 0.02  # share of rows on either side of a threshold, for the error rate at it
ROUNDING = 1e-12


class RiskCoverageCurve(NamedTuple):
    """The error rate among the most confident rows, for each coverage (the share of rows that are
    answered), with the ends of its 95% intervals."""

    coverage: np.ndarray
    risk: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class RiskCoverage(ShownAsTable):
    """The risk-coverage curve of a classifier that answers in order of its confidence.

    aurc : the area under the curve, the mean error rate over all coverages.
    excess_aurc : that area less the least possible with as many errors, when all of them come last
        (Geifman et al. 2019): 0 if confidence separates right from wrong perfectly.
    auroc : how often a right answer has more confidence than a wrong one.
    error_rate : at full coverage.
    """

    curve: RiskCoverageCurve
    aurc: Estimate
    excess_aurc: Estimate
    auroc: Estimate
    error_rate: Estimate
    n: int
    event: EventTable = field(repr=False)

    def accuracy_at(self, coverage: float) -> Estimate:
        """The accuracy among the most confident rows.

        >>> found = risk_coverage([1, 0, 1, 1], [0.9, 0.4, 0.3, 0.8])
        >>> float(found.accuracy_at(0.5))
        1.0
        """
        if not 0 < coverage <= 1:
            raise InputError("coverage", "must lie inside (0, 1]", coverage)
        risk, low, high = (float(x[0]) for x in _selective_risk(self.event, np.array([coverage])))
        words = f"accuracy of the {coverage:.1%} most confident rows{self.event.words}"
        return Estimate(1 - risk, low=1 - high, high=1 - low, n=self.n, definition=words)

    def coverage_at(self, risk: float) -> Estimate:
        """The largest coverage whose error rate is at most `risk`. The interval inverts the
        pointwise intervals of the curve."""
        if not 0 <= risk < 1:
            raise InputError("risk", "must lie in [0, 1)", risk)
        coverage = np.cumsum(self.event.share.sum(axis=1)[::-1])
        coverage[-1] = 1.0

        def largest(risks: np.ndarray) -> float:
            allowed = np.flatnonzero(risks <= risk + ROUNDING)
            return float(coverage[allowed[-1]]) if len(allowed) else 0.0

        value, low, high = _selective_risk(self.event, coverage)
        words = f"largest coverage with an error rate of at most {risk:.1%}{self.event.words}"
        return Estimate(
            largest(value), low=largest(high), high=largest(low), n=self.n, definition=words
        )

    def to_frame(self) -> Any:
        """The curve as a pandas DataFrame."""
        return data_frame(self.curve._asdict())

    def _text_table(self) -> TextTable:
        each = {
            "area under the risk-coverage curve (AURC)": self.aurc,
            "excess AURC": self.excess_aurc,
            "AUROC of confidence against correctness": self.auroc,
            "error rate": self.error_rate,
        }
        rows = [
            [name, number(x), f"{number(x.low)} to {number(x.high)}"] for name, x in each.items()
        ]
        return TextTable(
            f"Selective prediction, {counted(self.n)}",
            ("", "value", "95% interval"),
            rows,
            "to_frame() has the curve.",
        )


@takes_row_options
def risk_coverage(y_true: Any, y_proba: Any = None, **options: Unpack[RowOptions]) -> RiskCoverage:
    """Risk-coverage curve, AURC and excess AURC of the most probable class (Geifman & El-Yaniv
    2017; Geifman et al. 2019), or of pairs of a confidence and whether it was right.

    Rows are answered from the most confident on. Rows of equal confidence enter in random order, on
    average, so that their order in the data does not matter. In the population
    AURC = -E[error log G(S)], where G(s) is the share of rows with at least confidence s.

    >>> found = risk_coverage([1, 0, 1, 1], [0.9, 0.4, 0.3, 0.8])
    >>> round(float(found.aurc), 4), float(found.error_rate)
    (0.1192, 0.25)
    """
    return risk_coverage_of(EventTable.of(rows_of(y_true, y_proba, **options), TopLabel()))


def risk_coverage_of(event: EventTable, points: int = POINTS) -> RiskCoverage:
    """The curve of an event: whether an answer of given confidence is right."""
    coverage = np.arange(1, points + 1) / points
    risk, low, high = _selective_risk(event, coverage)
    aurc, influence = _aurc(event)
    rate = 1 - event.rate
    wrong = np.column_stack([np.ones(len(event.p)), np.zeros(len(event.p))])
    best = rate + (1 - rate) * math.log1p(-rate) if rate < 1 else 1.0
    steepness = -math.log1p(-rate) if rate < 1 else 0.0
    error = bounded_estimate(event, rate, wrong - rate, "error rate", rows=event.effective_rows)
    excess = bounded_estimate(
        event,
        max(aurc - best, 0.0),
        influence - steepness * (wrong - rate),
        "area under the risk-coverage curve, less the least possible",
        rows=event.effective_rows,
    )
    return RiskCoverage(
        curve=RiskCoverageCurve(coverage, risk, low, high),
        aurc=bounded_estimate(
            event, aurc, influence, "area under the risk-coverage curve", rows=event.effective_rows
        ),
        excess_aurc=excess,
        auroc=auc(event),
        error_rate=error,
        n=event.n,
        event=event,
    )


def _aurc(event: EventTable) -> tuple[float, np.ndarray]:
    """The area and its influence function. An error at coverage c adds -log c; among rows of equal
    confidence, which take up the coverages from a to b, the mean of that."""
    wrong, size = event.share[:, 0], event.share.sum(axis=1)
    end = event.at_least(size)
    end[0] = 1.0
    start = np.maximum(end - size, 0.0)

    def integral(c: np.ndarray) -> np.ndarray:
        return c * np.log(np.where(c > 0, c, 1.0)) - c

    reach = -(integral(end) - integral(start)) / size
    value = math.fsum(wrong * reach)
    before = np.cumsum(wrong / ((start + end) / 2))
    influence = np.column_stack([reach - before, -before])
    return value, influence - math.fsum((event.share * influence).ravel())


def _selective_risk(
    event: EventTable, coverage: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The error rate at each coverage, and the ends of its 95% intervals.

    The variance of the rate r of the selected rows is (r (1 - r) + (1 - c) (m - r)^2) / (n c): the
    second term is due to the threshold, which varies too, m being the error rate at it.
    """
    size, wrong = event.share.sum(axis=1)[::-1], event.share[::-1, 0]
    ends, errors = np.r_[0.0, np.cumsum(size)], np.r_[0.0, np.cumsum(wrong)]
    ends[-1] = 1.0

    def errors_up_to(c: np.ndarray) -> np.ndarray:
        return np.interp(c, ends, errors)

    risk = np.clip(errors_up_to(coverage) / coverage, 0.0, 1.0)
    near, far = np.maximum(coverage - NEAR, 0.0), np.minimum(coverage + NEAR, 1.0)
    margin = (errors_up_to(far) - errors_up_to(near)) / (far - near)
    rows = event.effective_rows * coverage
    if event.rows is not None and event.rows.clusters is not None:
        rows = rows / _cluster_widening(event, coverage, risk) ** 2
    spread = risk * (1 - risk)
    wider = np.divide(
        (1 - coverage) * (margin - risk) ** 2, spread, out=np.zeros_like(risk), where=spread > 0
    )
    low, high = wilson(risk, rows / (1 + wider))
    return risk, low, high


def _cluster_widening(event: EventTable, coverage: np.ndarray, risk: np.ndarray) -> np.ndarray:
    above = event.at_least(event.share.sum(axis=1))
    found = np.ones(len(coverage))
    step = max(1, len(coverage) // POINTS)  # neighbouring coverages have nearly the same widening
    for i in range(0, len(coverage), step):
        # at least the most confident rows, if several have the same confidence
        selected = above <= max(float(coverage[i]), float(above[-1])) + ROUNDING
        influence = selected[:, None] * np.array([1 - risk[i], -risk[i]])
        found[i : i + step] = max(event.widening(influence), 1e-9)
    return found
