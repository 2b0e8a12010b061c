"""Paper 1: the numbers of the authors' code, worlds with a known loss, and the protocol for
networks on generated outputs."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from probaudit import Binary, EqualWidth
from probaudit.data.predictions import Predictions
from probaudit.grouping.loss import grouping_loss
from probaudit.reproduce import grouping
from probaudit.reproduce.grouping_networks import (
    CLEAN,
    KINDS,
    MERGED,
    RECALIBRATES,
    RISES,
    STAYS,
    figure_13,
    group_differences,
    grouping_diagrams,
    images,
    shifts,
    table_1,
)
from probaudit.reproduce.grouping_protocol import difference, published_sample, published_split
from probaudit.reproduce.grouping_simulated import CASES, PARTS, figure_4, published_numbers
from probaudit.reproduce.grouping_worlds import WORLDS, worlds
from probaudit.reproduce.printed_values import printed_values
from probaudit.reproduce.trained import Recipe

RECIPES = {"LeNet": {"network": "lenet"}}

# --- Figure 4


@pytest.fixture(scope="module")
def curves():
    return figure_4(2, [12, 30, 100], [5, 15, 30])


@pytest.mark.parametrize("seed", range(3))
def test_the_samples_and_the_split_of_the_code(shared, seed):
    world = published_sample(seed)
    with np.load(shared / "golden" / f"b_fig4_seed{seed}.npz") as stored:
        np.testing.assert_allclose(world.features, stored["X"], atol=1e-12)
        np.testing.assert_array_equal(world.y, stored["y"])
        split = published_split(world.scores, EqualWidth(15))
        np.testing.assert_array_equal(np.flatnonzero(split), np.sort(stored["test_idx"]))


def test_stored_numbers_are_those_of_the_code(shared):
    cases = json.loads((shared / "golden" / "b_grouping_loss.json").read_text())["cases"]
    names = {"plugin": "LB_biased", "bias": "bias", "induced": "GL_ind", "lower bound": "LB_final"}
    printed = printed_values("grouping")
    for seed in range(3):
        for ratio in (30, 100):
            expected = cases[f"fig4_seed{seed}_uniform15_nspcb{ratio}"]
            for part, name in names.items():
                stored = printed["Figure 4", f"sample {seed}, equal width, ratio {ratio}", part]
                assert stored == pytest.approx(expected[name], abs=1e-12)


def test_every_number_of_the_code_is_met():
    rows = published_numbers(grouping.PUBLISHED).rows
    assert len(rows) == 8 * len(PARTS)
    assert [row for row in rows if not row.agrees] == []


def test_another_sample_does_not_agree():
    """A tolerance that every sample meets would prove nothing."""
    [first, *_] = CASES
    rows = published_numbers([[0, first], [1, first]]).rows
    assert abs(rows[0].ours - rows[4].printed) > 1000 * rows[0].tolerance


def test_means_are_those_of_the_samples(curves):
    """Samples 0 and 1 by the authors' code, in percent of the true loss."""
    printed = printed_values("grouping")
    rows = {(row.row, row.column): row.ours for row in curves.rows}
    for part in PARTS:
        values = [printed["Figure 4", f"sample {k}, equal width, ratio 30", part] for k in (0, 1)]
        expected = 100 * np.mean(values) / grouping.TRUTH
        assert rows["ratio 30, 15 bins", part] == pytest.approx(expected, abs=1e-5)


def test_order_of_the_curves(curves):
    columns = curves.figures["bounds"].columns()
    bound = columns["plugin"] - columns["bias"] - columns["induced"]
    np.testing.assert_allclose(columns["lower bound"], bound, atol=1e-12)
    claims = {claim.statement: claim for claim in curves.claims}
    assert claims["ratio 12: the plugin overestimates the loss"].holds
    assert claims["the bound rises from ratio 100 to 30"].value > 0.5
    assert "At ratios up to 12 some regions have a single row" in curves.notes[0]


# --- worlds


def expected_losses(figure):
    """Closed forms over uniform scores, or integrals over scores sigmoid(sqrt(10) z)."""
    if figure == 9:
        return [1 / 30, 1 / 12]
    if figure == 10:
        return [1 / 48, 1 / 24]

    def mean(function):
        return 2 * quad(lambda z: function(z) * norm.pdf(z), 0, 9, points=[0.35], limit=200)[0]

    def room(z):
        s = expit(np.sqrt(10) * z)
        return min(s, 1 - s, abs(s - 0.5)) if figure == 12 else min(s, 1 - s)

    smooth = mean(lambda u: np.tanh(1.5 * u) ** 2)
    return [smooth * mean(lambda z: room(z) ** 2), mean(lambda z: room(z) ** 2)]


@pytest.mark.parametrize("figure", WORLDS)
def test_worlds_of_appendix_b(figure):
    found = worlds(figure, 20_000, 100)
    rows = [row for row in found.rows if row.column == "true grouping loss"]
    assert [row.ours for row in rows] == pytest.approx(expected_losses(figure), rel=2e-3)
    bounds = [row for row in found.rows if row.column == "our lower bound"]
    for true, bound in zip(rows, bounds, strict=True):
        assert bound.ours == pytest.approx(true.ours, rel=0.15)
    assert [claim.statement for claim in found.claims if claim.holds is not True] == []
    [picture] = [one.picture() for one in found.figures.values()]
    assert len(picture.panels) == 4


def test_a_miscalibrated_world_is_rejected(monkeypatch):
    calibrated_world = WORLDS[9]["left"]

    def sharpened(n):
        world = calibrated_world(n)
        return type(world)(**vars(world) | {"scores": world.scores**2})

    monkeypatch.setitem(WORLDS, 9, {"left": sharpened})
    claim, *_ = worlds(9, 20_000, 100).claims
    assert "scores are calibrated" in claim.statement
    assert claim.holds is False


# --- networks


@dataclass(frozen=True)
class Generated:
    """Outputs of a network that is right as often as it says. On corrupted images it is right more
    often where the first feature is positive, and less often elsewhere. Rotated images are harder,
    and the third feature reveals them."""

    rows: int = 4000

    def outputs(self, recipe, part="test", *, corruption="", severity=0):
        labels = np.random.default_rng(0).integers(0, 3, self.rows)
        rng = np.random.default_rng(2 + KINDS.index(corruption) if corruption else 1)
        confidence = rng.uniform(0.4, 0.8, self.rows)
        features = rng.normal(size=(self.rows, 3))
        shift = 0.2 * np.sign(features[:, 0]) if corruption else np.zeros(self.rows)
        if corruption == "rotation":
            shift -= 0.2
            features[:, 2] += 4
        right = rng.random(self.rows) < confidence + shift
        predicted = np.where(right, labels, (labels + 1) % 3)
        logits = np.zeros((self.rows, 3))
        logits[np.arange(self.rows), predicted] = np.log(2 * confidence / (1 - confidence))
        return Predictions(labels, logits, features=features, from_logits=True)


def test_merged_images_have_one_corruption_each():
    networks = Generated(300)
    merged = images(networks, Recipe(), MERGED, 5)
    names = merged.columns["corruption"]
    assert sorted(set(names)) == sorted(KINDS)
    for kind in KINDS:
        alone = networks.outputs(Recipe(), corruption=kind, severity=5)
        np.testing.assert_array_equal(merged.features[names == kind], alone.features[names == kind])
        np.testing.assert_array_equal(merged.probs[names == kind], alone.probs[names == kind])


def test_table_1_finds_the_hidden_groups():
    found = table_1(Generated(), RECIPES, 5, 100)
    rows = {(row.row, row.column): row for row in found.rows}
    assert abs(rows["LeNet in distribution", "GL_LB"].ours) < 0.01
    for column in ("GL_LB", "GL′_LB", "our bound", "our bound′"):
        # 0.2^2, by the sign of a feature
        assert rows["LeNet noise", column].ours == pytest.approx(0.04, abs=0.012), column
        assert rows["LeNet noise", column].low > 0.02
    assert rows["LeNet rotation", "CL"].ours == pytest.approx(0.04, abs=0.01)  # 0.2^2
    assert rows["LeNet rotation", "CL′"].ours < 0.005
    accuracy = rows["LeNet noise", "accuracy"]
    data = Generated().outputs(Recipe(), corruption="noise", severity=5)
    assert accuracy.ours == pytest.approx(100 * (data.probs.argmax(axis=1) == data.codes).mean())
    holds = {claim.statement: claim.holds for claim in found.claims}
    for images_of in (MERGED, *KINDS):
        assert holds[f"LeNet {images_of}: {RISES}"], images_of
        assert holds[f"LeNet {images_of}: {STAYS}"], images_of
    assert holds[f"LeNet rotation: {RECALIBRATES}"]
    assert not holds[f"LeNet noise: {RECALIBRATES}"]  # calibrated already


def test_printed_numbers_stand_beside_the_nearest_network():
    rows = table_1(Generated(400), RECIPES, 5, 10).rows
    printed = {(row.row, row.column): row for row in rows if np.isfinite(row.printed)}
    assert {row for row, _ in printed} == {f"LeNet {CLEAN}", f"LeNet {MERGED}"}
    accuracy = printed[f"LeNet {MERGED}", "accuracy"]
    assert (accuracy.printed, accuracy.source) == (7.8, "Table 2b, AlexNet")
    assert accuracy.agrees is None  # another network


def test_in_distribution_and_merged():
    networks = Generated(1500)
    little, one_is_more = shifts(networks, RECIPES, 5, 50).claims
    rows = table_1(networks, RECIPES, 5, 50).rows
    bound = {row.row: row.ours for row in rows if row.column == "GL_LB"}
    assert little.value == bound[f"LeNet {CLEAN}"]
    alone = np.mean([bound[f"LeNet {kind}"] for kind in KINDS])
    assert one_is_more.value == pytest.approx(alone - bound[f"LeNet {MERGED}"])
    assert one_is_more.low < one_is_more.value < one_is_more.high


def test_diagrams_of_two_regions():
    found = grouping_diagrams(Generated(), RECIPES, "noise", 5, 20)
    rows = {(row.row, row.column): row.ours for row in found.rows}
    assert rows["LeNet noise, stump", "GL_LB"] > 0.025
    assert rows["LeNet noise, stump", "GL_LB"] > rows["LeNet in distribution, stump", "GL_LB"]
    picture = found.figures["lenet"].picture()
    titles = ["stump, original", "stump, isotonic", "k-means, original", "k-means, isotonic"]
    assert [panel.title for panel in picture.panels] == titles


def test_groups_at_equal_confidence():
    """In each bin, correctness minus the accuracy of the bin, averaged over the rows of a group."""
    confidence = np.array([0.7, 0.7, 0.7, 0.7, 0.9, 0.9])
    right = np.array([1, 1, 0, 0, 1, 0])
    group = np.array(["a", "a", "a", "b", "b", "b"])
    p = np.column_stack([confidence, 1 - confidence])
    rows = Predictions(1 - right, p, columns={"corruption": group})
    found = group_differences(rows, 200)
    assert found["a"] == pytest.approx((0.5 + 0.5 - 0.5) / 3)
    assert found["b"] == pytest.approx((-0.5 + 0.5 - 0.5) / 3)
    assert found["a"].low < found["a"] < found["a"].high


def test_figure_13_finds_the_harder_corruption():
    found = figure_13(Generated(), RECIPES, 5, 100)
    rows = {row.column: row for row in found.rows}
    assert rows["rotation"].high < 0
    assert min(rows[kind].ours for kind in KINDS if kind != "rotation") > 0
    # rotated rows, a quarter, are right less often by 0.2: variance 0.2^2 (1/4)(3/4)
    assert rows["bound by corruption"].ours == pytest.approx(0.0075, abs=0.004)
    assert found.figures["groups"].picture().panels[0].y.categories[-1] == "rotation"


def test_differences_are_paired():
    world = published_sample(0, 2000)
    found = grouping_loss(world.y, world.scores, world.features, lens=Binary(), recalibrate=True)
    nothing = difference(found, found)
    assert (nothing, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
    half = difference(found, found, times=0.5)
    assert half == pytest.approx(found.lower_bound / 2)
    assert half.high - half.low == pytest.approx(
        (found.lower_bound.high - found.lower_bound.low) / 2
    )
    fall = difference(found.recalibrated, found, "calibration_loss")
    assert fall == pytest.approx(found.recalibrated.calibration_loss - found.calibration_loss)


# --- findings


def test_findings_with_and_without_networks(curves):
    found = {"figure-4": curves, "figure-4-code": published_numbers(grouping.PUBLISHED[:1])}
    found |= {f"figure-{figure}": worlds(figure, 4000, 20) for figure in WORLDS}
    alone = grouping.findings(found)
    assert len(alone) == 4
    assert "all 4 within tolerance" in alone[0]
    networks = Generated(1000)
    found["table-1"] = table_1(networks, RECIPES, 5, 20)
    found["shifts"] = shifts(networks, RECIPES, 5, 20)
    found["figure-13"] = figure_13(networks, RECIPES, 5, 20)
    sentences = grouping.findings(found)[4:]
    assert [words.split(".")[0] for words in sentences] == [
        "Grouping loss under corruption",
        "After isotonic regression",
        sentences[2].split(".")[0],
        "Appendix D",
        "Figure 13",
    ]
    bounds = {row.row: row.ours for row in found["table-1"].rows if row.column == "GL_LB"}
    assert f"merged: LeNet {bounds['LeNet merged']:.4f} (" in sentences[0]
    assert sentences[2].startswith("Isotonic regression changes it significantly on ")
    assert " of 6" in sentences[2]
