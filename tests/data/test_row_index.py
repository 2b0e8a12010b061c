"""Rows are paired by position, so pandas indexes that differ are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit import InputError, calibrators

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
