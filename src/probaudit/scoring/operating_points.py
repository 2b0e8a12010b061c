"""What happens at each threshold if rows with at least that probability of an event are acted on:
hits, false alarms, misses and their cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .events import EventTable
from .risk_curve import RiskCurve


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """Shares of all rows at each threshold t, where rows with a probability of t or more are acted
    on.

    hits, false_alarms : acted on, and the event happened or not.
    predicted_hits : the hits that the probabilities predict: their sum over the rows acted on.
    rate : how often the event happened. effective : the effective number of rows (Kish 1965).

    A false alarm costs t and a miss 1 - t, the costs for which t is the Bayes threshold. Costs are
    in units of the cheaper one.
    """

    thresholds: np.ndarray
    hits: np.ndarray
    false_alarms: np.ndarray
    predicted_hits: np.ndarray
    rate: float
    effective: float = np.inf

    @classmethod
    def of(cls, event: EventTable, thresholds: np.ndarray) -> OperatingPoints:
        """
        >>> event = EventTable.of_rows(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
        >>> found = OperatingPoints.of(event, np.array([0.2, 0.5]))
        >>> found.hits, found.false_alarms, found.cost
        (array([0.5 , 0.25]), array([0.25, 0.  ]), array([0.25, 0.25]))
        """
        size = event.share.sum(axis=1)
        values = np.column_stack([event.share, size * event.p])
        above = np.vstack([event.at_least(values), np.zeros(3)])
        false, hits, predicted = above[np.searchsorted(event.p, thresholds, side="left")].T
        effective = float(event.weight.sum() ** 2 / event.squared.sum())
        return cls(thresholds, hits, false, predicted, event.rate, effective)

    @property
    def acted(self) -> np.ndarray:
        return self.hits + self.false_alarms

    @property
    def misses(self) -> np.ndarray:
        return np.asarray(np.maximum(self.rate - self.hits, 0.0))

    @property
    def cost(self) -> np.ndarray:
        """The mean cost of a row."""
        return self._cost(self.false_alarms, self.misses)

    @property
    def cost_all(self) -> np.ndarray:
        """The mean cost of acting on every row."""
        return self._cost(1 - self.rate, 0.0)

    @property
    def cost_none(self) -> np.ndarray:
        """The mean cost of acting on none."""
        return self._cost(0.0, self.rate)

    @property
    def relative_cost(self) -> np.ndarray:
        """The cost as a multiple of the better of acting on all and on none; NaN if that costs
        nothing."""
        constant = np.minimum(self.cost_all, self.cost_none)
        unknown = np.full(len(constant), np.nan)
        return np.divide(self.cost, constant, out=unknown, where=constant > 0)

    @property
    def review_cost(self) -> np.ndarray:
        """The mean cost of answering the rows that are acted on, where the event is that an answer
        is right: an error costs 1, and a review of any other row 1 - t."""
        return np.asarray(self.false_alarms + (1 - self.thresholds) * (1 - self.acted))

    def _cost(self, false_alarms: np.ndarray | float, misses: np.ndarray | float) -> np.ndarray:
        t = self.thresholds
        return np.asarray((t * false_alarms + (1 - t) * misses) / np.minimum(t, 1 - t))

    def risk_curve(self, n: int, naive: np.ndarray | None = None) -> RiskCurve:
        """The cost as a Bayes risk, with costs 1 / t and 1 / (1 - t).

        naive : the risk of the better constant decision, if that of other rows is the reference.
        """
        t = self.thresholds
        if naive is None:
            naive = np.minimum(self.rate / t, (1 - self.rate) / (1 - t))
        words = "Bayes risk, costs 1/t and 1/(1 - t)"
        return RiskCurve(t, self.relative_cost * naive, naive, n, words)
