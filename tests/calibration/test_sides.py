"""Over- and underconfidence, the unweighted mean over bins, and the entropy of the outputs."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from tests.conftest import softmax


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    p = rng.beta(1, 2, 800)
    return (rng.random(800) < p**1.4).astype(int), p, rng.integers(1, 4, 800)


def gaps_by_hand(y, p, w, bins=15):
    """Output less rate, and the weight, of each occupied bin."""
    cell = np.minimum((p * bins).astype(int), bins - 1)
    weight = np.bincount(cell, w, bins)
    some = weight > 0
    return np.bincount(cell, w * (p - y), bins)[some] / weight[some], weight[some] / w.sum()


def test_the_sides_against_numpy(rows):
    y, p, w = rows
    gap, share = gaps_by_hand(y, p, w)
    error = {
        name: pb.calibration_error(y, p, lens=pb.Binary(), distance=name, sample_weight=w)
        for name in ("over", "under", "l1")
    }
    assert error["over"] == pytest.approx(share @ np.maximum(gap, 0))
    assert error["under"] == pytest.approx(share @ np.maximum(-gap, 0))
    assert error["over"] + error["under"] == pytest.approx(float(error["l1"]))
    assert min(error["over"], error["under"]) > 0
    assert error["over"] - error["under"] == pytest.approx(np.average(p - y, weights=w))


def test_sides_of_each_class():
    world = pb.simulate.gaussian_posteriors(500, 3)
    parts = [
        pb.calibration_error(world.y, world.mcs, lens=pb.Classwise(), distance=d)
        for d in (pb.Over(), pb.Under(), pb.L1())
    ]
    assert parts[0] + parts[1] == pytest.approx(float(parts[2]))
    with pytest.raises(pb.InputError, match="lens of single events"):
        pb.calibration_error(
            world.y, world.mcs, lens=pb.Full(), partition=pb.KDTree(0.2), distance="over"
        )


@pytest.mark.parametrize("exact", [True, False])
def test_the_unweighted_mean_against_numpy(rows, exact):
    y, p, w = rows
    gap, _ = gaps_by_hand(y, p, w)
    found = pb.average_calibration_error(y, p, lens=pb.Binary(), sample_weight=w, exact=exact)
    assert found == pytest.approx(np.abs(gap).mean(), abs=1e-6)
    assert "cells weighted equally" in found.definition
    for option in ("worst", "debias"):
        with pytest.raises(pb.InputError, match="unweighted"):
            pb.calibration_error(y, p, unweighted=True, **{option: True})


def test_the_ace_of_chidambaram_and_ge(shared):
    """Chidambaram & Ge 2024, Appendix F.2: the first fifth of CIFAR-10 is for calibration. Their
    ResNet-32 has an ACE of 16.0% on the rest (Table 5); this ResNet-20 has 17.1%, and 4.0% with
    bins of equal mass. On all rows it is 11.4%: bins of a few rows count as much as all others."""
    data = np.load(shared / "data" / "ferrer_cifar10_resnet20.npz")
    p, y = softmax(data["logits"].astype(np.float64)), data["labels"]
    ace = pb.average_calibration_error(y[2000:], p[2000:], interval=True)
    assert float(ace) == pytest.approx(0.1710, abs=5e-5)
    assert ace.low < ace.debiased < ace.high
    assert ace.high - ace.low > 0.05
    mass = pb.calibration_error(y[2000:], p[2000:], partition=pb.EqualMass(15))
    assert float(mass) == pytest.approx(0.040, abs=5e-4)
    assert float(pb.average_calibration_error(y, p)) == pytest.approx(0.1141, abs=5e-5)


def test_coverage_of_the_parts():
    """Outputs that are too low below 0.6 and too high above. Of 60 intervals at 95%, fewer than 51
    contain the truth with probability 3e-4."""
    cuts, names = np.linspace(0, 1, 16), ("over", "under", "unweighted")

    def world(rng, n):
        c = 0.3 + 0.7 * rng.beta(3, 1, n)
        return c, 1 / (1 + np.exp(-0.5 - np.log(c / (1 - c)) / 1.7))

    c, rate = world(np.random.default_rng(1), 1_000_000)
    cell = np.digitize(c, cuts[1:-1])
    count = np.bincount(cell, minlength=15)
    gap = np.bincount(cell, c - rate, minlength=15) / np.maximum(count, 1)
    share = count / len(c)
    truth = {"over": share @ np.maximum(gap, 0), "under": share @ np.maximum(-gap, 0)}
    assert min(truth.values()) > 0.005
    covered = dict.fromkeys(names, 0)
    for i in range(60):
        rng = np.random.default_rng([7, i])
        c, rate = world(rng, 1500)
        y = (rng.random(1500) < rate).astype(int)
        truth["unweighted"] = np.abs(gap[np.unique(np.digitize(c, cuts[1:-1]))]).mean()
        rows = pb.Predictions(y, c)
        for name in names:
            how = {"unweighted": True} if name == "unweighted" else {"distance": name}
            found = pb.calibration_error(
                rows, lens=pb.Binary(), interval=True, resamples=199, **how
            )
            covered[name] += found.low <= truth[name] <= found.high
    assert min(covered.values()) >= 51, covered


def test_the_parts_of_a_calibrated_model_start_at_zero():
    """Of 120 intervals of calibrated models, the lower limit is above 0 for 2.5% each; more than 12
    have probability 1e-5."""
    alarms = 0
    for i in range(60):
        rng = np.random.default_rng([8, i])
        p = rng.random(600)
        rows = pb.Predictions((rng.random(600) < p).astype(int), p)
        alarms += sum(
            pb.calibration_error(
                rows, lens=pb.Binary(), distance=side, interval=True, resamples=199
            ).low
            > 0
            for side in ("over", "under")
        )
    assert alarms <= 12


def test_errors_over_the_same_bins_share_their_simulation(rows):
    """An interval does not depend on the errors that were computed before it."""
    y, p, _ = rows
    shared = pb.Predictions(y, p)
    for how in ({}, {"distance": "over"}, {"worst": True}, {"unweighted": True}, {"seed": 1}, {}):
        choices = {"lens": pb.Binary(), "interval": True, "resamples": 99} | how
        one, two = pb.calibration_error(shared, **choices), pb.calibration_error(y, p, **choices)
        assert (*one.interval, one.debiased) == (*two.interval, two.debiased)


def test_entropy_against_numpy():
    world = pb.simulate.gaussian_posteriors(600, 4)
    p, w = world.mcs.copy(), np.random.default_rng(0).integers(0, 3, 600)
    p[0] = [0, 0, 1, 0]
    each = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=1)
    found = pb.output_entropy(world.y, p, sample_weight=w)
    assert found == pytest.approx(np.average(each, weights=w))
    plain = pb.output_entropy(world.y, p)
    half = 1.959964 * each.std(ddof=1) / np.sqrt(600)
    assert plain.interval == pytest.approx((each.mean() - half, each.mean() + half))
    assert pb.output_entropy(world.y, p, normalize=True) == pytest.approx(each.mean() / np.log(4))
    twice = pb.output_entropy(
        np.repeat(world.y, 4), np.repeat(p, 4, axis=0), clusters=np.repeat(np.arange(600), 4)
    )
    assert twice.high - twice.low == pytest.approx(plain.high - plain.low, rel=0.01)
    # the entropy of a calibrated model is its expected log loss
    calibrated = pb.output_entropy(world.y, world.cal)
    loss = pb.log_score(world.y, world.cal)
    assert loss.low < calibrated < loss.high
    assert pb.output_entropy(world.y, np.full((600, 4), 0.25)).high == np.log(4)
