"""Every measure takes weights, as rows that are repeated, or says that it does not."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb

RNG = np.random.default_rng(0)
N = 120
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(int)
W = RNG.integers(1, 4, N)
R = np.repeat(np.arange(N), W)

COSTS = [[0, 1], [5, 0]]
# A number of each measure that does not depend on the number of rows.
TAKEN = {
    "log_score": lambda *rows, **more: pb.log_score(*rows, **more),
    "brier_score": lambda *rows, **more: pb.brier_score(*rows, **more),
    "bayes_risk": lambda *rows, **more: pb.bayes_risk(*rows, COSTS, **more),
    "ranked_probability_score": lambda *rows, **more: pb.ranked_probability_score(*rows, **more),
    "risk_weighted_score": lambda *rows, **more: pb.risk_weighted_score(*rows, **more),
    "risk_curve": lambda *rows, **more: pb.risk_curve(*rows, **more).risk,
    "risk_coverage": lambda *rows, **more: pb.risk_coverage(*rows, **more).aurc,
    "decision_curve": lambda *rows, **more: pb.decision_curve(*rows, **more).net_benefit,
    "best_threshold": lambda *rows, **more: pb.best_threshold(*rows, COSTS, **more).threshold,
    "output_entropy": lambda *rows, **more: pb.output_entropy(*rows, **more),
    "calibration_error": lambda *rows, **more: pb.calibration_error(*rows, **more),
    "average": lambda *rows, **more: pb.average_calibration_error(*rows, **more),
    "rms": lambda *rows, **more: pb.rms_calibration_error(
        *rows, partition=pb.EqualWidth(5), debias=False, **more
    ),
    "partitioned": lambda *rows, **more: pb.partitioned_calibration_error(
        *rows, pb.EqualWidth(5), **more
    ),
    "calibration_test": lambda *rows, **more: pb.calibration_test(*rows, **more).value,
    "smooth": lambda *rows, **more: pb.smooth_calibration_error(*rows, **more),
    "kernel": lambda *rows, **more: pb.kernel_calibration_error(*rows, **more),
    "mmce": lambda *rows, **more: pb.maximum_mean_calibration_error(*rows, **more),
    "line": lambda *rows, **more: pb.calibration_line(*rows, **more).slope,
    "indices": lambda *rows, **more: pb.calibration_indices(*rows, **more).ici,
    "cumulative": lambda *rows, **more: pb.cumulative_differences(*rows, **more).kuiper,
    "decomposition": lambda *rows, **more: pb.score_decomposition(*rows, **more).miscalibration,
    "validation": lambda *rows, **more: pb.validation_table(*rows, **more).overall.auc,
    "audit": lambda *rows, **more: pb.audit(*rows, repair=False, **more)["ece"],
    "multilabel": lambda y, p, **more: (
        pb.multilabel_table(np.c_[y, 1 - y], np.c_[p, 1 - p], **more).macro.auc
    ),
}
REFUSED = {
    "Spiegelhalter's test": pb.spiegelhalter_test,
    "the Hosmer-Lemeshow test": pb.hosmer_lemeshow_test,
    "ECE-sweep": pb.sweep_calibration_error,
    "the SKCE test": pb.kernel_calibration_test,
    "a test of grades": lambda *rows, **more: pb.grade_table(*rows, scale=[0.5], **more),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_weight_counts_as_rows(name):
    measure = TAKEN[name]
    weighted = np.asarray(measure(Y, P, sample_weight=W), float)
    assert weighted == pytest.approx(np.asarray(measure(Y[R], P[R]), float), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_measures_of_rows_of_equal_weight_say_so(name):
    rows = pb.Predictions(Y, P, sample_weight=W)
    for call in (
        lambda: REFUSED[name](Y, P, sample_weight=W),
        lambda: REFUSED[name](rows),
    ):
        with pytest.raises(pb.InputError, match=f"{name} needs rows of equal weight.*which takes"):
            call()
