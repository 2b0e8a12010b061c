"""The grades of an audit and their thresholds, in worlds with known truth."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

import probaudit as pb
from probaudit.cli.commands import app
from probaudit.errors import InputError


def world(n: int, factor: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and probabilities whose log-odds are `factor` times the true ones."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=n) - 0.5
    return (rng.random(n) < expit(z)).astype(int), expit(factor * z)


@pytest.mark.parametrize(
    ("n", "factor", "grade"),
    [(6000, 1.0, "use"), (6000, 2.0, "recalibrate"), (150, 1.0, "cannot_tell")],
)
def test_grades_of_known_worlds(n, factor, grade):
    for seed in range(3):
        found = pb.audit(*world(n, factor, seed))
        assert found.grade == grade, found.decision
        assert (found.decision.action is None) == (grade != "recalibrate")


def test_forecasts_that_are_not_better_than_the_base_rate():
    y, _ = world(6000)
    rng = np.random.default_rng(1)
    for p in (np.full(6000, y.mean()), rng.uniform(0.1, 0.9, 6000)):
        found = pb.audit(y, p, repair="compare")
        assert found.grade == "do_not_use"
        constant = len(set(p)) == 1
        why = "Every row has the same" if constant else "No better than the base-rate forecast"
        assert why in found.decision.sentence
    assert pb.audit(y[:80], np.full(80, 0.4)).grade != "use"


def test_reversed_probabilities_are_not_recalibrated():
    y, p = world(6000)
    assert pb.audit(y, 1 - p).grade in ("do_not_use", "recalibrate")
    assert pb.audit(y, 1 - p, repair=False).grade == "do_not_use"


def test_material_is_an_option(tmp_path):
    y, p = world(6000, 1.25)
    found = pb.audit(y, p)
    gain = float(found.selected.gain)
    assert 0.003 < gain < 0.05
    assert pb.audit(y, p, material=gain * 0.9).grade == "recalibrate"
    assert pb.audit(y, p, material=min(0.9, gain * 1.5)).grade == "use"
    for wrong in (0, 1, -0.1):
        with pytest.raises(InputError, match="`material`: must be a share"):
            pb.audit(y, p, material=wrong)
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["label,p", *(f"{a},{b}" for a, b in zip(y, p, strict=True))]))
    command = ["audit", str(path), "--probs", "p", "--json", "-", "--material"]
    grades = [
        json.loads(CliRunner().invoke(app, [*command, str(share)]).output)["decision"]["grade"]
        for share in (gain * 0.9, min(0.9, gain * 1.5))
    ]
    assert grades == ["recalibrate", "use"]


def shifted(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A strong model whose log-odds are all too high, and still better than the base rate."""
    rng = np.random.default_rng(0)
    z = 5 * rng.normal(size=n)
    return (rng.random(n) < expit(z)).astype(int), expit(z + 2.5)


@pytest.mark.parametrize(
    ("rows", "how"),
    [(world(6000, 1.4), "slightly"), (world(6000, 2.0), "clearly"), (shifted(6000), "badly")],
)
def test_the_headline_grades_the_gain(rows, how):
    """The limits are those of docs/verdict.md."""
    found = pb.audit(*rows)
    gain = float(found.selected.gain)
    limits = {"slightly": (0.0, 0.1), "clearly": (0.1, 0.3), "badly": (0.3, 1.0)}
    low, high = limits[how]
    assert low <= gain < high
    assert found.headline == f"Recalibrate before use: the probabilities are {how} off."
    assert found.decision.level == ("bad" if how == "badly" else "warning")


def test_a_large_difference_is_not_called_slight():
    """Recalibration removes little of a large loss, but the average is off by eight points."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, 6000)
    rows = (rng.random(6000) < p - 0.08).astype(int), p
    found = pb.audit(*rows)
    assert found.selected.gain < 0.1
    assert found["gap"] == pytest.approx(0.08, abs=0.02)
    assert found.headline == "Recalibrate before use: the probabilities are clearly off."


def test_probabilities_that_are_worse_than_the_base_rate_forecast():
    found = pb.audit(*world(6000, 3.5))
    ratio = found["log_score.normalized"]
    assert ratio.low > 1
    assert found.grade == "recalibrate"
    headline = "Recalibrate before use: the probabilities are worse than the base-rate forecast."
    assert (found.headline, found.decision.level) == (headline, "bad")
    words = f"The log loss is {ratio:.2f} times that of the base-rate forecast, which always"
    assert words in found.decision.sentence
    shown = [finding.level for finding in found.decision.findings]
    assert shown == sorted(shown, key=["bad", "warning"].index)


def test_headlines_without_a_gain():
    y, p = world(6000, 2.0)
    untried = pb.audit(y, p, repair=False).headline
    assert untried == "Recalibrate before use: the probabilities are miscalibrated."
    y[0], p[0] = 1, 0.0
    infinite = pb.audit(y, p).headline
    assert infinite == ("Recalibrate before use: the model was certain and wrong in 1 row.")


def test_significance_without_materiality_is_a_note():
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=1_000_000)
    y = (rng.random(len(z)) < expit(1.03 * z + 0.01)).astype(int)
    found = pb.audit(y, expit(z))
    (error,) = (f for f in found.findings if f.rule == "against_chance")
    assert found.errors[0].p_value < 0.01
    assert found.grade == "use"
    assert error.level in ("note", "good")
    assert found.decision.findings == ()


def test_so_many_rows_detect_a_material_gain():
    """With the promised number of rows, the interval of the gain excludes 0 in half of the runs or
    more; with a sixth of them, rarely."""
    factor = 1.32
    big = pb.audit(*world(200_000, factor, 99))
    share = float(big.selected.gain)
    needed = pb.audit(*world(3000, factor), material=share).decision.rows_needed
    detected = {}
    for n in (needed, needed // 6):
        runs = [pb.calibration_loss(*world(n, factor, seed)) for seed in range(40)]
        detected[n] = np.mean([run.relative.low > 0 for run in runs])
    assert 0.3 < detected[needed] < 0.95
    assert detected[needed // 6] < 0.35


def test_the_headline_names_a_misjudged_group():
    rng = np.random.default_rng(0)
    z, north = 1.5 * rng.normal(size=8000), rng.random(8000) < 0.06
    y = (rng.random(8000) < expit(z + 0.8 * north)).astype(int)
    rows = pb.Predictions(y, expit(z), columns={"site": np.where(north, "north", "south")})
    found = pb.audit(rows, material=0.05)
    assert found.headline == "Use these probabilities, but not for site = north."
    assert [finding.rule for finding in found.decision.findings] == ["miscalibrated_group"]


@pytest.mark.parametrize("wrong", [{"material": 2}, {"repair": "all"}, {"cross": ["a*b"]}])
def test_choices_are_checked_before_any_work(monkeypatch, wrong):
    def passes(*_, **__):
        raise AssertionError("rows were read")

    monkeypatch.setattr("probaudit.audits.audit.evidence_of", passes)
    with pytest.raises(InputError, match=next(iter(wrong))):
        pb.audit(*world(20), **wrong)
