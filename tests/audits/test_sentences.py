"""The sentence of the verdict in every branch, as whole text."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from probaudit.audits.decision import _reasons, agreement_words, gain_words
from probaudit.audits.repairs import advised
from probaudit.estimate import Estimate


def around(value, half=0.0):
    return Estimate(value, low=value - half, high=value + half)


def repair(name="temperature", title="temperature scaling", gain=0.2, half=0.02, **more):
    numbers = {
        "log_score": Estimate(0.4),
        "normalized": around(0.6, 0.05),
        "accuracy": Estimate(0.74),
        "predicted": 0.744,
        "observed": 0.744,
        "gap": around(0.0, 0.01),
        "ece": Estimate(0.02),
        "ece_chance": math.nan,
        "control": False,
        "selected": True,
    }
    return SimpleNamespace(name=name, title=title, gain=around(gain, half), **numbers | more)


IDENTITY = repair("identity", "original (uncalibrated)", gain=0.0, half=0.0)
CASE = {
    "validation": None,
    "pairs": False,
    "event": 1,
    "compared": True,
    "group_columns": (),
    "material": 0.01,
    "rows": 5000,
    "effective_rows": 5000.0,
    "error_limit": 0.02,
    "too_few": False,
    "one_outcome": False,
    "selected": repair(),
    "ece": SimpleNamespace(p_value=0.001),
    "repairs": (IDENTITY, repair()),
    "estimates": {
        "accuracy": Estimate(0.55),
        "log_score.normalized": around(0.8, 0.01),
        "predicted": Estimate(0.82),
        "observed": Estimate(0.55),
        "gap": around(0.27, 0.01),
    },
}


def case(**changes):
    estimates = CASE["estimates"] | changes.pop("estimates", {})
    return SimpleNamespace(**CASE | {"estimates": estimates} | changes)


def event(adjusted, slope=None):
    return SimpleNamespace(adjusted=adjusted, slope=slope or Estimate(1.0, low=0.9, high=1.1))


def rates_of(predicted, observed, half):
    gap = around(predicted - observed, half)
    return {"predicted": Estimate(predicted), "observed": Estimate(observed), "gap": gap}


FINE = rates_of(0.409, 0.394, 0.02)
AGREEMENT = {
    "Overconfident: the model predicts 82% on average but is right 55% of the time.": case(),
    "Underconfident: the model predicts 50% on average but is right 55% of the time.": case(
        estimates=rates_of(0.5, 0.55, 0.01)
    ),
    "The model predicts 40.9% on average and is right 39.4% of the time.": case(estimates=FINE),
    "Probabilities too high: the model predicts 82% on average for class 1, but it happened in 55% "
    "of the rows.": case(validation=event(0.001)),
    "Probabilities too low: the model predicts 1.2% on average for class 1, but it happened in "
    "2.0% of the rows.": case(validation=event(0.001), estimates=rates_of(0.012, 0.02, 0.001)),
    "The model predicts 40.9% on average for class 1, and it happened in 39.4% of the rows.": case(
        validation=event(0.3), estimates=FINE
    ),
    "The model predicts 40.9% on average for class 1, and it happened in 39.4% of the rows. "
    "Single risks are too extreme (calibration slope 0.50).": case(
        validation=event(0.3, around(0.5, 0.1)), estimates=FINE
    ),
    "The model predicts 40.9% on average for class 1, and it happened in 39.4% of the rows. "
    "Single risks are not extreme enough (calibration slope 2.00).": case(
        validation=event(0.3, around(2.0, 0.1)), estimates=FINE
    ),
}
REMOVES = "removes 20% of the log loss (cross-validated, 95% interval 18% to 22%)"
SMALL = repair(gain=0.003, half=0.001)
HARMFUL = repair(gain=-0.004, half=0.006)
FINITE = repair(gain=math.inf, half=0.0)
GAINS = {
    f"Recalibration by temperature scaling {REMOVES} and lifts accuracy from 55% to 74%.": case(),
    f"Recalibration by temperature scaling {REMOVES} and lowers accuracy from 80% to 74%.": case(
        estimates={"accuracy": Estimate(0.8)}
    ),
    f"Recalibration by temperature scaling {REMOVES} "
    "and hardly changes accuracy (74.1%, then 74.0%).": case(
        estimates={"accuracy": Estimate(0.741)}
    ),
    f"Recalibration by temperature scaling {REMOVES}; "
    "accuracy goes from 72.0% to 74.0%, which may be chance.": case(
        estimates={"accuracy": Estimate(0.72)}, effective_rows=900.0
    ),
    f"Recalibration by temperature scaling {REMOVES}.": (case(pairs=True)),
    f"Recalibration by temperature scaling {REMOVES}. "
    "The model is then still overconfident by 3 points: 77% predicted, 74% right.": case(
        pairs=True, selected=repair(predicted=0.77, gap=around(0.026, 0.01))
    ),
    f"Recalibration by temperature scaling {REMOVES} "
    "and lifts accuracy from 55% to 74%. It is then still too high by 3 points: 77% predicted, "
    "74% happened.": case(
        validation=event(0.1), selected=repair(predicted=0.77, gap=around(0.026, 0.01))
    ),
    f"Recalibration by temperature scaling {REMOVES}. No clear calibration error is left.": case(
        pairs=True, selected=repair(ece_chance=0.02)
    ),
    f"Recalibration by temperature scaling {REMOVES}. An ECE of 0.020 is left, above the 95% limit "
    "of a calibrated model (0.015).": case(
        pairs=True, selected=repair(ece=around(0.02, 0.01), ece_chance=0.015)
    ),
    # a difference that is not significant is not mentioned
    f"Recalibration by beta calibration {REMOVES}.": case(
        pairs=True,
        selected=repair("beta", "beta calibration", predicted=0.77, gap=around(0.026, 0.03)),
    ),
    "Recalibration by calibration per group, which needs the column 'site' in new rows, "
    f"{REMOVES}.": case(
        pairs=True,
        group_columns=("site",),
        selected=repair("per_group", "calibration per group"),
    ),
    "Recalibration is not needed: temperature scaling removes 0.3% of the log loss "
    "(cross-validated, 95% interval 0.2% to 0.4%).": case(selected=SMALL),
    "Recalibration is not needed: temperature scaling adds 0.4% to the log loss "
    "(cross-validated, 95% interval −0.2% to 1.0%).": case(selected=HARMFUL),
    "Recalibration by temperature scaling makes the infinite log loss finite (0.400) and lifts "
    "accuracy from 55% to 74%.": case(selected=FINITE),
    "Recalibration by temperature scaling does not help.": case(selected=IDENTITY),
    "None of 2 calibrators helps.": case(
        selected=IDENTITY, repairs=(IDENTITY, repair(), repair("beta", "beta calibration"))
    ),
    "No calibrator was tried.": case(selected=None),
}
EQUAL = repair(normalized=around(1.0, 0.001))
WORSE = repair(normalized=around(1.3, 0.1))
HARDLY = repair(normalized=around(0.97, 0.02))
NO_BETTER = repair(normalized=around(1.01, 0.03))
WORSE_BEFORE = {"log_score.normalized": around(1.28, 0.02)}
FEW = {"rows": 60, "effective_rows": 60.0, "too_few": True, "error_limit": 0.21}
UNSURE = {"log_score.normalized": around(0.8, 0.3)}
REASONS = {
    (
        "do_not_use",
        "No better than the base-rate forecast, even after temperature scaling: the log "
        "loss is as high.",
    ): (case(selected=EQUAL), 1000),
    (
        "do_not_use",
        "No better than the base-rate forecast, even after temperature scaling: the log "
        "loss is 1.30 times as high.",
    ): (case(selected=WORSE), 1000),
    ("do_not_use", "No better than the base-rate forecast: the log loss is infinite."): (
        case(selected=None, estimates={"log_score.normalized": Estimate(math.inf)}),
        None,
    ),
    (
        "cannot_tell",
        "60 rows are too few to tell whether recalibration would help (by 1% of the log loss or "
        "more); about 1,600 are needed.",
    ): (case(**FEW), 1622),
    (
        "cannot_tell",
        "60 rows are too few to tell whether recalibration would help (by 1% of the log loss or "
        "more); about 1,600 are needed. So far, nothing shows that the probabilities are better "
        "than the base-rate forecast.",
    ): (case(**FEW, selected=IDENTITY, estimates=UNSURE), 1622),
    (
        "cannot_tell",
        "40 rows (effective) are too few to tell whether recalibration would help (by 2.5% of the "
        "log loss or more); about 650 are needed.",
    ): (case(**FEW | {"effective_rows": 40.0}, material=0.025), 650),
    (
        "cannot_tell",
        "On 60 rows, the calibration error of a calibrated model can be as high as 0.210.",
    ): (case(**FEW), 50),
    (
        "recalibrate",
        "The log loss is 1.28 times that of the base-rate forecast, which always predicts 55%. "
        f"Recalibration by temperature scaling {REMOVES}. Even then, the probabilities are hardly "
        "better than the base-rate forecast: the log loss is 3.0% lower (95% interval 1.0% to "
        "5.0%).",
    ): (case(pairs=True, selected=HARDLY, estimates=WORSE_BEFORE), 1000),
    (
        "recalibrate",
        "The log loss is 1.28 times that of the base-rate forecast, which always predicts 55%. "
        f"Recalibration by temperature scaling {REMOVES}. "
        "Even then, nothing shows that the probabilities are better than the base-rate "
        "forecast.",
    ): (case(pairs=True, selected=NO_BETTER, estimates=WORSE_BEFORE), 1000),
    (
        "recalibrate",
        "As given, their log loss is 1.05 times that of the base-rate forecast. No calibrator was "
        "tried.",
    ): (case(selected=None, estimates={"log_score.normalized": around(1.05, 0.2)}), 1000),
    (
        "recalibrate",
        "As given, their log loss is 1.28 times that of the base-rate forecast. Recalibration by "
        f"temperature scaling {REMOVES}.",
    ): (case(pairs=True, estimates={"log_score.normalized": around(1.28, 0.3)}), 1000),
    (
        "recalibrate",
        "As given, their log loss is not clearly lower than that of the base-rate forecast. "
        f"Recalibration by temperature scaling {REMOVES}.",
    ): (case(pairs=True, estimates={"log_score.normalized": around(0.9, 0.3)}), 1000),
    (
        "recalibrate",
        f"Recalibration by temperature scaling {REMOVES}.",
    ): (case(pairs=True, estimates={"log_score.normalized": around(0.6, 0.3)}), 1000),
    (
        "use",
        "Recalibration by temperature scaling does not help. But the probabilities are hardly "
        "better than the base-rate forecast: the log loss is 5.0% lower (95% interval 4.0% to "
        "6.0%).",
    ): (case(selected=IDENTITY, estimates={"log_score.normalized": around(0.95, 0.01)}), 1000),
    (
        "use",
        "The log loss is 40% lower than that of the base-rate forecast, and no calibration error "
        "is detected (p = 0.30). Recalibration by temperature scaling does not help.",
    ): (
        case(
            selected=IDENTITY,
            ece=SimpleNamespace(p_value=0.3),
            estimates={"log_score.normalized": around(0.6, 0.01)},
        ),
        1000,
    ),
    ("use", "Recalibration by temperature scaling does not help."): (
        case(selected=IDENTITY, estimates={"log_score.normalized": around(0.94, 0.01)}),
        1000,
    ),
    ("cannot_tell", "All rows have the same outcome."): (case(one_outcome=True), None),
    ("cannot_tell", "The log loss is 0: these rows cannot show an error."): (case(), None),
    ("cannot_tell", "All rows are in one cluster, which tells nothing about other clusters."): (
        case(effective_rows=math.nan),
        1000,
    ),
}


@pytest.mark.parametrize("sentence", AGREEMENT)
def test_what_the_model_predicts_and_what_happened(sentence):
    assert agreement_words(AGREEMENT[sentence]) == sentence


def test_few_rows_say_nothing_about_the_slope():
    found = case(validation=event(0.3, around(0.5, 0.1)), estimates=FINE)
    assert agreement_words(found, sure=False) == (
        "The model predicts 40.9% on average for class 1, and it happened in 39.4% of the rows."
    )


def test_few_rows_can_show_that_the_average_is_off():
    found = case(validation=event(0.001), estimates=rates_of(0.53, 0.35, 0.09))
    assert agreement_words(found, sure=False) == (
        "The average probability of class 1 is too high (53% predicted, 35% happened)."
    )


@pytest.mark.parametrize("sentence", GAINS)
def test_the_gain_of_recalibration(sentence):
    assert gain_words(GAINS[sentence]) == sentence


@pytest.mark.parametrize(("grade", "sentence"), REASONS)
def test_the_reason_for_a_grade(grade, sentence):
    found, needed = REASONS[grade, sentence]
    assert " ".join(filter(None, _reasons(found, grade, needed))) == sentence


@pytest.mark.parametrize(
    ("grade", "name"),
    [
        ("recalibrate", "temperature"),
        ("use", "identity"),
        ("cannot_tell", None),
        ("do_not_use", None),
    ],
)
def test_a_calibrator_is_recommended_only_if_the_verdict_advises_it(audited, grade, name):
    found = advised(audited.repairs, grade)
    assert [one.name for one in found if one.recommended] == ([] if name is None else [name])
    (selected,) = (one for one in found if one.selected)
    assert ("recommended:" in selected.words) == (grade == "recalibrate")


@pytest.fixture(scope="module")
def audited():
    import numpy as np

    import probaudit as pb

    rng = np.random.default_rng(0)
    z = rng.normal(0, 1, 3000)
    y = (rng.random(3000) < 1 / (1 + np.exp(-z))).astype(int)
    found = pb.audit(y, 1 / (1 + np.exp(-3 * z)), repair="compare")
    assert found.selected.name == "temperature"
    return found
