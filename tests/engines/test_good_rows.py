"""The quick test of a block gives what the kernel does."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit import InputError
from probaudit.engines import good_rows
from probaudit.states import Plan

LABELS, OUTPUTS = np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 0.25, 0.75])
ROWS = {
    "good": (LABELS, OUTPUTS, True),
    "rounded": (LABELS, OUTPUTS + np.array([0, 1e-9, 0, 0]), False),
    "not a number": (LABELS, np.array([0.0, np.nan, 0.25, 0.75]), False),
    "above 1": (LABELS, OUTPUTS * 2, False),
    "no class": (np.array([0, 1, 2, 0]), OUTPUTS, False),
    "two columns": (LABELS, np.column_stack([1 - OUTPUTS, OUTPUTS]), False),
}


@pytest.mark.parametrize("name", ROWS)
def test_blocks_that_pass_the_quick_test_are_good(monkeypatch, name):
    labels, outputs, quick = ROWS[name]
    rows = pb.Predictions(labels, outputs, classes=[0, 1], on_bad_rows="drop")
    plan, block = Plan.of(rows), rows.block(0, len(rows))
    assert good_rows._all_in_range(plan, block) == quick
    found = good_rows.good_of_block(plan, block)
    monkeypatch.setattr(good_rows, "_all_in_range", lambda *_: False)
    np.testing.assert_array_equal(found, good_rows.good_of_block(plan, block))


def test_weights_are_checked():
    rows = pb.Predictions(LABELS, OUTPUTS, sample_weight=np.array([1.0, np.nan, 1.0, 1.0]))
    with pytest.raises(InputError, match="weight"):
        good_rows.good_of_block(Plan.of(rows), rows.block(0, 4))
