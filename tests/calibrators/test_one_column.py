"""Calibrators of two classes take one column or two, whichever of them the fit had."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit import calibrators
from tests.calibrators.test_calibrator_contract import KINDS

WORLD = pb.simulate.gaussian_posteriors(300, 2)
Y, P = WORLD.y, WORLD.mcs[:, 1].astype(np.float64)
SHAPES = {
    "[n]": P,
    "[n, 1]": P[:, None],
    "[n, 2]": np.column_stack([1 - P, P]),
    "list": P.tolist(),
    "series": pd.Series(P),
}
PLAIN = [kind for kind in KINDS if not kind.startswith(("PerGroup", "PriorCorrection"))]


@pytest.mark.parametrize("kind", PLAIN)
def test_all_shapes_give_the_same_probabilities(kind):
    name, choices = KINDS[kind]
    fitted = {
        shape: getattr(calibrators, name)(**choices).fit(SHAPES[shape], Y)
        for shape in ("[n]", "[n, 2]")
    }
    expected = fitted["[n, 2]"].predict_proba(SHAPES["[n, 2]"])
    assert expected.shape == (len(Y), 2)
    for one in fitted.values():
        for values in SHAPES.values():
            assert np.allclose(one.predict_proba(values), expected, atol=1e-9)


def test_the_selected_calibrator_takes_the_scores_it_was_selected_for():
    calibrator = pb.select_calibrator(Y, P).calibrator
    better = calibrator.predict_proba(P)
    assert better.shape == (len(Y), 2)
    assert np.array_equal(better, calibrator.predict_proba(P[:, None]))
    assert calibrator.predict(P).shape == Y.shape


def test_logits_of_one_column():
    z = np.log(P) - np.log1p(-P)
    both = np.column_stack([np.zeros_like(z), z])
    fitted = calibrators.TemperatureScaling(from_logits=True).fit(both, Y)
    assert np.array_equal(fitted.predict_proba(z), fitted.predict_proba(both))


def test_three_classes_need_three_columns():
    world = pb.simulate.gaussian_posteriors(300, 3)
    fitted = calibrators.TemperatureScaling().fit(world.mcs, world.y)
    with pytest.raises(ValueError, match="a column for each of the 3 classes"):
        fitted.predict_proba(world.mcs[:, 1])
    with pytest.raises(ValueError, match="expecting 3 features"):
        fitted.predict_proba(world.mcs[:, :1])
