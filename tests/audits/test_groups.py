"""Groups of an audit: events, intersections, selective prediction, tests, and thresholds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from sklearn.metrics import brier_score_loss, roc_auc_score
from typer.testing import CliRunner

import probaudit as pb
from probaudit.audits.finding import Calibrate
from probaudit.audits.gate import CheckedThreshold, Threshold
from probaudit.audits.groups import group_errors
from probaudit.calibration.significance import false_discovery
from probaudit.cli.commands import app
from probaudit.data.populations import crossing, crossings, group_column, grouping_of
from probaudit.engines.memory import evidence_of
from probaudit.files.layout import matching_columns
from probaudit.files.writing import write_table
from probaudit.states import Plan


def intersection_world(n: int = 8000, seed: int = 0) -> pb.Predictions:
    """The risk is twice too high for women of race b, and right for everybody else."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n)
    p = 0.02 + rng.beta(2, 12, n)
    true = np.where((sex == "f") & (race == "b"), p / 2, p)
    y = (rng.random(n) < true).astype(int)
    return pb.Predictions(y, p, columns={"sex": sex, "race": race, "age": rng.integers(18, 90, n)})


def groups_of(rows: pb.Predictions, cross=False):
    return group_errors(evidence_of(rows, Plan.of(rows)), cross)


@pytest.fixture(scope="module")
def audit() -> pb.Audit:
    return pb.audit(intersection_world(), cross=["sex*race"], repair=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    rows = intersection_world(3000)
    path = tmp_path_factory.mktemp("groups") / "rows.parquet"
    write_table(path, {"label": rows.y, "p": rows.probs, **rows.columns})
    return str(path)


def test_a_risk_that_is_too_high_for_women_is_called_so():
    """16.8% is predicted for women and 9.8% happens; the top label would be underconfident."""
    n = 10_000
    sex = np.repeat(["f", "m"], n)
    y = np.zeros(2 * n, int)
    y[: round(0.098 * n)] = 1
    y[n : n + round(0.168 * n)] = 1
    women, men = pb.audit(y, np.full(2 * n, 0.168), columns={"sex": sex}, repair=False).groups
    assert (float(women.predicted), float(women.observed)) == pytest.approx((0.168, 0.098))
    assert women.gap == pytest.approx(0.07)
    assert (women.verdict, men.verdict) == ("predicted too high", "")
    low = pb.audit(y, np.full(2 * n, 0.098), columns={"sex": sex}, repair=False)
    assert [group.verdict for group in low.groups] == ["", "predicted too low"]
    assert "predicted too low (9.8%, observed 16.8%)" in low.verdict
    first = pb.audit(y, np.full(2 * n, 0.168), columns={"sex": sex}, event=0, repair=False)
    assert first.groups[0].predicted == pytest.approx(0.832)
    assert first.groups[0].verdict == "predicted too low"


def test_measures_agree_with_other_programs_and_with_the_validation_table(audit):
    rows = intersection_world()
    table = pb.validation_table(rows, cross=["sex*race"]).groups
    assert [group.population for group in audit.groups] == [one.population for one in table]
    for group, one in zip(audit.groups, table, strict=True):
        assert group.rows == one.rows
        for name, x in group.estimates.items():
            if hasattr(one, name):
                assert (x, x.low, x.high) == (y := getattr(one, name), y.low, y.high)
    women = next(g for g in audit.groups if g.value == "f")
    mine = rows.columns["sex"] == "f"
    y, p = rows.y[mine], rows.probs[mine]
    assert women["auc"] == pytest.approx(roc_auc_score(y, p))
    assert women["brier"] == pytest.approx(brier_score_loss(y, p))
    assert women.gap == pytest.approx(p.mean() - y.mean())
    assert women.gap.high - women.gap.low == pytest.approx(
        3.92 * np.std(p - y) / np.sqrt(len(y)), rel=0.02
    )
    right = (p >= 0.5) == y
    order = np.argsort(-np.maximum(p, 1 - p))
    errors = np.cumsum(~right[order]) / np.arange(1, len(y) + 1)
    assert women["aurc"] == pytest.approx(errors.mean(), rel=0.01)
    assert women["accuracy_at_80"] == pytest.approx(1 - errors[round(0.8 * len(y)) - 1], abs=1e-3)
    with pytest.raises(KeyError, match="the estimates are predicted"):
        women["nonsense"]


def test_pairs_and_many_classes_have_accuracy_and_selective_prediction():
    rng = np.random.default_rng(1)
    confidence, site = rng.uniform(0.3, 1, 4000), rng.choice(["n", "s"], 4000)
    correct = rng.random(4000) < np.where(site == "n", confidence - 0.2, confidence)
    rows = pb.Predictions.from_confidence(confidence, correct, columns={"site": site})
    north, south = groups_of(rows)
    assert (north.verdict, south.verdict) == ("overconfident", "")
    mine = site == "n"
    assert north.predicted == pytest.approx(confidence[mine].mean())
    assert north.observed == pytest.approx(correct[mine].mean())
    assert north["confidence_auroc"] == pytest.approx(
        roc_auc_score(correct[mine], confidence[mine])
    )
    alone = pb.risk_coverage(pb.Predictions.from_confidence(confidence[mine], correct[mine]))
    assert (north["aurc"], north["aurc"].low) == (alone.aurc, alone.aurc.low)
    assert "auc" not in north.estimates
    three = rng.dirichlet(np.ones(3), 3000)
    y = (rng.random((3000, 1)) > np.cumsum(three, axis=1)).sum(axis=1)
    half = {"half": np.arange(3000) % 2}
    top = groups_of(pb.Predictions(y, three, columns=half))[0]
    assert top.predicted == pytest.approx(three[::2].max(axis=1).mean())
    event = groups_of(pb.Predictions(y, three, columns=half, event=2))[0]
    assert event.predicted == pytest.approx(three[::2, 2].mean())
    assert event["auc"] == pytest.approx(roc_auc_score(y[::2] == 2, three[::2, 2]))


def test_the_worst_group_is_the_intersection(audit):
    worst = audit.groups.worst()
    assert str(worst[0].population) == "sex = f and race = b"
    assert worst[0].verdict == "predicted too high"
    wrong = {group.population.key for group in worst if group.verdict}
    assert wrong <= {"sex=f and race=b", "sex=f", "race=b"}
    assert "The worst group is sex = f and race = b" in audit.verdict
    advice = next(f.advice for f in audit.findings if f.rule == "miscalibrated_group")
    assert Calibrate("multicalibration", "groups", ("sex", "race", "age")) in advice
    assert len(audit.groups) == 2 + 3 + 5 + 6
    assert audit.groups.cut == ("age",)
    assert "age cut into 5 ranges" in audit.settings["groups"]
    assert "age cut into 5 ranges" in " ".join(audit.to_text().split())


def test_q_values_are_those_of_benjamini_and_hochberg(audit):
    p = np.array([group.p_value for group in audit.groups])
    assert [group.q_value for group in audit.groups] == pytest.approx(false_discovery_control(p))
    ties = np.array([0.2, 0.01, 0.01, 1.0, 0.04])
    assert false_discovery(ties) == pytest.approx(false_discovery_control(ties))
    assert false_discovery(np.empty(0)).shape == (0,)
    for group in audit.groups:
        assert group.p_value <= group.q_value <= max(group.adjusted, group.q_value) <= 1


def test_calibrated_groups_raise_few_alarms():
    """Any of 20 groups is labelled in 1% of worlds; three of 25 have probability 0.2%. Intervals of
    the gap miss 0 in about 5% of groups."""
    alarms = outside = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        p, group = rng.beta(1, 6, 3000), rng.integers(0, 20, 3000)
        rows = pb.Predictions((rng.random(3000) < p).astype(int), p, columns={"group": group})
        found = groups_of(rows)
        assert len(found) == 20
        alarms += any(one.verdict for one in found)
        outside += sum(not one.gap.low <= 0 <= one.gap.high for one in found)
    assert alarms <= 2
    assert outside <= 45  # 25 and four standard errors


def test_groups_that_are_off_in_one_direction_are_detected():
    """A mean shift of four points is detected more often by the mean than by the ECE, whose bins
    share it; the level of both tests together is that of one."""
    rng = np.random.default_rng(0)
    detected, alone = 0, 0
    for _ in range(20):
        p, site = rng.uniform(0.05, 0.95, 4000), np.repeat(["a", "b"], 2000)
        y = (rng.random(4000) < np.where(site == "a", p - 0.04, p)).astype(int)
        shifted, _ = groups_of(pb.Predictions(y, p, columns={"site": site}))
        detected += shifted.verdict == "predicted too high"
        shown = pb.calibration_test(y[:2000], p[:2000], lens=pb.Binary(), resamples=199)
        alone += 2 * shown.p_value <= 0.01
    assert detected >= 12 > alone


def test_a_table_of_groups_is_a_sequence_and_a_frame(audit):
    groups = audit.groups
    frame = groups.to_frame()
    assert len(frame) == len(groups) == len(list(groups))
    assert groups[:2] == (groups[0], groups[1])
    assert frame["gap_low"].tolist() == [group.gap.low for group in groups]
    assert frame["ece"].tolist() == [float(group.error.estimate) for group in groups]
    assert "predicted too high" in repr(groups).splitlines()[1]
    assert "sex = f and race = b" in groups._repr_html_()
    empty = pb.audit([0, 1, 1], [0.2, 0.7, 0.6], repair=False).groups
    assert (len(empty), len(empty.to_frame()), bool(empty)) == (0, 0, False)
    assert "No groups." in empty._repr_html_()


def test_groups_of_a_stream_are_those_of_memory(file):
    options = {"probs": "p", "columns": "sex*race,age"}
    mine = pb.audit(pb.read(file, **options), cross=["sex*race"], repair=False)
    theirs = pb.audit(pb.scan(file, **options), cross=["sex*race"], repair=False)
    assert mine.groups.to_frame().equals(theirs.groups.to_frame())
    assert mine.to_json() == theirs.to_json()
    assert len(mine.groups) == 16
    with pytest.raises(pb.InputError, match="must cross two or more columns"):
        pb.audit(pb.scan(file, **options), cross=["sex*nothing"])


def test_clusters_weights_and_single_rows():
    rows = intersection_world(900)
    who = np.repeat(np.arange(180), 5)
    columns = {"site": np.r_[["alone"], np.repeat(["x", "y"], [449, 450])]}
    plain = pb.Predictions(rows.y, rows.probs, columns=columns)
    alone = groups_of(plain)[0]
    assert alone.rows == 1
    assert -1 <= alone.gap.low <= alone.gap <= alone.gap.high <= 1
    assert alone.verdict == ""
    doubled = pb.Predictions(rows.y, rows.probs, columns=columns, sample_weight=np.full(900, 2.0))
    for one, two in zip(groups_of(plain), groups_of(doubled), strict=True):
        assert one.gap == pytest.approx(float(two.gap))
        assert one.observed.high == pytest.approx(two.observed.high)
    together = pb.Predictions(rows.y, rows.probs, columns=columns, clusters=who)
    for group in groups_of(together):
        assert group.gap.low <= group.gap <= group.gap.high
    zero = pb.Predictions(
        rows.y, rows.probs, columns=columns, sample_weight=np.r_[0.0, np.ones(899)]
    )
    assert [group.value for group in groups_of(zero)] == ["x", "y"]


def test_infinite_numbers_belong_to_the_outer_ranges():
    found = group_column("x", np.r_[np.arange(100.0), np.inf, -np.inf, np.nan])
    assert found.values[0].startswith("−∞ to ")
    assert found.values[-2].endswith(" to ∞")
    assert found.values[-1] == "(missing)"
    assert np.bincount(found.number).tolist() == [21, 20, 20, 20, 21, 1]
    few = group_column("x", np.array([np.inf, np.nan, 1.0, -np.inf]))
    assert few.values == ("-inf", "1", "inf", "(missing)")


def test_crossings_are_spelled_as_text_or_as_names():
    names = ["sex", "race", "a*b", "a", "b"]
    assert crossing("sex*race", names) == ("sex", "race")
    assert crossing("a*b", names) == ()  # the name of a column
    assert crossing("sex*", names) == crossing("sex*rce", names) == ()
    assert crossings([("a", "b"), "sex*race*a"], names) == (("a", "b"), ("sex", "race", "a"))
    assert crossings(True, ["x", "y", "z"]) == (("x", "y", "z"),)
    assert matching_columns(names, "sex*race,a*b", "columns") == ["sex", "race", "a*b"]
    assert matching_columns(["c,d", "c", "d"], "c,d", "columns") == ["c,d"]
    assert matching_columns(["p", "q", "p_1_q"], "p*q", "probs") == ["p_1_q"]
    with pytest.raises(pb.InputError, match="must cross two or more columns of sex, race"):
        pb.audit(intersection_world(50), cross=["sex*nothing"])
    many = {name: np.arange(400) // size % 20 for name, size in (("a", 1), ("b", 20))}
    assert grouping_of(many, True).left_out == {"a*b": "has 400 combinations"}


def test_flat_names_intervals_and_groups(audit):
    flat = audit.flat()
    assert flat["ece.high"] == audit.errors[0].estimate.high
    assert flat["accuracy.low"] == audit["accuracy"].low
    group = next(g for g in audit.groups if str(g.population) == "sex = f and race = b")
    assert flat["groups.sex=f and race=b.gap"] == abs(group.gap)
    assert flat["groups.sex=f and race=b.rows"] == group.rows
    small = min(audit.groups, key=lambda one: abs(one.gap))
    assert flat[f"groups.{small.population.key}.gap.low"] == 0
    assert flat[f"groups.{small.population.key}.gap.high"] == max(
        abs(small.gap.low), abs(small.gap.high)
    )
    assert flat["groups.sex=f and race=b.gap.low"] == group.gap.low


def test_a_threshold_can_name_many_numbers():
    values = {"groups.s=f.gap": 0.07, "groups.s=m.gap": 0.01, "groups.s=x.gap": np.nan, "ece": 0.2}
    one = CheckedThreshold.of(Threshold.parse("groups.*.gap=5%", "max"), values)
    assert (one.failed, one.matched, one.name) == (2, 3, "groups.s=x.gap")  # NaN never holds
    del values["groups.s=x.gap"]
    one = CheckedThreshold.of(Threshold.parse("groups.*.gap=5%", "max"), values)
    assert str(one) == "FAIL groups.s=f.gap = 0.07  (at most 0.05, 1 of 2 fail)"
    one = CheckedThreshold.of(Threshold.parse("groups.*.gap=0.05", "min"), values)
    assert one.name == "groups.s=m.gap"
    assert Threshold.parse("groups.s=f.gap=1", "max").name == "groups.s=f.gap"
    with pytest.raises(pb.InputError, match=r"GROUP groups\.s=f, groups\.s=m and NAME gap"):
        Threshold("groups.*.auc", "max", 1).matches(values)
    with pytest.raises(pb.InputError, match=r"must name one of ece; or NAME\.low.*groups\.COLUMN"):
        Threshold("eec", "max", 1).matches(values)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (["--groups", "sex"], {"sex": 2}),
        (["--groups", "sex", "--groups", "race"], {"sex": 2, "race": 3}),
        (["--groups", "sex,race"], {"sex": 2, "race": 3}),
        (["--groups", "sex*race"], {"sex": 2, "race": 3, "sex*race": 6}),
        (
            ["--groups", "age", "--groups", "sex*race"],
            {"age": 5, "sex": 2, "race": 3, "sex*race": 6},
        ),
        (["--groups", "?ex"], {"sex": 2}),
    ],
)
def test_groups_on_the_command_line(file, options, columns):
    done = run("audit", file, "--probs", "p", *options, "--no-repair", "--json", "-")
    assert done.exit_code == 0, done.output
    found = [group["column"] for group in json.loads(done.output)["groups"]]
    assert {column: found.count(column) for column in dict.fromkeys(found)} == columns


def test_check_bounds_groups_and_ends_of_intervals(file):
    def check(*thresholds):
        groups = ("--groups", "sex*race", "--no-repair")
        return run("check", file, "--probs", "p", *groups, *thresholds)

    done = check(
        "--max", "groups.*.gap=5%", "--max", "ece.high=0.5", "--min", "groups.sex=f.auc=0.5"
    )
    assert done.exit_code == 1, done.output
    assert "FAIL groups.sex=f and race=b.gap = " in done.output
    assert "of 11 fail" in done.output
    assert "ok   ece.high" in done.output
    assert check("--max", "groups.sex=*.gap.low=20%").exit_code == 0
    wrong = check("--max", "groups.*.gapp=5%")
    assert wrong.exit_code == 2
    assert "`--max`" in wrong.output
    assert "groups.sex=f" in wrong.output
    assert run("audit", file, "--probs", "p", "--groups", "sex*rce").exit_code == 2


def test_calibrate_takes_crossed_groups_if_the_method_can(file, tmp_path):
    saved = tmp_path / "calibrator.json"
    command = ("calibrate", file, "--probs", "p", "--groups", "sex*race", "-o", saved)
    refused = run(*command, "--method", "per_group")
    assert refused.exit_code == 2
    assert "must be one column" in refused.output
    assert not saved.exists()
    done = run(*command, "--method", "multicalibration")
    assert done.exit_code == 0, done.output
    assert saved.exists()


def test_advice_names_the_single_column_of_groups(tmp_path):
    rows = intersection_world(4000)
    women = rows.columns["sex"] == "f"
    p = np.where(women, np.minimum(2 * rows.probs, 0.99), rows.probs)
    path = tmp_path / "rows.parquet"
    write_table(path, {"label": rows.y, "p": p, "the sex": rows.columns["sex"]})
    done = run("audit", path, "--probs", "p", "--groups", "*sex", "--no-repair", "--full")
    assert "--method per_group --groups 'the sex'" in " ".join(done.output.split())
