"""`audit[name]`, `audit.flat()` and the thresholds of `check` have the same names."""

from __future__ import annotations

import math

import numpy as np
import pytest

import probaudit as pb
from probaudit.audits.gate import Threshold, check_thresholds

WORLD = pb.simulate.gaussian_posteriors(400, 2)


@pytest.fixture(scope="module")
def found():
    sex = np.where(np.arange(400) % 2, "f", "m")
    return pb.audit(WORLD.y, WORLD.mcs[:, 1], columns={"sex": sex})


def test_every_name_has_its_number(found):
    for name, value in found.flat().items():
        assert isinstance(found[name], pb.Estimate)
        assert found[name] == value or (math.isnan(found[name]) and math.isnan(value)), name
        (checked,) = check_thresholds(found.flat(), [Threshold(name, "max", math.inf)])
        assert checked.name == name


def test_numbers_have_their_intervals(found):
    for name in ("ece", "log_score", "slope", "ici", "auc", "groups.sex=f.gap"):
        assert found[name].interval == (found[f"{name}.low"], found[f"{name}.high"])
        assert all(map(math.isfinite, found[name].interval))
    assert set(found.to_frame()["name"]) <= set(found.flat())


def test_unknown_names_propose_others(found):
    with pytest.raises(KeyError, match=r"no number 'ECE'; did you mean ece\?"):
        found["ECE"]
    with pytest.raises(KeyError, match=r"did you mean coverage_at_risk_5\?"):
        found["coverage"]
    with pytest.raises(KeyError, match=r"no number 'auroc'; use auc"):
        found["auroc"]
    with pytest.raises(KeyError, match=r"the numbers are accuracy, log_score"):
        found["xyz"]
