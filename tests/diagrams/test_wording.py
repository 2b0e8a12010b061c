"""Definitions in words: no code is left where people read."""

from __future__ import annotations

import re

import numpy as np
import pytest

import probaudit as pb
from probaudit import diagrams
from probaudit.choices import distances, lenses, partitions
from probaudit.diagrams.wording import in_words, score_of
from probaudit.grouping.regions import KMeansRegions, StumpRegions, TreeRegions

# a call, an identifier, a keyword, a name of two words
CODE = re.compile(r"\w\(|_|=|\b[A-Z][a-z]+[A-Z][a-z]")

SHOWN = {
    partitions.EqualWidth(15): "15 equal bins",
    partitions.EqualWidth(10, right=True): "10 equal bins, closed on the right",
    partitions.EqualMass(20): "20 bins of equal mass",
    partitions.KDTree(
        2**-4
    ): "boxes of a k-d tree, split at the mean while they hold 1/16 of the rows",
    partitions.KDTree(
        min_rows=50, split="median"
    ): "boxes of a k-d tree, split at the median while they hold 50 rows",
    partitions.Edges([0, 0.5, 1]): "bins between given edges",
    partitions.Column(np.arange(9)): "given groups",
    partitions.Whole() * partitions.EqualMass(5): "all rows together within 5 bins of equal mass",
    lenses.TopLabel(): "most probable class",
    lenses.TopK(5): "5 most probable classes",
    lenses.OneVsRest(3): "class in column 3 against all others",
    lenses.TopK(2) | lenses.Binary(): "2 most probable classes, and of that second class",
    lenses.Groups(((0, 1), (2,))): "groups of classes",
    distances.L1(): "absolute difference",
    distances.Lq(3.0): "3-norm of the difference",
    distances.Lq(np.inf): "largest difference",
    distances.Divergence(pb.choices.scores.Brier()): "divergence of the Brier score",
    distances.InterInterval(0.1, 0.4): "distance from the interval 0.1 to 0.4",
    distances.Mahalanobis(np.eye(2)): "Mahalanobis distance",
    TreeRegions(30): "regions of a tree, one for 30 rows or more",
}


@pytest.mark.parametrize(
    ("choice", "words"), SHOWN.items(), ids=[repr(choice)[:40] for choice in SHOWN]
)
def test_choices_have_words(choice, words):
    assert in_words(repr(choice)) == words


def test_every_public_choice_has_words():
    every = [
        partitions.Each(),
        partitions.Whole(),
        lenses.Full(),
        lenses.Classwise(),
        lenses.Binary(),
    ]
    every += [
        distances.TVD(),
        distances.Squared(),
        distances.IntervalTVD(0.1, 0.4),
        StumpRegions(),
        KMeansRegions(3),
    ]
    every += list(distances.NAMED.values()) + list(SHOWN)
    kinds = {type(choice) for choice in every}
    for base in (partitions.Partition, lenses.Lens, distances.Distance):
        public = {
            kind for kind in base.__subclasses__() if getattr(pb, kind.__name__, None) is kind
        }
        assert len(public) > 5
        assert public <= kinds
    assert not any(CODE.search(in_words(repr(choice))) for choice in every)


def test_what_has_no_words_stays_as_it_is():
    assert in_words("calibration error, Rival(a=0, b=1), EqualMass(bins=3)") == (
        "calibration error, Rival(a=0, b=1), 3 bins of equal mass"
    )
    assert in_words("Lq(), of somebody else") == "Lq(), of somebody else"


def test_no_definition_of_an_audit_is_left_in_code():
    world = pb.simulate.gaussian_posteriors(600, 3)
    right = world.cal.argmax(axis=1) == world.y
    rows = pb.Predictions.from_confidence(world.cal.max(axis=1), right, features=np.c_[world.y])
    for pairs, found in (
        (False, pb.audit(world.y, world.mcs, features=np.c_[world.y], costs=1 - np.eye(3))),
        (True, pb.audit(rows)),
    ):
        assert found.budget is not None
        estimates = [*found.estimates.values(), *(error.estimate for error in found.errors)]
        for definition in (
            *(x.definition for x in estimates),
            found.budget.definition,
            *map(str, found.settings.values()),
        ):
            assert not CODE.search(in_words(definition, pairs=pairs)), definition
            if pairs:
                assert "class" not in in_words(definition, pairs=True), definition
        # as before, for those who compute
        assert "TopLabel()" in found.errors[0].to_dict()["definition"]


def test_a_budget_says_which_score_it_splits():
    world = pb.simulate.gaussian_posteriors(2000, 3)
    choices = {"features": np.c_[world.y], "calibrator": "none", "resamples": 10}
    whole, top = (
        pb.loss_budget(world.y, world.mcs, lens=lens, **choices)
        for lens in (pb.Classwise(), pb.TopLabel())
    )
    assert score_of(whole) == "Brier score"
    assert score_of(top) == "Brier score of the most probable class"
    assert score_of(top, pairs=True) == "Brier score of the stated confidence"


def test_diagrams_say_what_they_show_in_words():
    world = pb.simulate.gaussian_posteriors(500, 3)
    few = {"resamples": 20}
    shown = [
        diagrams.interval_wise_diagram(world.y, world.mcs, **few),
        diagrams.group_errors_diagram(world.y, world.mcs, by=np.arange(500) % 2, **few),
        diagrams.top_k_diagram(world.y, world.mcs, **few),
        diagrams.loss_budget_diagram(world.y, world.mcs, np.c_[world.y], calibrator="none", **few),
        diagrams.sweep_diagram(
            world.y,
            world.mcs,
            partitions=[pb.EqualWidth(2), pb.EqualMass(5)],
            lens=pb.TopLabel(),
            distance="l1",
            **few,
        ),
    ]
    for diagram in shown:
        picture = diagram.picture()
        assert not CODE.search(f"{picture.description} {picture.caption}"), picture.description
    rows = pb.Predictions.from_confidence(
        world.cal.max(axis=1), world.cal.argmax(axis=1) == world.y
    )
    said = diagrams.interval_wise_diagram(rows, **few).picture().description
    assert "stated confidence" in said
    assert "class" not in said
