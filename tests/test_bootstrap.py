"""Bootstrap intervals of calibration errors: exact compression, coverage, clusters, and what they cannot do."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.estimates.cells import gather_categories, gather_cells
from probaudit.estimates.intervals import bca, percentile
from probaudit.lenses import View


def world(n, seed, gap=0.15):
    """Five stated probabilities, each too low by the same gap."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.45, 0.6, 0.75], n)
    return (rng.random(n) < p + gap).astype(int), p


@pytest.mark.parametrize("d", [1, 3])
def test_categories_keep_every_cell(d):
    rng = np.random.default_rng(0)
    outputs = rng.random(200) if d == 1 else rng.dirichlet(np.ones(d), 200)
    view, cell, w = View(outputs, rng.integers(0, max(2, d), 200)), rng.integers(0, 7, 200), rng.random(200)
    categories = gather_categories(view, cell, w)
    rows, (found,) = gather_cells(view, cell, w), categories.resampled(categories.counts[None])
    for name in ("rows", "weight", "outputs", "targets"):
        np.testing.assert_allclose(getattr(found, name)[0], getattr(rows, name), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize(("distance", "debias", "truth"), [("l1", False, 0.15), ("squared", True, 0.0225)])
def test_intervals_cover_the_truth(method, distance, debias, truth):
    """200 worlds at 95%: 190 expected with a standard deviation of 3.1."""
    options = {"lens": pb.Binary(), "partition": pb.EqualWidth(20), "distance": distance, "debias": debias}
    covered = 0
    for seed in range(200):
        found = pb.calibration_error(*world(500, seed), **options, interval=method, resamples=200, seed=seed)
        covered += found.low <= truth <= found.high
        assert found.low < found < found.high
    assert 178 <= covered <= 199


def test_the_seed_decides():
    y, p = world(300, 0)
    first, again, other = (pb.calibration_error(y, p, interval="percentile", seed=s) for s in (1, 1, 2))
    assert first.interval == again.interval != other.interval


def test_clusters_widen_the_interval():
    """Every row ten times over carries no more than the rows themselves."""
    y, p = world(200, 0)
    y, p, groups = np.repeat(y, 10), np.repeat(p, 10), np.repeat(np.arange(200), 10)
    options = {"lens": pb.Binary(), "partition": pb.EqualWidth(20), "interval": "percentile"}
    rows, clusters = pb.calibration_error(y, p, **options), pb.calibration_error(y, p, groups=groups, **options)
    single = pb.calibration_error(y[::10], p[::10], **options)
    assert clusters.high - clusters.low > 2 * (rows.high - rows.low)
    assert clusters.high - clusters.low == pytest.approx(single.high - single.low, rel=0.15)


def test_bca_is_the_percentile_interval_where_nothing_is_to_correct():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=20_000)
    draws = np.r_[draws, -draws]
    counts = np.array([50, 50])
    found = bca(0.0, draws, counts, lambda c: (c[:, 0] - c[:, 1]) / 100)
    assert found == pytest.approx(percentile(draws), abs=0.02)


def test_more_resamples_do_not_look_at_more_rows():
    y, p = world(100_000, 1)
    found = pb.calibration_error(y, p, lens=pb.Binary(), interval="percentile", resamples=300)
    assert found.low < 0.15 < found.high


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval": "normal"}, "percentile"),
        ({"interval": "bca", "resamples": 0}, "at least 1"),
        ({"interval": "bca", "groups": [1, 2]}, "one value per row"),
        ({"interval": "bca", "lens": pb.Classwise(), "exact": False}, "several events"),
        ({"interval": "bca", "groups": np.arange(50), "exact": False}, "by groups"),
        ({"groups": np.arange(50)}, "needs interval"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(pb.InputError, match=words):
        pb.calibration_error(*world(50, 0), **options)
