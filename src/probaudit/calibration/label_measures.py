"""Measures of one label of a multilabel model, and of all its labels together.

Each label is an event with its own probability. The mean of a measure over labels (macro) needs the
dependence between labels of a row: each measure of a label has an influence function (Hampel 1974),
whose sums over rows or clusters show how the errors of two labels are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..choices.scores import Brier, Log
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..estimate import Estimate
from ..scoring.discrimination import auc, auc_influence, average_precision, precision_influence
from ..scoring.events import EventTable
from ..scoring.expected_scores import estimate_score
from ..scoring.intervals import Z95
from ..scoring.proper_scores import clustered_sample
from .event_measures import CalibrationLine, estimated_indices
from .fine_grid import FineGrid
from .validation import (
    LEVEL,
    TOO_HIGH,
    TOO_LOW,
    Measured,
    event_grid,
    halved,
    known_line,
    large_p_value,
    mean_predicted,
    observed_expected,
    observed_rate,
)

OVERCONFIDENT, UNDERCONFIDENT = "overconfident", "underconfident"
NAMES = {
    "predicted": "mean predicted",
    "observed": "observed rate",
    "observed_expected": "observed / expected",
    "in_the_large": "calibration in the large",
    "slope": "calibration slope",
    "ici": "ICI",
    "brier": "Brier score (0 to 1)",
    "log_loss": "log loss",
    "auc": "AUC",
    "average_precision": "average precision",
}
CORRELATED = tuple(name for name in NAMES if name != "ici")  # measures with an influence function


@dataclass(frozen=True)
class LabelMeasures(Measured):
    """The measures of one label, or of all labels (`label` is then "macro" or "micro").

    rows, events : how many rows the label is known for, and in how many of them it is present.
    ici : the integrated calibration index, the mean of |E[y | p] - p| (Austin & Steyerberg 2019).
    p_value : of calibration, two-sided: twice the smaller one of calibration in the large and of a
        slope of 1; `adjusted` for the number of labels (Holm 1979). `by_slope` : whether the slope
        has the smaller one.
    left_out : rows with a probability of exactly 0 or 1, which do not enter slope and calibration
        in the large.

    Measures that these rows do not determine, such as the AUC of a label that never occurs, are
    NaN.
    """

    PLAIN = ("label", "rows", "events", "verdict", "p_value", "adjusted", "left_out")

    label: str
    rows: int
    events: int
    predicted: Estimate
    observed: Estimate
    observed_expected: Estimate
    in_the_large: Estimate
    slope: Estimate
    ici: Estimate
    brier: Estimate
    log_loss: Estimate
    auc: Estimate
    average_precision: Estimate
    p_value: float = math.nan
    by_slope: bool = False
    adjusted: float = math.nan
    left_out: int = 0

    @property
    def verdict(self) -> str:
        """How the label is miscalibrated, if that is significant after Holm's correction."""
        if not self.adjusted <= LEVEL:
            return ""
        if self.by_slope:
            return OVERCONFIDENT if self.slope < 1 else UNDERCONFIDENT
        return TOO_HIGH if self.predicted > self.observed else TOO_LOW


class JudgedLabel(NamedTuple):
    """The measures of a label, its fine grid (thinned for clusters), and by measure the sums of its
    influence function over units of rows."""

    measures: LabelMeasures
    grid: FineGrid
    terms: Mapping[str, np.ndarray]


def judge_label(rows: Predictions, label: str, units: np.ndarray | None = None) -> JudgedLabel:
    """Judge the second of two classes. `units` : the unit of each row, from 0, within which labels
    are dependent; without it, no influences are summed."""
    event = EventTable.of(rows)
    line, (grid, dependent) = known_line(event), event_grid(rows, event)
    enough = dependent is None or dependent.clusters.count > 1
    found = survey(rows).summary
    clustered = clustered_sample(rows, found)
    p_large, p_slope = large_p_value(event), _slope_p_value(line)
    measures = LabelMeasures(
        label=label,
        rows=event.n,
        events=int(event.count[:, 1].sum()),
        predicted=mean_predicted(event),
        observed=observed_rate(event),
        observed_expected=observed_expected(event),
        in_the_large=line.offset,
        slope=line.slope,
        **estimated_indices(grid, ("ici",), interval=enough, event=dependent),
        brier=halved(estimate_score(found, Brier(), clustered=clustered)),
        log_loss=estimate_score(found, Log(), clustered=clustered),
        auc=auc(event),
        average_precision=average_precision(event),
        p_value=p_large if math.isnan(p_slope) else min(1.0, 2 * min(p_large, p_slope)),
        by_slope=p_slope < p_large,
        left_out=line.left_out,
    )
    terms = {} if units is None else _summed_influences(event, line, units)
    return JudgedLabel(measures, grid if dependent is None else dependent.thinned(grid), terms)


def _summed_influences(
    event: EventTable, line: CalibrationLine, units: np.ndarray
) -> dict[str, np.ndarray]:
    """The influences on each measure, summed over the rows of each unit."""
    members = event.rows
    assert members is not None
    share = members.weight / members.weight.sum()
    size, unit = int(units.max()) + 1, units[members.number]
    place = 2 * members.place + members.happened
    return {
        name: np.bincount(unit, share * values.reshape(-1)[place], minlength=size)
        for name, values in _influences(event, line).items()
    }


def _slope_p_value(line: CalibrationLine) -> float:
    """The two-sided p-value of a slope of 1 (Cox 1958), by Wald's test."""
    error = (line.slope.high - line.slope.low) / (2 * Z95)
    return math.erfc(abs(line.slope - 1) / error / math.sqrt(2)) if error > 0 else math.nan


def _influences(event: EventTable, line: CalibrationLine) -> dict[str, np.ndarray]:
    """The influence function of each measure, [m, 2], up to a factor: only correlations are
    computed from it."""
    y, p = np.array([0.0, 1.0]), event.p[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log(p) - np.log1p(-p)
        losses = {"brier": (p - y) ** 2, "log_loss": -np.log(np.where(y > 0, p, 1 - p))}
        inside = np.isfinite(z)
        z = np.where(inside, z, 0.0)
        large = np.where(inside, y - _expit(line.offset + z), 0.0)
        fitted = _expit(line.intercept + line.slope * z)
        weight = np.where(inside, event.share.sum(axis=1)[:, None] * fitted * (1 - fitted), 0.0)
        centred = z - (weight * z).sum() / weight.sum()
        slope = np.where(inside, centred * (y - fitted), 0.0)
        means = {name: loss - np.nansum(event.share * loss) for name, loss in losses.items()}
    ratio = event.rate / event.predicted if event.predicted > 0 else math.nan
    whole = np.zeros_like(event.share)
    return {
        "predicted": p - event.predicted + whole,
        "observed": y - event.rate + whole,
        "observed_expected": y - ratio * p,
        "in_the_large": large,
        "slope": slope,
        **means,
        "auc": auc_influence(event)[1],
        "average_precision": precision_influence(event)[1],
    }


def _expit(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def macro_measures(judged: Sequence[JudgedLabel]) -> LabelMeasures:
    """The mean of each measure over the labels that determine it.

    Intervals combine those of the labels by MOVER (Zou & Donner 2008): the distance of an end from
    the value is the root of sum_jk r_jk d_j d_k / K^2, for the distances d of the labels and the
    correlations r of their errors. ICI has no influence function: r is 1, its upper bound.
    """
    labels = [one.measures for one in judged]
    found: dict[str, Any] = {
        name: _macro([getattr(one, name) for one in labels], _correlations(name, judged), words)
        for name, words in NAMES.items()
    }
    return LabelMeasures(
        label="macro",
        rows=sum(one.rows for one in labels),
        events=sum(one.events for one in labels),
        left_out=sum(one.left_out for one in labels),
        **found,
    )


def _correlations(name: str, judged: Sequence[JudgedLabel]) -> np.ndarray:
    """The correlations of the errors of a measure between labels; 1 where they are unknown."""
    K = len(judged)
    if name not in CORRELATED:
        return np.ones((K, K))
    terms = np.stack([one.terms[name] for one in judged], axis=1)
    terms = np.where(np.isfinite(terms), terms, 0.0)
    length = np.sqrt((terms**2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = terms.T @ terms / np.outer(length, length)
    return np.where(np.isfinite(found), found, 1.0)


def _macro(estimates: Sequence[Estimate], correlations: np.ndarray, words: str) -> Estimate:
    known = [k for k, one in enumerate(estimates) if not math.isnan(one)]
    if not known:
        return Estimate(math.nan, definition=f"mean {words}: no label determines it")
    some = [estimates[k] for k in known]
    value, r = float(np.mean(some)), correlations[np.ix_(known, known)]
    bars = np.array([one.error_bar for one in some])
    with np.errstate(invalid="ignore"):
        below, above = bars[:, 0] - bars[:, 1], bars[:, 2] - bars[:, 0]
        half = [math.sqrt(max(float(d @ r @ d), 0.0)) / len(some) for d in (below, above)]
    of = f"{len(some)} of {len(estimates)} labels" if len(some) < len(estimates) else "labels"
    return Estimate(
        value,
        low=value - half[0],
        high=value + half[1],
        n=sum(one.n for one in some),
        definition=f"mean of {words} over {of}, allowing for dependence between labels",
        infinite_rows=sum(one.infinite_rows for one in some),
    )
