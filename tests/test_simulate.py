"""The simulated data of Ferrer & Ramos 2025, Appendix C, against closed forms and Figure 4."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import kstest

import probaudit as pb
from probaudit.simulate import gaussian_posteriors


@pytest.mark.parametrize(
    ("n", "classes", "prior", "counts"),
    [
        (2000, 2, 0.8, [1600, 400]),
        (2000, 10, 0.8, [1600] + [44] * 9),
        (1000, 3, 0.6, [600, 200, 200]),
        (10, 4, 0.1, [1, 3, 3, 3]),
        (1, 2, 0.8, [1, 0]),
    ],
)
def test_class_counts_are_rounded_priors(n, classes, prior, counts):
    world = gaussian_posteriors(n, classes, prior=prior)
    assert np.bincount(world.y, minlength=classes).tolist() == counts
    assert world.priors == pytest.approx([prior] + [(1 - prior) / (classes - 1)] * (classes - 1))
    for name in ("cal", "mcp", "mcs", "mcps"):
        p = getattr(world, name)
        assert p.shape == (sum(counts), classes)
        assert p.sum(axis=1) == pytest.approx(1, abs=1e-12)


def test_the_same_seed_gives_the_same_world():
    first, same, other = (gaussian_posteriors(50, 3, seed=seed) for seed in (1, 1, 2))
    assert (first.y == same.y).all()
    assert (first.cal == same.cal).all()
    assert (first.cal != other.cal).any()
    assert (np.diff(first.y) != 0).sum() > 5  # rows are shuffled, not sorted by class


def test_miscalibrated_posteriors():
    """Appendix C, steps 5 and 6: mcp has the prior 0.9 for the last class; mcs and mcps are
    normalised powers."""
    world = gaussian_posteriors(500, 4, prior=0.7, scale=3.0, seed=4)

    def normalised(a):
        return a / a.sum(axis=1, keepdims=True)

    wrong = np.array([0.1 / 3, 0.1 / 3, 0.1 / 3, 0.9])
    np.testing.assert_allclose(world.mcp, normalised(world.cal * wrong / world.priors), rtol=1e-10)
    np.testing.assert_allclose(world.mcs, normalised(world.cal**3), rtol=1e-10)
    np.testing.assert_allclose(world.mcps, normalised(world.mcp**3), rtol=1e-10)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_cal_is_calibrated_and_the_others_are_not(classes):
    """For functions g of the posterior, (label - posterior) g has mean 0 up to sampling error."""
    world = gaussian_posteriors(100_000, classes, seed=5)

    def worst(p):
        z = []
        for k in range(classes):
            gap = (world.y == k) - p[:, k]
            for g in (np.ones(len(gap)), p[:, k], p[:, k] > 0.5, p.max(axis=1), p[:, 0] ** 2):
                z.append(abs((gap * g).mean()) / ((gap * g).std() / math.sqrt(len(gap)) + 1e-12))
        return max(z)

    assert worst(world.cal) < 5
    assert min(worst(world.mcp), worst(world.mcs), worst(world.mcps)) > 20


@pytest.mark.parametrize(
    ("classes", "variance", "prior", "distance"),
    [(2, 0.15, 0.6, 1.0), (2, 0.19, 0.8, 1.0), (5, 0.15, 0.8, math.sqrt(2)), (5, 0.5, 0.3, 1.0)],
)
def test_log_odds_are_normal(classes, variance, prior, distance):
    """Means at distance D give log odds N(+-D^2 / 2v, D^2 / v) plus the log odds of the priors."""
    world = gaussian_posteriors(
        40_000, classes, prior=prior, variance=variance, distance=distance, seed=6
    )
    ratio = distance**2 / variance
    odds = np.log(world.cal[:, 0] / world.cal[:, 1]) - np.log(world.priors[0] / world.priors[1])
    for c, sign in ((0, 1), (1, -1)):
        z = (odds[world.y == c] - sign * ratio / 2) / math.sqrt(ratio)
        assert kstest(z, "norm").pvalue > 1e-4


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("classes", 1),
        ("prior", 0),
        ("prior", 1),
        ("prior", math.nan),
        ("wrong_prior", 1.5),
        ("variance", 0),
        ("variance", math.inf),
        ("scale", -1),
        ("scale", math.nan),
        ("n", 0),
        ("n", -5),
    ],
)
def test_invalid_arguments_raise(argument, value):
    with pytest.raises(pb.InputError) as caught:
        gaussian_posteriors(**{argument: value})
    assert caught.value.argument == argument


@pytest.fixture(scope="module")
def figure_4():
    """The four systems of Ferrer & Ramos 2025, Section 3.1, with four times as many rows, so that
    most of the noise is that of the paper."""
    n = 400_000
    under = gaussian_posteriors(n, prior=0.6, variance=0.15, scale=0.48, seed=7)
    over = gaussian_posteriors(n, prior=0.6, variance=0.15, scale=2.0, seed=7)
    hard = gaussian_posteriors(n, prior=0.6, variance=0.19, seed=7)
    return {
        "cal": (under.y, under.cal),
        "mcs-u": (under.y, under.mcs),
        "mcs-o": (over.y, over.mcs),
        "cal-h": (hard.y, hard.cal),
    }


SYSTEMS = ["cal", "mcs-u", "mcs-o", "cal-h"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_figure_4(shared, figure_4, system):
    golden = json.loads((shared / "golden" / "ferrer_fig4.json").read_text())[system]
    y, p = figure_4[system]
    found = {
        "CE": pb.log_score(y, p),
        "NCE": pb.log_score(y, p, normalize=True),
        "NBS": pb.brier_score(y, p, normalize=True),
    }
    for name, value in found.items():
        assert float(value) == pytest.approx(golden[name], rel=0.02), name
    thresholds = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    # The axis of the figure is the threshold on H_2, our second class. It is mirrored against a_1
    # of Eq. 34.
    risks = pb.risk_curve(y, p, thresholds=thresholds).risk
    for t, risk in zip(thresholds, risks, strict=True):
        assert risk == pytest.approx(golden[f"Risk_t={t:g}"], rel=0.04), t


def test_systems_with_equal_log_loss_differ_in_brier_score(figure_4):
    """Section 3.1: mcs-u, mcs-o and cal-h have the same CE, but not the same BS. The error rates of
    the first three systems are equal."""
    nce = {name: float(pb.log_score(*rows, normalize=True)) for name, rows in figure_4.items()}
    nbs = {name: float(pb.brier_score(*rows, normalize=True)) for name, rows in figure_4.items()}
    assert [nce["mcs-o"], nce["cal-h"]] == pytest.approx([nce["mcs-u"]] * 2, rel=0.02)
    assert nce["cal"] < 0.9 * nce["mcs-u"]
    assert nbs["mcs-o"] < 0.95 * nbs["mcs-u"]
    assert nbs["mcs-u"] < 0.95 * nbs["cal-h"]
    errors = [float(pb.bayes_risk(*figure_4[name], pb.Cost.zero_one(2))) for name in SYSTEMS]
    assert errors[0] == errors[1] == errors[2] < errors[3]
    assert 2 * errors[0] == pytest.approx(
        pb.risk_curve(*figure_4["cal"], thresholds=[0.5]).risk[0], rel=1e-12
    )


@pytest.mark.parametrize(
    ("variance", "scale"), [(0.15, 1.0), (0.15, 0.48), (0.15, 2.0), (0.19, 1.0)]
)
def test_figure_4_against_its_expectation(variance, scale):
    """The published curves come from one sample of 100,000 rows and are 0.5% to 1.5% below their
    expectation, which is computed here by quadrature.

    Given the class, log odds are N(+-1 / 2v, 1 / v) plus the log odds of the priors.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    priors = np.array([0.6, 0.4])
    expected = {"log": 0.0, "brier": 0.0}
    for prior, sign in zip(priors, (1, -1), strict=True):
        odds = scale * (0.5 / variance + nodes / math.sqrt(variance) + sign * math.log(1.5))
        expected["log"] += prior * (weights * np.logaddexp(0, -odds)).sum()
        expected["brier"] += prior * (weights * 2 / (1 + np.exp(odds)) ** 2).sum()
    world = gaussian_posteriors(100_000, 2, prior=0.6, variance=variance, scale=scale, seed=0)
    found = {"log": pb.log_score(world.y, world.mcs), "brier": pb.brier_score(world.y, world.mcs)}
    for name, estimate in found.items():
        assert estimate == pytest.approx(
            expected[name], abs=4 * (estimate.high - estimate) / 1.96
        ), name
