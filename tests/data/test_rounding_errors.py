"""Probabilities below 0 by rounding count as 0, in memory, in files and in states."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import probaudit as pb
from probaudit import InputError, Predictions, calibrators

RNG = np.random.default_rng(0)
N = 300
P = RNG.dirichlet([1, 1, 1], N)
P[::7] = [0.0, 0.25, 0.75]
Y = np.where(P[:, 0] == 0, 2, np.arange(N) % 3)
NOISY = P.copy()
NOISY[::7] += [-1e-9, 1e-9, 0]


def test_scores_are_those_of_0():
    assert pb.brier_score(Y, NOISY) == pytest.approx(pb.brier_score(Y, P), abs=1e-8)
    ours = pb.calibration_error(Y, NOISY, lens=pb.Classwise())
    assert ours == pytest.approx(pb.calibration_error(Y, P, lens=pb.Classwise()), abs=1e-8)
    assert pb.log_score(Y, NOISY.astype(np.float32)) == pytest.approx(pb.log_score(Y, P), abs=1e-6)


def test_arrays_of_the_caller_do_not_change():
    given = NOISY.copy()
    pb.log_score(Y, given)
    assert (given == NOISY).all()


def test_no_row_is_dropped():
    rows = Predictions(Y, NOISY, on_bad_rows="drop")
    found = pb.audit(rows, repair=False)
    assert found["dropped_rows"] == 0
    assert found["rows"] == N


def test_a_stream_and_a_state_agree_with_memory(tmp_path):
    frame = pd.DataFrame(NOISY, columns=["p_0", "p_1", "p_2"]).assign(label=Y)
    frame.to_parquet(tmp_path / "rows.parquet")
    memory = pb.audit(Y, NOISY, repair=False)
    streamed = pb.audit(pb.scan(tmp_path / "rows.parquet"), repair=False)
    state = pb.statistics(classes=3).update(Y[:100], NOISY[:100]).update(Y[100:], NOISY[100:])
    assert streamed.flat() == memory.flat()
    assert state.audit(repair=False)["log_score"] == memory["log_score"]


def test_calibrators():
    fitted = calibrators.BetaCalibration().fit(NOISY, Y)
    expected = calibrators.BetaCalibration().fit(P, Y).predict_proba(P)
    assert np.allclose(fitted.predict_proba(NOISY), expected, atol=1e-6)


def test_dense_outputs():
    maps, labels = NOISY[:, :, None], Y[:, None]
    assert pb.brier_score(labels, maps) == pytest.approx(pb.brier_score(Y, P), abs=1e-8)


def test_the_limit_is_the_tolerance_of_sums():
    for below, tolerance in ((-1e-3, None), (-2e-9, 1e-9)):
        values = np.r_[below, 0.5]
        with pytest.raises(InputError, match="must lie between 0 and 1"):
            pb.log_score([0, 1], values, tolerance=tolerance)


def test_logits_below_0_are_logits():
    assert pb.log_score([0, 1], [-1e-9, 2.0], from_logits=True) > 0
