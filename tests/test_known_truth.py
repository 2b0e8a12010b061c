"""The known-truth benchmark: its worlds, tallies and cases, and whether its page is up to date."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import probaudit as pb

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import known_truth as kt  # noqa: E402
import known_truth_cases as ktc  # noqa: E402
import known_truth_page as ktp  # noqa: E402
import known_truth_worlds as ktw  # noqa: E402

# One case of each family; other worlds differ only in their rows. Expensive families take seconds
# per run.
EXPENSIVE = ("audit", "class grouping", "selection")
CHEAP = [
    min((case for case in ktc.cases() if case.family == family), key=lambda case: case.n)
    for family in ktc.families()
    if family not in EXPENSIVE
]


@pytest.mark.parametrize("case", CHEAP, ids=lambda case: case.name)
def test_every_family_runs(case, monkeypatch):
    monkeypatch.setattr(ktw, "BLOCK_VALUES", 20_000)
    monkeypatch.setattr(ktc, "FITS", 3)
    monkeypatch.setattr(ktc, "FRESH_VALUES", 10_000)
    ktw.population.cache_clear()
    ktc.fitted_loss.cache_clear()
    (truths,) = kt.truths_of_world([case])
    known = kt.Results()
    known.take(truths)
    known.take(kt.replicate(case, 0, 2, known.truths[case.name]))
    ktw.population.cache_clear()
    ktc.fitted_loss.cache_clear()
    for name, tally in known.tallies[case.name].items():
        assert (tally.runs, tally.failed) == (2, 0), f"{name}: {tally.why}"
    rows = list(ktp.rows([case], known))
    assert [row.item for row in rows] == list(ktc.families()[case.family].items)


@pytest.mark.parametrize("world", list(ktw.worlds()))
def test_labels_follow_the_true_probabilities(world):
    """The sum of (label - truth) is within five standard deviations of 0."""
    draw = ktw.worlds()[world].sample(3_000, 0)
    again = ktw.worlds()[world].sample(3_000, 0)
    assert np.array_equal(draw.p, again.p)
    assert np.array_equal(draw.y, again.y)
    assert draw.p.shape == draw.truth.shape
    assert abs(draw.truth.sum(axis=1) - 1).max() < 1e-9
    hit = np.eye(draw.p.shape[1])[draw.y][:, -1]
    clustering = 1 if draw.clusters is None else 1 + 0.5 * 30
    spread = math.sqrt(clustering * (draw.truth[:, -1] * (1 - draw.truth[:, -1])).sum())
    assert abs((hit - draw.truth[:, -1]).sum()) < 5 * spread


def test_population_values_against_the_package():
    """Both are means over the same rows; the package sees each class as a row weighted by its true
    probability."""
    draw = ktw.worlds()["logits x 1.7, K = 3"].sample(4_000, 1)
    values = ktw.block_values(draw.p, draw.truth, None)
    y, p, weights = np.tile([0, 1, 2], 4_000), np.repeat(draw.p, 3, axis=0), draw.truth.ravel()
    estimates = {
        "log": pb.log_score(y, p, sample_weight=weights),
        "brier": pb.brier_score(y, p, sample_weight=weights),
        "reject": pb.bayes_risk(y, p, pb.Cost.zero_one(3, reject=0.1), sample_weight=weights),
        "log normalised": pb.log_score(y, p, sample_weight=weights, normalize=True),
        "ece": pb.calibration_error(y, p, sample_weight=weights),
        "classwise": pb.calibration_error(y, p, sample_weight=weights, lens=pb.Classwise()),
        "top 2": pb.calibration_error(y, p, sample_weight=weights, lens=ktc.AMONG_TWO),
    }
    for name, value in estimates.items():
        assert values[name] == pytest.approx(float(value), rel=1e-9), name
    # Computed on another grid, so less precise.
    assert values["smooth"] == pytest.approx(
        float(pb.smooth_calibration_error(y, p, sample_weight=weights)), rel=2e-3
    )
    kernel = float(pb.kernel_calibration_error(y, p, sample_weight=weights))
    assert values["kernel brier limit"] == pytest.approx(kernel, rel=5e-3)


def test_closed_forms():
    """Logits of two classes differ by N(0, 8): the Brier score is E 2 p (1 - p), by Gauss-Hermite
    quadrature."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(200)
    p = 1 / (1 + np.exp(-math.sqrt(8) * nodes))
    expected = float((mass * 2 * p * (1 - p)).sum() / mass.sum())
    draw = ktw.worlds()["calibrated, K = 2"].sample(100_000, 2)
    assert ktw.block_values(draw.p, draw.truth, None)["brier"] == pytest.approx(expected, abs=3e-3)
    known = ktw.worlds()["three known groups"].values["grouping known groups"]
    assert 0.97 < known / pb.simulate.unfair_groups(10).grouping_loss < 1


def test_tallies():
    tally = kt.Tally()
    for low, high in ((0.1, 0.3), (0.25, 0.4), (-0.2, -0.1)):
        tally.add(ktc.Outcome(0.2, low, high), ktw.Truth(0.2))
    tally.add(ValueError("no"), ktw.Truth(0.2))
    assert (tally.runs, tally.failed, tally.covered, tally.starts_below) == (3, 1, 1, 2)
    assert (tally.above_zero, tally.below_zero, tally.why) == (2, 1, "ValueError: no")
    test = kt.Tally()
    for p in (0.01, 0.05, 0.06):
        test.add(ktc.Outcome(p_value=p), None)
    assert (test.runs, test.alarms) == (3, 2)
    assert (tally + tally).covered == 2


def test_marks():
    def row(coverage, runs=1000, kind="interval", **more):
        return ktp.Row("f", "i", "w", 1, runs, kind, coverage=coverage, intervals=runs, **more)

    assert not row(0.95).marked
    assert row(0.929).marked
    assert row(0.971).marked
    assert row(0.929).within_error
    assert not row(0.90).within_error
    assert row(0.90, runs=100).within_error
    assert not row(1.0, kind="bound").marked
    assert row(0.94, kind="bound").marked
    assert row(0.95, false_alarms=0.08).marked


def test_an_interrupted_run_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(ktw, "BLOCK_VALUES", 20_000)
    ktw.population.cache_clear()
    cases = [
        case for case in ktc.cases() if case.name == "calibration line / calibrated, K = 2 / 300"
    ]
    path = tmp_path / "results.jsonl"
    kt.run(cases, 2, path, processes=1)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines) + '\n{"case": "cut o')
    path.write_text(path.read_text() + "\n")
    resumed = kt.run(cases, 5, path, processes=1)
    whole = kt.run(cases, 5, tmp_path / "whole.jsonl", processes=1)
    ktw.population.cache_clear()
    name = cases[0].name
    assert resumed.done[name] == set(range(5))
    for item, tally in whole.tallies[name].items():
        other = resumed.tallies[name][item]
        assert (tally.runs, tally.covered) == (other.runs, other.covered)
        assert tally.bias == pytest.approx(other.bias, abs=1e-12)
    assert kt.load(path, "another version").done == {}
    assert json.loads(lines[0])["source"] == kt.source_hash()


def test_the_page_has_every_case():
    text = kt.PAGE.read_text()
    assert ktp.page_keys(text) == ktp.expected_keys()


def test_the_page_explains_every_marked_cell():
    text = kt.PAGE.read_text()
    if "trial run" in text:
        pytest.skip("a trial run has too few replications to explain marked cells")
    assert ktp.UNEXPLAINED not in text
