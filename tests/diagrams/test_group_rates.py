"""The dot plot of groups and classes."""

from __future__ import annotations

import numpy as np
import pytest

from probaudit.diagrams.group_rates import GroupRates
from probaudit.diagrams.picture import Points
from probaudit.estimate import Estimate


@pytest.mark.parametrize(
    ("verdict", "role"),
    [
        ("", "agrees"),
        ("overconfident", "over"),
        ("predicted too high", "over"),
        ("underconfident", "under"),
        ("predicted too low", "under"),
        ("miscalibrated", "mixed"),
    ],
)
def test_a_mark_shows_the_verdict_and_not_the_interval(verdict, role):
    """The predicted rate is far from the interval of the first group, and inside that of the
    second."""
    clear, unclear = Estimate(0.5, low=0.45, high=0.55), Estimate(0.5, low=0.3, high=0.9)
    rates = [(Estimate(0.8, low=0.79, high=0.81), observed) for observed in (clear, unclear)]
    found = GroupRates.of(["a", "b"], rates, [99, 99], [verdict] * 2, risk=False)
    (panel,) = found.picture().panels
    predicted, observed = (mark for mark in panel.marks if isinstance(mark, Points))
    assert predicted.hollow
    assert observed.role == role
    np.testing.assert_array_equal(observed.y, [0, 1])
