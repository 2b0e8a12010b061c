"""Paper 4: the experiments of group calibration on simulated networks with known truth."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.calibrators import GroupCalibration
from probaudit.errors import InputError
from probaudit.reproduce import group_calibration as paper
from probaudit.reproduce.group_calibration_ablations import ablations, first_partitions
from probaudit.reproduce.group_calibration_example import (
    DRAWN,
    GAP,
    PREDICTED,
    TRUE,
    figure_1,
    section_3_2,
    two_classes,
)
from probaudit.reproduce.group_calibration_partitions import (
    COUNT,
    PAPER,
    RESAMPLED,
    count_different,
    learned_partitions,
    rows_apart,
)
from probaudit.reproduce.group_calibration_protocol import Sets
from probaudit.reproduce.group_calibration_tables import (
    CORRECTED_P,
    PAIRED_P,
    file_table,
    trained_table,
)
from probaudit.reproduce.printed_values import printed_values
from probaudit.reproduce.stored_diagram import StoredDiagram

SMALL = {"rows": 1500, "partitions": 3}
RECIPE = ["mlp"]


def network_rows(n: int, seed: int, slope: float = 1.0) -> pb.Predictions:
    """Ten classes. The first feature tells where the logits are too large by the factor e^slope, or
    too small; with a slope of 0 the outputs are the true probabilities."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, 4)).astype(np.float32)
    logits = 1.5 * rng.standard_normal((n, 10))
    truth = logits * np.exp(-slope * np.sign(features[:, :1]))
    y = (truth + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return pb.Predictions(y, logits, features=features, from_logits=True)


class Simulated:
    """Takes the place of `Networks`."""

    def __init__(self, slope: float = 1.0, test: int = 3000) -> None:
        self.slope, self.test = slope, test

    def outputs(self, recipe: object, part: str = "test") -> pb.Predictions:
        return network_rows(self.test if part == "test" else 1500, len(part), self.slope)


def values(outcome, column: str) -> dict[str, float]:
    return {row.row: row.ours for row in outcome.rows if row.column == column}


def test_printed_values_are_those_of_the_paper() -> None:
    printed = printed_values("group_calibration")
    assert len(printed) == 9 * 6 + 9 * 7 - 3 + 4  # GPC has no result on ImageNet
    assert printed["Table 1", "CIFAR10 Resnet152, GC+TS", "ECE"] == 0.0079
    assert printed["Table 2", "Imagenet Swin, IRM(NAP)", "ECE"] == 0.0110
    assert printed["Section 3.2", "GC+TS", "PCE"] == 0.0141
    # the averages that Table 1 prints
    for base, mean in (("TS", -5.03), ("ETS", -8.92)):
        names = {row.rpartition(", ")[0] for part, row, _ in printed if part == "Table 1"}
        changes = [
            printed["Table 1", f"{name}, GC+{base}", "ECE"]
            / printed["Table 1", f"{name}, {base}", "ECE"]
            - 1
            for name in names
        ]
        assert 100 * np.mean(changes) == pytest.approx(mean, abs=0.3)


def test_table_1_finds_hidden_groups_and_keeps_the_accuracy() -> None:
    found = trained_table(Simulated(), 1, "world", "CIFAR10 VGG11", RECIPE, splits=4, **SMALL)
    verdicts = {claim.statement: claim.holds for claim in found.claims}
    assert verdicts["world: GC+TS has a lower log loss than TS (x 1,000)"] is True
    assert verdicts["world: GC+ETS has a lower log loss than ETS (x 1,000)"] is True
    assert len(set(values(found, "accuracy").values())) == 1
    loss = values(found, "log loss")
    assert loss["world, GC+TS"] < loss["world, TS"] < loss["world, Uncal"]
    ece = next(row for row in found.rows if (row.row, row.column) == ("world, TS", "ECE"))
    assert (ece.printed, ece.agrees) == (0.0125, None)
    assert values(found, PAIRED_P)["world, GC+TS"] < values(found, CORRECTED_P)["world, GC+TS"]


def test_table_of_a_file_is_compared_within_its_tolerance() -> None:
    rows = network_rows(400, 0), network_rows(600, 1)
    for tolerance, agrees in ((1.0, True), (1e-9, False)):
        found = file_table(
            *rows, 2, "own", "CIFAR10 Resnet152", tolerance, splits=2, rows=300, partitions=2
        )
        compared = [row for row in found.rows if row.agrees is not None]
        assert {row.column for row in compared} == {"ECE"}
        assert len(compared) == 7
        assert {row.agrees for row in compared} == {agrees}
    assert [claim.source.partition(",")[0] for claim in found.claims] == ["Table 2"] * 2


def test_files_must_have_features() -> None:
    rows = network_rows(50, 0)
    bare = pb.Predictions(rows.codes, rows.probs, from_logits=True)
    with pytest.raises(InputError, match="`data`: files for group calibration must have"):
        Sets.given(rows, bare, 10, 2)


def test_two_classes_have_the_summed_probabilities() -> None:
    rows = network_rows(20, 0)
    found = two_classes(rows)
    np.testing.assert_allclose(
        found.probabilities()[:, 1], rows.probabilities()[:, :5].sum(axis=1), atol=1e-12
    )
    np.testing.assert_array_equal(found.codes, rows.codes < 5)


def test_figure_1_of_a_perfect_model_shows_errors_by_true_class_only() -> None:
    """The outputs are the true probabilities, and class 3 is more frequent than class 6: in a
    partition of inputs confidence and accuracy agree, in one by true class they do not, and the
    control shows the same."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((20_000, 10)) + 5.0 * np.eye(10)[3] + 4.0 * np.eye(10)[6]
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)

    class Perfect:
        def outputs(self, recipe: object, part: str) -> pb.Predictions:
            return pb.Predictions(y, logits, from_logits=True)

    found = figure_1(Perfect(), RECIPE)
    gaps = {row.row: row for row in found.rows if row.column == GAP}
    for group in ("G1", "G2"):
        assert gaps[f"{group} {PREDICTED}"].ours == pytest.approx(0, abs=0.02)
        true, drawn = gaps[f"{group} {TRUE}"], gaps[f"{group} {DRAWN}"]
        assert abs(true.ours) > 0.05
        assert true.ours == pytest.approx(drawn.ours, abs=0.02)
    assert values(found, "ECE")["isotonic regression"] < 1e-6
    assert set(found.figures) == {"whole", "groups"}


def test_section_3_2_lowers_the_error_in_learned_groups() -> None:
    found = section_3_2(Simulated(), RECIPE, splits=3, **SMALL)
    pce = values(found, "PCE")
    assert pce["GC+TS"] < 0.7 * pce["TS"]
    assert [row.printed for row in found.rows if row.row == "TS"][:2] == [0.0157, 0.0174]


def test_partitions_are_counted_and_drawn() -> None:
    a, b = np.zeros(400, int), np.zeros(400, int)
    b[:3] = 1  # less than 1% apart from a
    c = np.arange(400) % 2
    apart = rows_apart(np.array([a, b, 1 - a, c]))
    assert apart[0].tolist() == [0.0, 0.0075, 0.0, 0.5]
    assert count_different(apart) == 2
    found = learned_partitions(Simulated(), "world", RECIPE, True, **SMALL)
    counts = values(found, COUNT)
    assert counts[f"world, {PAPER}"] == 1
    assert len(counts) == 8
    assert RESAMPLED in " ".join(counts)
    for figure in found.figures.values():
        stored = StoredDiagram.of_dict(StoredDiagram.of(figure).to_dict())
        assert stored.picture().title.startswith("world, ")


def test_ablations_and_first_partitions() -> None:
    """The first partitions of many are those of fewer: starting points are drawn in order."""
    rows = network_rows(800, 0)
    many, few = (
        GroupCalibration(n_partitions=u, from_logits=True).learn_groups(
            rows.probs, rows.codes, features=rows.features
        )
        for u in (5, 2)
    )
    np.testing.assert_array_equal(first_partitions(many, 2).weights_, few.weights_)
    found = ablations(
        Simulated(),
        "world",
        RECIPE,
        splits=3,
        rows=1500,
        partitions=[1, 3],
        groups=[2, 3],
        penalties=[0.1, 1.0],
    )
    loss = values(found, "log loss minus TS, x 1,000")
    # λ = 0.1 and K = 2 are the same fit
    for series in (PAPER, RESAMPLED):
        assert loss[f"world, {series}, K = 2"] == pytest.approx(loss[f"world, {series}, λ = 0.1"])
        assert loss[f"world, {series}, U = 3"] < -10
    assert len(found.claims) == 6  # no weaker penalty than 0.1
    assert set(found.figures) == {"u", "k", "lambda"}
    picture = found.figures["u"].picture()
    assert [panel.title for panel in picture.panels] == ["ECE", "log loss"]
    assert len(found.figures["u"].columns()["metric"]) == 2 * 2 * 2


def test_findings_name_every_part() -> None:
    world = Simulated(test=1000)
    few = {"splits": 2, "rows": 300, "partitions": 2}
    outcomes = {
        "table-1-mlp": trained_table(world, 1, "world", "", RECIPE, **few),
        "table-2-mlp": trained_table(world, 2, "world", "", RECIPE, **few),
        "figure-1": figure_1(world, RECIPE),
        "section-3-2": section_3_2(world, RECIPE, **few),
        "figure-2-mlp": learned_partitions(world, "world", RECIPE, False, 300, 2),
        "ablations-mlp": ablations(
            world,
            "world",
            RECIPE,
            **few | {"partitions": [1, 2]},
            groups=[2, 3],
            penalties=[0.1, 1.0],
        ),
    }
    words = " ".join(paper.findings(outcomes))
    for part in ("Table 1", "Table 2", "Figure 1", "Section 3.2", "partitions differ", "Figure"):
        assert part in words
    assert paper.findings({}) == []
