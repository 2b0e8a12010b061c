"""Classical tests of a single event's calibration: Spiegelhalter's and Hosmer & Lemeshow's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import Lens
from ..choices.partitions import EqualMass
from ..data.inputs import RowOptions, takes_row_options
from ..errors import InputError
from .event_measures import EventOutcomes

# least expected events, and non-events, for a group's squared deviation to be chi-squared
FEWEST_EXPECTED = 5
RARE_RESAMPLES = 9_999
RARE_COUNTS = 64  # upper bound of a count with fewer than five expected events


@dataclass(frozen=True)
class EventTest:
    """A test statistic and its p-value under calibration."""

    __test__ = False  # pytest must not collect it

    statistic: float
    p_value: float
    n: int
    definition: str


@takes_row_options
def spiegelhalter_test(
    y_true: Any, y_proba: Any = None, *, lens: Lens | None = None, **options: Unpack[RowOptions]
) -> EventTest:
    """Spiegelhalter's Z test (1986): does the Brier score differ from that of a calibrated model?

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> spiegelhalter_test(rng.random(1000) < p, p).p_value > 0.05
    True
    """
    name = "Spiegelhalter's test"
    rows = EventOutcomes.of(y_true, y_proba, lens, options, unweighted=name, independent=name)
    return _spiegelhalter(rows.p, rows.y)


@takes_row_options
def hosmer_lemeshow_test(
    y_true: Any,
    y_proba: Any = None,
    *,
    groups: int = 10,
    lens: Lens | None = None,
    **options: Unpack[RowOptions],
) -> EventTest:
    """Hosmer & Lemeshow's test (1980) of observed against expected events in groups of equal size.

    Counts of groups with fewer than five expected events, or non-events, are simulated from their
    exact distribution.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.05, 0.05, 1000)
    >>> hosmer_lemeshow_test(rng.random(1000) < p, p).p_value > 0.05
    True
    """
    name = "the Hosmer-Lemeshow test"
    rows = EventOutcomes.of(y_true, y_proba, lens, options, unweighted=name, independent=name)
    return _hosmer_lemeshow(rows.p, rows.y, EqualMass(groups).cells(rows.p, rows.order))


def _spiegelhalter(p: np.ndarray, y: np.ndarray) -> EventTest:
    """The Brier score less its expectation if calibrated, divided by its standard deviation."""
    variance = float(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    excess = float(((y - p) * (1 - 2 * p)).sum())
    if variance <= 0:
        raise InputError("y_proba", "Spiegelhalter's test requires outputs other than 0, 1/2 and 1")
    z = excess / math.sqrt(variance)
    return EventTest(z, math.erfc(abs(z) / math.sqrt(2)), len(p), "Spiegelhalter's Z, two-sided")


def _hosmer_lemeshow(p: np.ndarray, y: np.ndarray, cell: np.ndarray, *, seed: int = 0) -> EventTest:
    """The sum over groups of (observed - expected)^2 / (expected (1 - expected / n)). It is
    chi-squared with one degree of freedom for each group, as the outputs were not fitted to these
    rows.

    In a group with fewer than five expected events, or non-events, the deviation is far from
    normal: with confident outputs of a calibrated model (log odds of standard deviation 5,
    n = 1000), a test at level 1% would reject 7.5%. The counts of such groups are simulated from
    their exact distribution (Hong 2013); the other groups are chi-squared.
    """
    from scipy.special import chdtrc

    n, expected, observed = (np.bincount(cell, v) for v in (np.ones(len(p)), p, y))
    variance = expected * (1 - expected / n)
    impossible = (variance <= 0) & (observed != expected)
    terms = np.where(
        variance > 0, (observed - expected) ** 2 / np.where(variance > 0, variance, 1), 0.0
    )
    statistic = math.inf if impossible.any() else float(terms.sum())
    groups, words = len(n), f"Hosmer-Lemeshow, {len(n)} groups"
    rare = np.flatnonzero(np.minimum(expected, n - expected) < FEWEST_EXPECTED)
    if not len(rare) or math.isinf(statistic):
        return EventTest(statistic, float(chdtrc(groups, statistic)), len(p), words)
    rng, drawn = np.random.default_rng(seed), np.zeros(RARE_RESAMPLES)
    for group in rare[variance[rare] > 0].tolist():
        outputs = p[cell == group]
        outputs = outputs if 2 * expected[group] <= n[group] else 1 - outputs
        probabilities = _rare_counts(outputs)
        probabilities /= probabilities.sum()
        counts = rng.choice(RARE_COUNTS, RARE_RESAMPLES, p=probabilities)
        drawn += (counts - outputs.sum()) ** 2 / variance[group]
    left, rest = groups - len(rare), statistic * (1 - 1e-12) - drawn
    tails = chdtrc(left, np.maximum(rest, 0.0)) if left else (rest <= 0) * 1.0
    words += f", {len(rare)} with fewer than {FEWEST_EXPECTED} expected events resampled"
    return EventTest(statistic, float((1 + tails.sum()) / (1 + RARE_RESAMPLES)), len(p), words)


def _rare_counts(p: np.ndarray) -> np.ndarray:
    """The probabilities of 0, 1, ... events among independent rows if few are expected, from the
    characteristic function.

    >>> _rare_counts(np.array([0.5, 0.5]))[:3].round(6)
    array([0.25, 0.5 , 0.25])
    """
    turn = np.exp(-2j * np.pi * np.arange(RARE_COUNTS // 2 + 1) / RARE_COUNTS) - 1
    product = np.ones(len(turn), complex)
    for first in range(0, len(p), 2**14):
        product *= np.prod(1 + p[first : first + 2**14, None] * turn, axis=0)
    return np.maximum(np.fft.irfft(product, RARE_COUNTS), 0.0)
