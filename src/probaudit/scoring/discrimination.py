"""How well the probabilities of an event rank its rows: AUC and average precision, with intervals
that need no resampling."""

from __future__ import annotations

import math

import numpy as np

from ..estimate import Estimate
from .events import EventTable, bounded_estimate

Linearised = tuple[float, np.ndarray]


def auc(event: EventTable) -> Estimate:
    """The area under the ROC curve, the c-statistic: how often a row with the event has a higher
    probability than a row without it; ties count half. The interval is DeLong's (DeLong et al.
    1988), on Wilson's scale so that it stays within 0 and 1.

    >>> event = EventTable.of_rows(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> float(auc(event))
    0.75
    """
    words = "area under the ROC curve (c-statistic)"
    value, influence = auc_influence(event)
    if math.isnan(value):
        return Estimate(value, n=event.n, definition=words + event.words)
    if event.constant:  # all rows are tied
        return Estimate(value, low=value, high=value, n=event.n, definition=words + event.words)
    rarer = min(event.rate, 1 - event.rate) * event.effective_rows
    return bounded_estimate(event, value, influence, words, rows=rarer)


def auc_influence(event: EventTable) -> Linearised:
    """The AUC and its influence function: the placement of a row among those of the other kind."""
    none, some = event.weight.T  # counts are added exactly
    total = event.weight.sum(axis=0)
    if not (total > 0).all():
        return math.nan, np.zeros_like(event.share)
    below, above = np.cumsum(none) - none / 2, event.at_least(some) - some / 2
    value = math.fsum(some * below) / (total[0] * total[1])
    rate = total / total.sum()
    influence = np.column_stack(
        [(above / total[1] - value) / rate[0], (below / total[0] - value) / rate[1]]
    )
    return float(value), influence


def average_precision(event: EventTable) -> Estimate:
    """Average precision: the mean, over rows with the event, of the share of events among all rows
    whose probability is not smaller (as in scikit-learn). The base-rate forecast has the rate of
    the event.

    With A(s) = P(Y = 1, S >= s) and B(s) = P(S >= s), AP = E[A(S) / B(S) | Y = 1]; the influence
    function follows by differentiating A, B and P(Y = 1).

    >>> event = EventTable.of_rows(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> round(float(average_precision(event)), 4)
    0.8333
    """
    words = "average precision"
    value, influence = precision_influence(event)
    if math.isnan(value):
        return Estimate(value, n=event.n, definition=words + event.words)
    rows = event.rate * event.effective_rows
    return bounded_estimate(event, value, influence, words, rows=rows)


def precision_influence(event: EventTable) -> Linearised:
    """The average precision and its influence function."""
    rate = event.rate
    if not rate > 0:
        return math.nan, np.zeros_like(event.share)
    some = event.share[:, 1]
    among, all_rows = event.at_least(some), event.at_least(event.share.sum(axis=1))
    precision = among / all_rows
    value = math.fsum(some * precision) / rate
    gained, lost = np.cumsum(some / all_rows), np.cumsum(some * among / all_rows**2)
    influence = np.column_stack([-lost, precision + gained - lost - value]) / rate
    return float(value), influence
