"""Comparisons of the probability of an event, the errors beside the ECE, and tables by lens."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit.calibration import paired
from probaudit.choices.lenses import View
from probaudit.cli.commands import app
from probaudit.comparisons.contestants import SIDES
from probaudit.diagrams import ErrorsByModel, group_errors_diagram, interval_wise_diagram
from probaudit.diagrams import top_k_diagram as top_k


@pytest.fixture(scope="module")
def risks():
    """A calibrated model of a rare event, and one whose risks are too high."""
    rng = np.random.default_rng(2)
    p = rng.beta(1, 5, 1500)
    y = np.array(["no", "yes"])[(rng.random(1500) < p).astype(int)]
    return y, p, 1 / (1 + np.exp(-1 - np.log(p / (1 - p))))


@pytest.fixture(scope="module")
def found(risks):
    y, p, high = risks
    return pb.compare(
        {"a": p, "b": high}, y, classes=["no", "yes"], repair=False, resamples=200, lenses=True
    )


def test_two_classes_judge_the_second(risks, found):
    y, _, high = risks
    rows = pb.Predictions(y, high, classes=["no", "yes"])
    b, binary = found["b"], {"lens": pb.Binary()}
    assert b["ece"] == pb.calibration_error(rows, **binary)
    assert b["ece"].interval == pb.calibration_error(rows, interval=True, **binary).interval
    assert b["ace"] == pb.calibration_error(rows, partition=pb.EqualMass(15), **binary)
    assert b["smooth_ece"] == pb.smooth_calibration_error(rows, **binary)
    assert b["kernel_calibration_error"] == pb.kernel_calibration_error(rows, **binary)
    assert b["mce"] == pb.calibration_error(rows, worst=True, **binary)
    assert b["average_calibration_error"] == pb.average_calibration_error(rows, **binary)
    assert b["risk_too_high"] + b["risk_too_low"] == pytest.approx(float(b["ece"]))
    assert b["risk_too_high"].low > 0.05 > b["risk_too_low"].high
    assert b["entropy"] == pb.output_entropy(rows)
    assert b["top_label.ece"] == pb.calibration_error(rows)
    assert b["top_label.ace"] == pb.calibration_error(rows, partition=pb.EqualMass(15))
    gap = pb.brier_score(rows) - pb.kernel_calibration_error(rows)
    assert b["sharpness_gap"] == pytest.approx(gap)
    assert not {"overconfidence", "classwise_ece"} & set(b)
    assert all(low <= x <= high for x in found["a"].values() for low, high in [x.error_bar[1:]])


def test_the_grids_and_the_words_are_of_the_event(risks, found):
    y, p, _ = risks
    grid = found.grids["a"]
    assert grid.targets.sum() == (y == "yes").sum()
    assert grid.outputs.sum() == pytest.approx(p.sum())
    assert found.top_grids["a"].outputs.sum() == pytest.approx(np.maximum(p, 1 - p).sum())
    text, page = found.to_text(), found.to_html()
    assert "judged: probability of class yes" in text
    assert "calibration errors: of the probability of class yes" in text
    assert "predicted too high" in text
    assert "overconfidence" not in text
    assert "Reliability diagrams of the probability of class yes" in page
    assert "Calibration error by event" in page
    plain = json.loads(found.to_json())
    assert (plain["event"], plain["judged"]) == ("yes", "probability of class yes")
    assert list(plain["lens_table"]) == ["class yes", "top label"]
    mean = pb.compare(
        {"mean": np.full(len(y), (y == "yes").mean()), "b": p**0.8},
        y,
        classes=["no", "yes"],
        repair=False,
        resamples=50,
    )
    (text,) = (f.text for f in mean.findings if f.rule == "ece_and_score_disagree")
    assert "calibration error of the probability of class yes" in text
    assert "same probability" in text


def test_another_event_and_classes_in_another_order(risks, found):
    y, p, high = risks
    options = {"repair": False, "resamples": 20}
    other = pb.compare({"a": p, "b": high}, y, classes=["no", "yes"], event="no", **options)
    assert other.judged == "probability of class no"
    rest = pb.calibration_error(y, high, classes=["no", "yes"], lens=pb.OneVsRest(0))
    assert other["b"]["ece"] == rest
    first = pb.Predictions(y, p, classes=["no", "yes"])
    turned = pb.Predictions(y, np.column_stack([high, 1 - high]), classes=["yes", "no"])
    assert (turned.event, turned.event_class) == (None, "no")
    mixed = pb.compare({"a": first, "b": turned}, **options)
    assert mixed["b"]["ece"] == pytest.approx(float(found["b"]["ece"]))
    declared = pb.Predictions(y, high, classes=["no", "yes"], event="no")
    with pytest.raises(pb.InputError, match="must have the event of 'a'"):
        pb.compare({"a": first, "b": declared}, **options)


def test_an_event_among_more_classes():
    world = pb.simulate.gaussian_posteriors(600, 3)
    models, options = {"raw": world.mcs, "cal": world.cal}, {"repair": False, "resamples": 20}
    got = pb.compare(models, world.y, event=2, **options)
    assert got["raw"]["ece"] == pb.calibration_error(world.y, world.mcs, lens=pb.OneVsRest(2))
    assert got["raw"]["top_label.ece"] == pb.calibration_error(world.y, world.mcs)
    assert got.judged == "probability of class 2"
    rows = {name: pb.Predictions(world.y, p) for name, p in models.items()}
    rows["cal"] = pb.Predictions(world.y, world.cal, event=2)
    with pytest.raises(pb.InputError, match="must have the event of 'raw'"):
        pb.compare(rows, **options)


def test_pairs_judge_the_stated_confidence(risks):
    y, p, high = risks
    right = (y == "yes").astype(int)
    models = {
        "a": pb.Predictions(right, p, pairs=True),
        "b": pb.Predictions(right, high, pairs=True),
    }
    got = pb.compare(models, repair=False, resamples=20)
    assert got.judged == "confidence"
    assert got.event is None
    assert "overconfidence" in got["b"]
    assert got["b"]["ece"] == pb.calibration_error(right, high, lens=pb.Binary())


def test_errors_of_the_top_label():
    world = pb.simulate.gaussian_posteriors(800, 3)
    got = pb.compare({"raw": world.mcs, "cal": world.cal}, world.y, repair=False, resamples=100)
    raw = got["raw"]
    classwise = pb.calibration_error(world.y, world.mcs, lens=pb.Classwise())
    assert raw["classwise_ece"] == classwise
    assert raw["classwise_ece"].per_class == classwise.per_class
    assert raw["overconfidence"] + raw["underconfidence"] == pytest.approx(float(raw["ece"]))
    assert not any(name.startswith("top_label") for name in raw)
    gap = got.differences["cal"]
    parts = gap["overconfidence"] + gap["underconfidence"]
    assert parts == pytest.approx(float(gap["ece"]))
    assert gap["overconfidence"].high < 0
    assert gap["classwise_ece"].high < 0
    assert gap["entropy"].low > 0
    entropy = [pb.output_entropy(world.y, p) for p in (world.cal, world.mcs)]
    assert gap["entropy"] == pytest.approx(entropy[0] - entropy[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_resamples_start_with_the_original_rows(weighted):
    """The first draw of each error is the error itself; the next ones that of repeated rows."""
    rng = np.random.default_rng(4)
    n, p = 300, rng.dirichlet(np.ones(3), 300)
    y = (p.cumsum(axis=1) ** 1.3 > rng.random((n, 1))).argmax(axis=1)
    w = rng.integers(1, 4, n) / 3 if weighted else np.ones(n)
    sample = paired.Resamples.draw(w, None, 5, seed=0)
    view = View(p[:, 1], (y == 1).astype(int))
    draws = paired.binned_errors(view, sample, SIDES[0]) | {
        "classwise_ece": paired.classwise_errors(p, y, sample)
    }
    for b in (0, 3):
        at = np.repeat(np.arange(n), sample.counts[b].astype(int)[sample.units])

        def error(b=b, at=at, **choices):
            lens = choices.pop("lens", pb.OneVsRest(1))
            return pb.calibration_error(y[at], p[at], sample_weight=w[at], lens=lens, **choices)

        expected = {
            "ece": error(),
            "overconfidence": error(distance="over"),
            "underconfidence": error(distance="under"),
            "mce": error(worst=True),
            "average_calibration_error": error(unweighted=True),
            "classwise_ece": error(lens=pb.Classwise()),
        }
        for name, value in expected.items():
            assert draws[name][0][b] == pytest.approx(float(value)), name


def test_mean_errors_of_a_calibrated_model():
    """The bias bounds against simulated labels."""
    rng = np.random.default_rng(5)
    p = rng.random(400)
    simulated = {name: [] for name in ("ece", "overconfidence", "mce", "average_calibration_error")}
    for _ in range(300):
        view = View(p, (rng.random(400) < p).astype(int))
        sample = paired.Resamples.draw(np.ones(400), None, 1, seed=0)
        draws = paired.binned_errors(view, sample, SIDES[0])
        for name, values in simulated.items():
            values.append(draws[name][0][0])
    for name, values in simulated.items():
        assert draws[name][1] == pytest.approx(np.mean(values), rel=0.06), name


def test_lens_table():
    world = pb.simulate.gaussian_posteriors(600, 4)
    models = {"original": world.mcs, "calibrated": world.cal}
    table = pb.lens_table(models, world.y, resamples=50)
    tree = {"partition": pb.KDTree(2**-4), "distance": "tvd"}
    expected = pb.calibration_error(
        world.y, world.mcs, lens=pb.TopK(2), interval=True, resamples=50, **tree
    )
    got = table["top 2"]["original"]
    assert (got, *got.interval) == (expected, *expected.interval)
    assert table.models == ("original", "calibrated")
    assert len(table.to_frame()) == 2 * len(table.lenses)
    lines = repr(table).splitlines()
    assert lines[0].split() == ["original", "calibrated"]
    assert len(lines) == 2 + len(table.lenses)
    named = {"pairs": pb.Groups([[0, 1], [2, 3]]), "top": pb.TopLabel()}
    chosen = pb.lens_table(models, world.y, lenses=named, partition=pb.KDTree(0.1), resamples=20)
    assert chosen.lenses == ("pairs", "top")
    assert pb.lens_table({"one": world.cal}, world.y, lenses=[pb.Full()], resamples=20).models == (
        "one",
    )
    for wrong in ([], [pb.Full(), pb.Full()], ["full"]):
        with pytest.raises(pb.InputError, match="lenses"):
            pb.lens_table(models, world.y, lenses=wrong)
    with pytest.raises(KeyError, match="the lenses are top label"):
        table["top 9"]


def test_lens_table_leaves_the_same_rows_out():
    world = pb.simulate.gaussian_posteriors(300, 3)
    bad = world.mcs.copy()
    bad[7] = [0.9, 0.9, 0.9]
    table = pb.lens_table(
        {"bad": bad, "cal": world.cal},
        world.y,
        on_bad_rows="drop",
        partition=pb.Column(np.arange(300) % 2),
        resamples=20,
    )
    assert table["top label"]["cal"].n == 299


def test_diagrams_of_several_models():
    world = pb.simulate.gaussian_posteriors(400, 4)
    models = {"original": world.mcs, "calibrated": world.cal, "flat": np.full_like(world.cal, 0.25)}
    together = top_k(world.y, models, ks=[1, 2], resamples=20)
    assert together.models == tuple(models)
    for s, p in enumerate(models.values()):
        alone = top_k(world.y, p, ks=[1, 2], resamples=20)
        assert together.error[s] == pytest.approx(alone.error[0])
        assert together.confidence[s] == pytest.approx(alone.confidence[0])
    assert len(together.picture().panels) == 3
    with pytest.raises(pb.InputError, match="baseline"):
        top_k(world.y, models, baseline=world.cal)
    for function, columns in ((group_errors_diagram, "group"), (interval_wise_diagram, "interval")):
        several = ErrorsByModel.of_models(function, models, world.y, resamples=20)
        frame, alone = several.to_frame(), function(world.y, world.cal, resamples=20)
        own = frame[frame.model == "calibrated"]
        assert own[columns].tolist() == alone.name.tolist()
        assert own["calibration error"].tolist() == alone.error.tolist()
        assert several.plot().axes_
        assert several.picture().panels[0].y.categories == several.groups


def test_the_command(risks, tmp_path):
    y, p, high = risks
    for name, q in (("one", p), ("two", high)):
        frame = pd.DataFrame({"label": y, "p_no": 1 - q, "p_yes": q})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files, out = [str(tmp_path / f"{name}.csv") for name in ("one", "two")], tmp_path / "out.json"
    run = ["compare", *files, "--no-repair", "--event", "no", "--json", str(out)]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 0, result.output
    plain = json.loads(out.read_text())
    assert plain["event"] == "no"
    expected = pb.calibration_error((y == "no").astype(int), 1 - high, lens=pb.Binary())
    estimates = plain["models"]["two"]["estimates"]
    assert estimates["ece"]["value"] == pytest.approx(float(expected))
    assert "class no" in plain["lens_table"]
