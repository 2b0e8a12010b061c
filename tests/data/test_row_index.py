"""Rows are paired by position, so pandas indexes that differ are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import probaudit as pb
from probaudit import InputError, calibrators, diagrams

N = 40
FRAME = pd.DataFrame(
    {
        "y": np.arange(N) % 2,
        "p": np.linspace(0.05, 0.95, N),
        "w": np.linspace(1, 2, N),
        "group": np.where(np.arange(N) % 3, "a", "b"),
    },
    index=[f"row {i}" for i in range(N)],
)
OTHER = FRAME.iloc[::-1]
BY_GROUP = calibrators.PerGroup().fit(FRAME.p, FRAME.y, groups=FRAME.group)
BY_FEATURE = calibrators.GroupCalibration().fit(FRAME.p, FRAME.y, features=FRAME[["w"]])
BOOSTED = calibrators.MultiCalibration(rounds=1).fit(FRAME.p, FRAME.y, features=FRAME[["w"]])
MODEL = LogisticRegression().fit(FRAME[["w"]], FRAME.y)
LABELS = pd.DataFrame({"a": FRAME.y, "b": 1 - FRAME.y})

REFUSED = {
    "outputs": lambda: pb.log_score(FRAME.y, OTHER.p),
    "a frame of outputs": lambda: pb.log_score(FRAME.y, pd.DataFrame({0: 1 - OTHER.p, 1: OTHER.p})),
    "weights": lambda: pb.log_score(FRAME.y, FRAME.p, sample_weight=OTHER.w),
    "clusters": lambda: pb.log_score(FRAME.y, FRAME.p, clusters=OTHER.group),
    "weights without an index of labels": lambda: pb.log_score(
        FRAME.y.to_numpy(), FRAME.p, sample_weight=OTHER.w
    ),
    "columns": lambda: pb.audit(FRAME.y, FRAME.p, columns=OTHER[["group"]], repair=False),
    "a mapping": lambda: pb.audit(FRAME.y, FRAME.p, columns={"g": OTHER.group}, repair=False),
    "features": lambda: pb.grouping_loss(FRAME.y, FRAME.p, OTHER[["w"]]),
    "features of a budget": lambda: pb.loss_budget(FRAME.y, FRAME.p, OTHER[["w"]]),
    "groups": lambda: pb.validation_table(FRAME.y, FRAME.p, OTHER.group),
    "a partition": lambda: pb.calibration_error(
        FRAME.y, FRAME.p, partition=pb.EqualWidth(2) * pb.Column(OTHER.group)
    ),
    "a selection": lambda: pb.calibration_error(FRAME.y, FRAME.p, where=OTHER.group == "a"),
    "a comparison": lambda: pb.compare({"a": FRAME.p, "b": OTHER.p}, FRAME.y),
    "a fit": lambda: calibrators.PlattScaling().fit(FRAME.p, OTHER.y),
    "weights of a fit": lambda: calibrators.PlattScaling().fit(FRAME.p, FRAME.y, OTHER.w),
    "groups of a fit": lambda: calibrators.PerGroup().fit(FRAME.p, FRAME.y, groups=OTHER.group),
    "groups of new rows": lambda: BY_GROUP.predict_proba(FRAME.p, groups=OTHER.group),
    "groups of a loss": lambda: pb.calibration_loss(
        FRAME.y, FRAME.p, calibrator=calibrators.PerGroup(), groups=OTHER.group
    ),
    "features of a fit": lambda: calibrators.GroupCalibration().fit(
        FRAME.p, FRAME.y, features=OTHER[["w"]]
    ),
    "rows that learn groups": lambda: calibrators.GroupCalibration().fit(
        FRAME.p, FRAME.y, features=FRAME[["w"]], grouping_rows=OTHER.y == 1
    ),
    "features of new rows": lambda: BY_FEATURE.predict_proba(FRAME.p, OTHER[["w"]]),
    "features of boosting": lambda: calibrators.MultiCalibration(rounds=1).fit(
        FRAME.p, FRAME.y, features=OTHER[["w"]]
    ),
    "clusters of boosting": lambda: calibrators.MultiCalibration(rounds=1).fit(
        FRAME.p, FRAME.y, groups=FRAME.group, clusters=OTHER.group
    ),
    "features after boosting": lambda: BOOSTED.predict_proba(FRAME.p, OTHER[["w"]]),
    "a model": lambda: calibrators.CalibratedModel(LogisticRegression()).fit(FRAME[["w"]], OTHER.y),
    "clusters of a model": lambda: calibrators.CalibratedModel(LogisticRegression()).fit(
        FRAME[["w"]], FRAME.y, clusters=OTHER.group
    ),
    "a scorer": lambda: pb.as_scorer(pb.log_score)(MODEL, FRAME[["w"]], OTHER.y),
    "a display": lambda: diagrams.ReliabilityDisplay.from_estimator(MODEL, FRAME[["w"]], OTHER.y),
    "groups of a diagram": lambda: diagrams.group_errors_diagram(FRAME.y, FRAME.p, by=OTHER.group),
    "a composition": lambda: diagrams.partition_composition_diagram(FRAME.y, FRAME.p, OTHER.group),
    "features of a composition": lambda: diagrams.partition_composition_diagram(
        FRAME.y, FRAME.p, BY_FEATURE, features=OTHER[["w"]]
    ),
    "several labels": lambda: pb.multilabel_table(LABELS, LABELS.iloc[::-1]),
    "weights of several labels": lambda: pb.multilabel_table(
        LABELS, LABELS * 0.8, sample_weight=OTHER.w
    ),
    "a reference": lambda: pb.score_divergence(FRAME.p, OTHER.p),
    "decisions": lambda: pb.decision_cost(FRAME.y, OTHER.y, [[0, 1], [5, 0]]),
    "grades": lambda: pb.grade_table(FRAME.y, FRAME.p, OTHER.group),
    "a state": lambda: pb.statistics(classes=2).update(FRAME.y, OTHER.p),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_another_index_is_refused(call):
    with pytest.raises(InputError, match="must have the same pandas index as") as caught:
        call()
    assert caught.value.row == 0
    assert "index 'row 39', not 'row 0'" in str(caught.value)


def test_equal_indexes_and_arrays_are_paired_by_position():
    plain = pb.log_score(FRAME.y.to_numpy(), FRAME.p.to_numpy())
    assert pb.log_score(FRAME.y, FRAME.p) == plain
    assert pb.log_score(FRAME.y, FRAME.p.to_numpy()) == plain
    assert pb.log_score(FRAME.y, FRAME.p.tolist()) == plain
    assert pb.log_score(FRAME.y, FRAME.p.copy(), sample_weight=np.ones(N)) == plain
    assert pb.log_score(FRAME.y, OTHER.p.loc[FRAME.index]) == plain


def test_other_lengths_have_their_own_error():
    with pytest.raises(InputError, match="needs one label per row"):
        pb.log_score(FRAME.y[:-1], FRAME.p)
