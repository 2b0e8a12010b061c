"""Definitions in words: no code is left where people read."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import dataclass

import numpy as np
import pytest

import probaudit as pb
from probaudit import diagrams
from probaudit.choices import distances, lenses, partitions, selections
from probaudit.choices.definitions import Definition, in_words
from probaudit.grouping.regions import KMeansRegions, StumpRegions, TreeRegions

# a call, an identifier, a keyword, a name of two words
CODE = re.compile(r"\w\(|_|=|\b[A-Z][a-z]+[A-Z][a-z]")

SHOWN = {
    partitions.EqualWidth(15): "15 equal-width bins",
    partitions.EqualWidth(10, right=True): "10 equal-width bins, closed on the right",
    partitions.EqualMass(20): "20 equal-mass bins",
    partitions.KDTree(
        2**-4
    ): "cells of a k-d tree, split at the mean while they hold 1/16 of the rows",
    partitions.KDTree(
        min_rows=50, split="median"
    ): "cells of a k-d tree, split at the median while they hold 50 rows",
    partitions.Edges([0, 0.5, 1]): "bins between given edges",
    partitions.Column(np.arange(9)): "given groups",
    partitions.Whole() * partitions.EqualMass(5): "all rows together within 5 equal-mass bins",
    lenses.TopLabel(): "most probable class",
    lenses.TopK(5): "5 most probable classes",
    lenses.Cumulative(): "each class or a lower one, against all higher ones",
    lenses.OneVsRest(3): "class in column 3 against all others",
    lenses.TopK(2) | lenses.Binary(): "2 most probable classes, then second class",
    lenses.Groups(((0, 1), (2,))): "groups of classes",
    selections.LabelIs(2): "true class in column 2",
    selections.PredictedIs((0, 1)): "most probable class in columns 0, 1",
    selections.OutputIn(0.5, 1) & ~selections.LabelIs(0): (
        "(output from 0.5 to 1 and not true class in column 0)"
    ),
    selections.OutputIn(0.5, 1, "max") | selections.Mask([True]): (
        "(largest output from 0.5 to 1 or given rows)"
    ),
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
    assert choice.words() == words


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
    assert not any(CODE.search(choice.words()) for choice in every)


@dataclass(frozen=True)
class Rival(lenses.Lens):
    """A lens of somebody else."""

    a: int = 0

    def view(self, probs, labels):
        return lenses.View(probs, labels)


def test_a_choice_without_words_is_shown_as_code():
    found = Definition("calibration error", Rival(), partitions.EqualMass(3))
    assert found == "calibration error, Rival(a=0), EqualMass(bins=3)"
    assert found.words() == "calibration error, Rival(a=0), 3 equal-mass bins"


def test_definitions_keep_their_words_in_sums_and_pickles():
    found = "root of " + Definition(lenses.TopLabel(), partitions.Whole()) + ", debiased"
    for one in (found, pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert str(one) == "root of TopLabel(), Whole(), debiased"
        assert in_words(one) == "root of most probable class, all rows together, debiased"
        assert in_words(one, pairs=True).startswith("root of confidence")
    both = found + Definition(", ", lenses.Full())
    assert both.words().endswith("debiased, , all classes together")


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
            *found.settings.values(),
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
    assert whole.score_words() == "Brier score"
    assert top.score_words() == "Brier score of the most probable class"
    assert top.score_words(pairs=True) == "Brier score of the confidence"


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
    assert "confidence" in said
    assert "class" not in said
