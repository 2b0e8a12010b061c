"""Advice as calls in Python: each runs as written, with the arguments of the audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import probaudit as pb
from probaudit.audits.finding import ApplyCalibrator, Calibrate, Calls
from probaudit.simulate import gaussian_posteriors

THREE = gaussian_posteriors(400, 3)
TWO = gaussian_posteriors(400, 2)
NAMES = np.array(["cat", "dog", "emu"])
SIDES = np.resize(["left", "right"], 400)
TOPICS = {"side": SIDES, "half": np.repeat(["first", "second"], 200)}
CONFIDENCES = pb.Predictions.from_confidence(
    THREE.mcs.max(axis=1), THREE.mcs.argmax(axis=1) == THREE.y, columns=TOPICS
)


def run(found: pb.Audit, action: Calibrate, new_proba: Any, **names: Any) -> np.ndarray:
    """What the calibrator of an advice predicts."""
    names |= {"pb": pb, "new_proba": new_proba}
    exec(found.spelling(action), names)
    return np.asarray(eval(found.spelling(ApplyCalibrator(action.uses)), names))


@pytest.mark.parametrize(
    "names",
    [
        {"y_true": THREE.y, "y_proba": THREE.mcs},
        {"y_true": THREE.y, "y_proba": np.log(THREE.mcs), "from_logits": True},
        {"y_true": NAMES[THREE.y], "y_proba": THREE.mcs, "classes": NAMES},
        {"y_true": TWO.y, "y_proba": TWO.mcs[:, 1], "sample_weight": np.ones(400)},
    ],
    ids=["probabilities", "logits", "named classes", "one column and weights"],
)
def test_calls_run_as_written(names):
    found = pb.audit(**names)
    action = found.decision.action
    assert action is not None
    assert "pb.select_calibrator(y_true, y_proba" in found.spelling(action)
    better = run(found, action, **names, new_proba=names["y_proba"])
    again = {k: v for k, v in names.items() if k not in ("y_proba", "from_logits")}
    y_true = again.pop("y_true")
    assert pb.log_score(y_true, better, **again) < found["log_score"]


def test_calls_for_rows_and_groups():
    found = pb.audit(CONFIDENCES)
    by_side = Calibrate("per_group", uses="groups", columns=("side",))
    assert "select_calibrator(rows, groups='side', candidates" in found.spelling(by_side)
    confidence = THREE.mcs.max(axis=1)
    better = run(found, by_side, confidence, rows=CONFIDENCES, new_groups=SIDES)
    assert better.shape == (400, 2)


def test_calls_for_groups_of_columns():
    found = pb.audit(THREE.y, THREE.mcs, columns=TOPICS)
    both = Calibrate("multicalibration", uses="groups", columns=("side", "half"))
    given = {"y_true": THREE.y, "y_proba": THREE.mcs, "columns": TOPICS}
    groups = np.column_stack([TOPICS["side"], TOPICS["half"]])
    assert run(found, both, THREE.mcs, **given, new_groups=groups).shape == (400, 3)


def test_features_are_named_unless_the_rows_have_them():
    by_features = Calibrate("group_calibration", uses="features")
    assert "y_proba, features=features, candidates" in Calls()(by_features)
    assert "(rows, candidates" in Calls.of(("rows",), {})(by_features)
