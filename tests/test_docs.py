"""What the documents say can be called, can be called."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import probaudit as pb

TEXT = (Path(__file__).parents[1] / "docs" / "calibration-errors.md").read_text()
CALLS = re.findall(r"`([a-z_]+\(y, p[^`]*\))`", TEXT)


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_the_table(call):
    many, two = pb.simulate.gaussian_posteriors(300, 7), pb.simulate.gaussian_posteriors(300, 2)
    names = {name: getattr(pb, name) for name in pb.__all__}
    events = ("calibration_l", "indices", "_test(y, p)", "differences", "decomposition", "Binary")
    world = two if any(name in call for name in events) else many
    assert (
        eval(call, names | {"y": world.y, "p": world.cal, "group": np.arange(len(world.y)) % 3})
        is not None
    )


def test_there_are_calls():
    assert len(CALLS) > 20
