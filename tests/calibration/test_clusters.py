"""Rows that are dependent within clusters: intervals, tests and comparisons take clusters as
units, on every engine."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, ndtr
from typer.testing import CliRunner

import probaudit as pb
from probaudit import InputError, Predictions, State, statistics
from probaudit.audits.audit import audit_evidence, audit_rows
from probaudit.audits.errors_by_lens import FEWER_RESAMPLES, WIDTH, _within_top_k, binned_error
from probaudit.audits.groups import group_errors
from probaudit.audits.repairs import among
from probaudit.calibration.dependent_event import DependentEvent
from probaudit.calibration.fine_grid import FineGrid
from probaudit.calibration.views import lens_rows
from probaudit.choices.lenses import OneVsRest
from probaudit.choices.scores import Log
from probaudit.cli.commands import app
from probaudit.engines import row_source
from probaudit.engines.choosing import scan
from probaudit.engines.good_rows import GoodRows, survey
from probaudit.engines.stream import stream
from probaudit.scoring.clusters import ClusteredRows, Clusters, design_effect
from probaudit.scoring.expected_scores import mean_score
from probaudit.scoring.intervals import Z95
from probaudit.scoring.row_scores import row_hits
from probaudit.states import AuditState, Plan, evidence

GROUPS, SIZE = 40, 10


def world(
    seed: int = 0, clusters: int = GROUPS, size: int = SIZE, rho: float = 0.4
) -> pd.DataFrame:
    """Three classes, outputs and labels both dependent within clusters; the outputs are
    calibrated."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(clusters), size)
    z = rng.normal(size=(len(number), 3)) + rng.normal(size=(clusters, 3))[number]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    noise = math.sqrt(rho) * rng.normal(size=clusters)[number] + math.sqrt(1 - rho) * rng.normal(
        size=len(number)
    )
    y = np.minimum((ndtr(noise)[:, None] >= p.cumsum(axis=1)).sum(axis=1), 2)
    order = rng.permutation(len(number))
    frame = pd.DataFrame(
        {
            "label": y,
            **{f"p_{k}": p[:, k] for k in range(3)},
            "patient": [f"id {c}" for c in number],
        }
    )
    frame["ward"], frame["w"] = (
        np.array(["north", "south"])[number % 2],
        rng.exponential(size=len(number)),
    )
    return frame.iloc[order].reset_index(drop=True)


def outputs(frame: pd.DataFrame) -> np.ndarray:
    return frame[["p_0", "p_1", "p_2"]].to_numpy()


# The rule itself


def test_the_interval_is_the_cluster_robust_one():
    """Against the sandwich estimator of a mean, written out, with Student's quantile."""
    from scipy import stats

    frame = world()
    y, p = frame["label"].to_numpy(), outputs(frame)
    loss = -np.log(p[np.arange(len(y)), y])
    sums = pd.Series(loss - loss.mean()).groupby(frame["patient"]).sum()
    error = math.sqrt((sums**2).sum() * GROUPS / (GROUPS - 1)) / len(y)
    found = pb.log_score(y, p, clusters=frame["patient"])
    rows = Predictions(y, p, clusters=frame["patient"])
    effect = ClusteredRows(rows, np.arange(len(y))).clusters.widening(loss - loss.mean()) ** 2
    assert mean_score(survey(rows).summary.log, Log(), effect=effect).error * Z95 == pytest.approx(
        stats.t.ppf(0.975, GROUPS - 1) * error, rel=1e-9
    )
    # The limits lie on a logarithmic scale, so that their half width is that of the mean to second
    # order.
    assert (found.high - found.low) / 2 == pytest.approx(
        stats.t.ppf(0.975, GROUPS - 1) * error, rel=0.02
    )
    assert found == pb.log_score(y, p)
    assert "40 clusters" in found.definition
    hits = p.argmax(axis=1) == y
    sums = pd.Series(hits - hits.mean()).groupby(frame["patient"]).sum()
    variance = (sums**2).sum() * GROUPS / (GROUPS - 1) / len(y) ** 2
    wilson = pb.audit(y, p, clusters=frame["patient"], repair=False)["accuracy"]
    half = stats.t.ppf(0.975, GROUPS - 1) * math.sqrt(variance)
    assert (wilson.high - wilson.low) / 2 == pytest.approx(half, rel=0.05)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]])
def test_rows_of_their_own_are_as_independent_rows(weighted, normalize, priors):
    frame = world()
    options = {"sample_weight": frame["w"]} if weighted else {}
    options |= {"normalize": normalize, "priors": priors}
    y, p = frame["label"], outputs(frame)
    for score in (pb.log_score, pb.brier_score):
        plain, alone = score(y, p, **options), score(y, p, clusters=np.arange(len(y)), **options)
        more = 1.0006 * (plain.high - plain)  # Student's quantile beside the normal one
        assert alone.high - alone == pytest.approx(more, rel=3e-3 if priors is None else 0.01)


@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("normalize", [False, True])
def test_repeated_rows_are_no_more_rows(normalize, priors):
    frame = world()
    y, p = frame["label"].to_numpy(), outputs(frame)
    options = {"normalize": normalize, "priors": priors}
    once = pb.brier_score(y, p, clusters=np.arange(len(y)), **options)
    again = pb.brier_score(
        np.tile(y, 4), np.tile(p, (4, 1)), clusters=np.tile(np.arange(len(y)), 4), **options
    )
    # The variance within a class of r rows is divided by r - 1, and the design effect by G - 1 for
    # G clusters. Repeated rows change the first, and the second for all rows: with r = 133 and G =
    # 400 the interval is narrower by ((1 / 133) - (1 / 533) - 0.75 / 399) / 2 = 0.2%.
    assert again.high - again == pytest.approx(once.high - once, rel=2.1e-3)
    assert again - again.low == pytest.approx(once - once.low, rel=2.1e-3)


def test_other_scores_have_clusters():
    frame = world()
    y, p = (frame["label"] > 0).to_numpy().astype(int), 1 - outputs(frame)[:, 0]
    clusters = frame["patient"]
    for call in (
        lambda **k: pb.bayes_risk(y, p, [[0, 1], [5, 0]], **k),
        lambda **k: pb.risk_weighted_score(y, p, a=2, **k),
    ):
        found = call(clusters=clusters)
        assert found.high > call().high
        assert found == call()
    with pytest.raises(InputError, match="have no effect on a risk curve"):
        pb.risk_curve(y, p, clusters=clusters)
    for test in (pb.spiegelhalter_test, pb.hosmer_lemeshow_test, pb.kernel_calibration_test):
        with pytest.raises(InputError, match="independent rows"):
            test(y, p, clusters=clusters)


def test_the_design_effect_of_a_sample_is_that_of_all_rows():
    """On average over samples, for clusters of unequal size."""
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(600), rng.integers(1, 20, 600))
    influence = rng.normal(size=600)[number] * 0.7 + rng.normal(size=len(number))
    influence -= influence.mean()
    whole = design_effect(influence, np.full(len(number), 1 / len(number)), number)
    found = []
    for _ in range(200):
        some = np.flatnonzero(rng.random(len(number)) < 0.25)
        clusters = np.unique(number[some], return_inverse=True)[1]
        share = np.full(len(some), 1 / len(some))
        found.append(design_effect(influence[some] - influence[some].mean(), share, clusters, 0.25))
    assert whole > 3
    assert np.mean(found) == pytest.approx(whole, abs=4 * np.std(found) / math.sqrt(200))


def test_a_sample_with_little_to_say_has_fewer_degrees_of_freedom():
    rng = np.random.default_rng(1)
    number, share = np.repeat(np.arange(500), 2), np.full(1000, 1e-3)
    influence = rng.normal(size=1000)
    certain, uncertain = Clusters(number, share, 0.5), Clusters(number, share, 0.001)
    assert uncertain.widening(influence) >= certain.widening(influence) >= 1


def test_one_cluster_has_no_interval():
    frame = world()
    found = pb.audit(frame["label"], outputs(frame), clusters=np.zeros(len(frame)), repair=False)
    assert math.isnan(found["log_score"].low)
    assert math.isnan(found["accuracy"].high)
    assert math.isnan(found.errors[0].estimate.low)
    assert "few_clusters" in {finding.rule for finding in found.findings}
    assert "All rows are in one cluster" in found.verdict


def test_where_nothing_varies_each_cluster_counts_as_one_row():
    y, p = np.ones(200, int), np.tile([0.1, 0.9], (200, 1))
    found = pb.audit(y, p, clusters=np.repeat(np.arange(10), 20), repair=False)
    assert found["accuracy"] == 1
    assert found["accuracy"].low < 0.75
    assert pb.audit(y, p, repair=False)["accuracy"].low > 0.97


# Known worlds


def test_scores_cover_and_calibrated_outputs_pass():
    """100 clusters of 20 rows with a random effect. 95% intervals cover; without clusters, far too
    seldom."""
    rng = np.random.default_rng(3)
    covered, seldom, truth = 0, 0, None
    for attempt in range(201):
        clusters = 20_000 if attempt == 0 else 100
        number = np.repeat(np.arange(clusters), 20)
        x = rng.normal(size=clusters)[number] * 2 + rng.normal(size=len(number))
        y = rng.random(len(number)) < expit(x + rng.normal(size=clusters)[number])
        p = expit(x)
        if truth is None:
            truth = float(pb.brier_score(y, p))
            continue
        found, plain = pb.brier_score(y, p, clusters=number), pb.brier_score(y, p)
        covered += found.low <= truth <= found.high
        seldom += plain.low <= truth <= plain.high
    assert 0.91 <= covered / 200 <= 0.985
    assert seldom / 200 < 0.8


def test_calibrated_rows_in_clusters_are_not_called_miscalibrated():
    """Three standard errors above a size of 5% are 11% of 120 worlds; independent rows are called
    so far more often."""
    found = [0, 0]
    for seed in range(120):
        frame = world(seed, 50, 12, rho=0.6)
        (seen,) = lens_rows(Predictions(frame["label"], outputs(frame)), OneVsRest(0))
        grid, number = (
            FineGrid.of_view(seen.view, seen.weights),
            np.unique(frame["patient"], return_inverse=True)[1],
        )
        event = DependentEvent(seen.view, Clusters(number, np.full(600, 1 / 600)))
        for place, dependent in enumerate((event, None)):
            error = binned_error("ece", grid, WIDTH, "", resamples=FEWER_RESAMPLES, event=dependent)
            found[place] += error.p_value <= 0.05
    assert found[0] <= 0.11 * 120
    assert found[1] >= 0.15 * 120


def test_confident_outputs_without_a_single_miss_raise_no_alarm():
    """Residuals alone would say that nothing can vary: the noise of the rows themselves is that of
    the forecasts."""
    p = np.full((1000, 2), [0.001, 0.999])
    found = pb.audit(np.ones(1000, int), p, clusters=np.repeat(np.arange(50), 20), repair=False)
    assert found.errors[0].p_value > 0.3


# Through the audit


def test_an_audit_says_how_many_clusters_there_are():
    frame = world()
    rows = pb.read(frame, clusters="patient", columns="ward")
    found = audit_rows(rows, repair=False)
    assert found.clusters == GROUPS
    content = json.loads(found.to_json())
    assert content["clusters"] == GROUPS
    assert content["settings"]["clusters"] == "40 clusters (column patient)"
    assert "cluster-robust" in content["settings"]["interval"]
    assert "400 rows in 40 clusters (column patient), 3 classes" in str(found)
    assert "400 rows in 40 clusters" in found._page("x").facts
    assert "few_clusters" not in {finding.rule for finding in found.findings}
    plain = audit_rows(pb.read(frame, columns="ward"), repair=False)
    assert plain.clusters is None
    assert json.loads(plain.to_json())["clusters"] is None
    for name in (
        "accuracy",
        "log_score",
        "brier_score.normalized",
        "error_rate",
        "reject_risk.normalized",
    ):
        assert found[name] == plain[name]
        assert found[name].high - found[name].low > plain[name].high - plain[name].low, name
    for mine, theirs in zip(found.errors, plain.errors, strict=True):
        assert mine.estimate == theirs.estimate
    assert found.errors[0].null_high > plain.errors[0].null_high
    assert found.class_errors[0].null_high > plain.class_errors[0].null_high
    for group, other in zip(found.groups, plain.groups, strict=True):
        assert group.observed.high - group.observed.low > other.observed.high - other.observed.low
        assert "20 clusters" in group.observed.definition


def test_few_clusters_are_noted():
    frame = world(clusters=12, size=30)
    found = pb.audit(frame["label"], outputs(frame), clusters=frame["patient"], repair=False)
    (note,) = (finding for finding in found.findings if finding.rule == "few_clusters")
    assert note.level == "note"
    assert "only 12 clusters" in note.text


def test_repairs_and_budgets_keep_clusters():
    frame = world()
    options = {"columns": "ward", "features": "w"}
    found = audit_rows(pb.read(frame, clusters="patient", **options), repair="compare")
    plain = audit_rows(pb.read(frame, **options), repair="compare")
    (mine,), (theirs,) = ([r for r in a.repairs if r.name == "identity"] for a in (found, plain))
    for name in ("brier_score", "accuracy", "ece"):
        x, other = getattr(mine, name), getattr(theirs, name)
        assert x == other
        assert x.high - x.low > other.high - other.low, name
    assert found.budget is not None
    assert plain.budget is not None
    assert found.budget.total.high > plain.budget.total.high


def test_direct_functions_and_audits_agree(monkeypatch):
    frame = world(clusters=100)
    rows = pb.read(frame, clusters="patient", weight="w")
    for size in (200_000, 300):
        monkeypatch.setattr(evidence, "SAMPLE_ROWS", size)
        found = audit_rows(rows, repair=False)
        assert pb.log_score(rows).interval == found["log_score"].interval
        assert (
            pb.brier_score(rows, normalize=True).interval
            == found["brier_score.normalized"].interval
        )
        where = "100 clusters" if size > 300 else "clusters in a sample"
        assert where in found["log_score"].definition


def test_row_scores_are_those_of_the_pass():
    frame = world()
    rows = pb.read(frame, clusters="patient")
    sample = ClusteredRows(rows, np.arange(len(rows)))
    for rule, score in ((pb.Log(), pb.log_score(rows)), (pb.Brier(), pb.brier_score(rows))):
        assert sample.scores(rule).mean() == pytest.approx(float(score), rel=1e-12)
    assert row_hits(rows, np.arange(len(rows))).mean() == pb.audit(rows, repair=False)["accuracy"]


# Input


def test_columns_of_clusters_are_checked():
    frame = world()
    with pytest.raises(InputError, match="there is no column 'nobody'"):
        pb.read(frame, clusters="nobody")
    for column, what in (("label", "labels"), ("p_1", "outputs"), ("w", "weights")):
        with pytest.raises(InputError, match=f"must not be the column of the {what}"):
            pb.read(frame, clusters=column, weight="w")
    frame.loc[7, "patient"] = None
    with pytest.raises(InputError, match=r"every row needs a cluster.*row 7"):
        pb.read(frame, clusters="patient")
    assert pb.read(frame, clusters="ward", columns="ward").cluster_numbers is not None


def test_a_missing_cluster_in_a_stream_is_named_by_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 50)
    monkeypatch.setattr(row_source, "FEW_ROWS", 50)
    frame = world()
    frame.loc[[233, 301], "patient"] = None
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=120)
    with pytest.raises(InputError, match=r"every row needs a cluster.*row 233"):
        stream(scan(tmp_path / "x.parquet", clusters="patient"), threads=2)


def test_states_carry_clusters(tmp_path):
    frame = world()
    y, p, clusters = frame["label"].to_numpy(), outputs(frame), frame["patient"].to_numpy()
    whole = pb.audit(y, p, clusters=clusters, repair=False)
    parts = [slice(0, 150), slice(150, 151), slice(151, len(y))]
    states = [
        statistics(classes=3, part=i).update(y[s], p[s], clusters=clusters[s])
        for i, s in enumerate(parts)
    ]
    joint = states[2] + states[0] + State.from_bytes(states[1].to_bytes())
    assert joint.audit(repair=False)["log_score"].interval == pytest.approx(
        whole["log_score"].interval, rel=1e-12
    )
    joint.save(tmp_path / "state")
    assert State.load(tmp_path / "state").audit(repair=False).clusters == GROUPS
    without = statistics(classes=3, part=9).update(y[:9], p[:9])
    with pytest.raises(InputError, match="some have no 'clusters'"):
        joint + without
    with pytest.raises(InputError, match="some have no 'clusters'"):
        joint.update(y[:9], p[:9])
    with pytest.raises(InputError, match="must not be given with Predictions"):
        statistics(classes=3).update(Predictions(y, p), clusters=clusters)


def test_a_monitor_refuses_clusters():
    frame = world()
    rows, plain = pb.read(frame, clusters="patient"), pb.read(frame)
    with pytest.raises(InputError, match="assume independent rows"):
        pb.Monitor(rows)
    with pytest.raises(InputError, match="assume independent rows"):
        pb.Monitor(plain, window=200, every=100).update(rows)


# Every engine


@pytest.mark.parametrize("size", [200_000, 150], ids=["all rows", "a sample"])
@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_memory_and_stream_agree(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", size)
    monkeypatch.setattr(row_source, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_source, "MOST_ROWS", 70)
    frame, path = world(), tmp_path / name
    frame.to_parquet(path, row_group_size=111) if name.endswith("parquet") else frame.to_csv(
        path, index=False
    )
    options = {"clusters": "patient", "weight": "w", "columns": "ward", "features": "w"}
    expected = audit_rows(pb.read(path, **options), title="x").to_json()
    source = scan(path, **options)
    for threads in (1, 3):
        assert pb.audit(source, threads=threads, title="x").to_json() == expected
    content = json.loads(expected)
    assert 1 < content["clusters"] <= GROUPS
    assert content["sample_rows"] == min(size, 400)


def test_dask_agrees(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    from probaudit.engines import cluster as engine
    from probaudit.engines.dask_rows import DaskRows, FileRows

    frame = world()
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=111)
    options = {"clusters": "patient", "columns": "ward"}
    rows = pb.read(tmp_path / "x.parquet", **options)
    local = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    with (
        distributed.LocalCluster(**local) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        for size in (200_000, 150):
            monkeypatch.setattr(evidence, "SAMPLE_ROWS", size)
            expected = AuditState.empty(Plan.of(rows)).update(rows)
            source = scan(tmp_path / "x.parquet", **options)
            parted = DaskRows.of_frame(
                dd.from_pandas(frame, npartitions=3), client=client, **options
            )
            for given, plan in ((FileRows(source), source.plan()), (parted, parted.plan())):
                found = engine.gather(given, plan, client=client)
                assert found.to_bytes() == expected.to_bytes()
                mine, theirs = (
                    audit_evidence(state.finalise(), repair=False).to_json()
                    for state in (found, expected)
                )
                assert mine == theirs
        y, p = da.from_array(frame["label"].to_numpy(), 90), da.from_array(outputs(frame), (90, 3))
        clusters = da.from_array(frame["patient"].to_numpy().astype(str), 90)
        arrays = DaskRows.of_arrays(y, p, clusters=clusters, client=client)
        found = engine.gather(arrays, arrays.plan(), client=client).finalise()
    plain = Predictions(
        frame["label"].to_numpy(), outputs(frame), clusters=frame["patient"].to_numpy().astype(str)
    )
    assert found.sample.cluster_numbers is not None
    np.testing.assert_array_equal(
        found.sample.cluster_numbers, plain.take(found.places).cluster_numbers
    )


# Comparisons


def test_comparisons_take_clusters_as_units():
    frame = world(clusters=60)
    y, p = frame["label"].to_numpy(), outputs(frame)
    models = {"a": p, "b": p**2 / (p**2).sum(axis=1, keepdims=True)}
    options = {"repair": False, "resamples": 200}
    found, plain = (
        pb.compare(models, y, **options, **more) for more in ({"clusters": frame["patient"]}, {})
    )
    assert found.clusters == 60
    assert found.to_dict()["clusters"] == 60
    assert plain.clusters is None
    assert "60 clusters" in found.settings["interval"]
    for name in ("log_score", "brier_score", "ece", "smooth_ece"):
        mine, theirs = found.differences["b"][name], plain.differences["b"][name]
        assert mine == theirs
        assert mine.high - mine.low > theirs.high - theirs.low, name
    audited = pb.audit(y, p, clusters=frame["patient"], repair=False)
    for name in ("accuracy", "log_score", "brier_score.normalized"):
        assert found["a"][name].interval == audited[name].interval


def test_clusters_of_models_must_agree():
    frame = world()
    rows = pb.read(frame, clusters="patient")
    other = pb.read(
        frame.assign(patient=frame["patient"].sample(frac=1, random_state=0).to_numpy()),
        clusters="patient",
    )
    with pytest.raises(InputError, match="clusters must equal those of 'a'"):
        pb.compare({"a": rows, "b": other})
    with pytest.raises(InputError, match="must have clusters if and only if 'a' has"):
        pb.compare({"a": rows, "b": pb.read(frame)})
    renamed = pb.read(frame.assign(patient=frame["patient"].str.upper()), clusters="patient")
    assert pb.compare({"a": rows, "b": renamed}, repair=False, resamples=5).clusters == GROUPS


# The command line


def run(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, found.output


def test_commands_take_clusters(tmp_path: Path):
    frame = world()
    frame.to_csv(tmp_path / "a.csv", index=False)
    q = outputs(frame) ** 2
    flat = frame.assign(**{f"p_{k}": (q / q.sum(axis=1, keepdims=True))[:, k] for k in range(3)})
    flat.to_csv(tmp_path / "b.csv", index=False)
    chosen = ("--clusters", "patient")
    code, text = run(
        "audit", tmp_path / "a.csv", *chosen, "--no-repair", "--json", tmp_path / "a.json"
    )
    assert code == 0
    assert "400 rows in 40 clusters (column patient)" in text
    assert json.loads((tmp_path / "a.json").read_text())["clusters"] == GROUPS
    code, _ = run("check", tmp_path / "a.csv", *chosen, "--no-repair", "--max", "log_score=2")
    assert code == 0
    code, text = run(
        "compare",
        tmp_path / "a.csv",
        tmp_path / "b.csv",
        *chosen,
        "--no-repair",
        "--json",
        tmp_path / "c.json",
    )
    assert code == 0, text
    assert json.loads((tmp_path / "c.json").read_text())["clusters"] == GROUPS
    code, text = run(
        "calibrate",
        tmp_path / "a.csv",
        *chosen,
        "--method",
        "temperature",
        "-o",
        tmp_path / "t.json",
    )
    assert code == 0
    assert "--clusters patient" in text
    code, text = run("audit", tmp_path / "a.csv", "--clusters", "nobody")
    assert code == 2
    assert "--clusters" in text
    code, text = run("audit", tmp_path / "a.csv", "--clusters", "label")
    assert code == 2
    assert "must not be the column of the labels" in text


def test_groups_are_still_judged_apart_from_clusters():
    rows = pb.read(world(), clusters="patient", columns="ward")
    found = group_errors(audit_rows(rows, repair=False).evidence)
    assert [group.value for group in found] == ["north", "south"]


def test_events_of_ranks_are_those_of_their_lens():
    frame = world()
    rows = GoodRows.of(pb.read(frame))
    ((outputs_of_lens, labels),) = among(2).views(rows.probs, rows.labels)
    found = _within_top_k(2, pb.read(frame))
    np.testing.assert_allclose(found.outputs, outputs_of_lens, atol=1e-12)
    np.testing.assert_array_equal(found.labels, labels)


@pytest.mark.parametrize("bins", [10, pb.EqualMass(8), "corp"])
def test_repeated_rows_do_not_narrow_a_diagram(bins):
    frame = world()
    y, p = frame["label"].to_numpy(), outputs(frame)
    once = pb.diagrams.reliability_diagram(y, p, bins=bins, resamples=99)
    tiled = {"y_true": np.tile(y, 5), "y_proba": np.tile(p, (5, 1))}
    again = pb.diagrams.reliability_diagram(
        **tiled, clusters=np.tile(np.arange(len(y)), 5), bins=bins, resamples=99
    )
    if bins == "corp":
        assert (again.band[2] - again.band[1]).mean() == pytest.approx(
            (once.band[2] - once.band[1]).mean(), rel=0.1
        )
        return
    many = once.rows >= 5
    np.testing.assert_allclose(
        (again.high - again.low)[many], (once.high - once.low)[many], rtol=0.1
    )
    np.testing.assert_allclose(
        (again.chance_high - again.chance_low)[many],
        (once.chance_high - once.chance_low)[many],
        atol=0.15,
    )
    partition = pb.EqualWidth(10) if bins == 10 else bins
    test = pb.calibration_test(
        **tiled, clusters=np.tile(np.arange(len(y)), 5), partition=partition, resamples=99
    )
    assert (again.error, again.p_value) == (pytest.approx(test.value), test.p_value)


def test_a_smooth_curve_takes_clusters():
    frame = world()
    y, p = frame["label"].to_numpy(), outputs(frame)
    options = {"y_true": np.tile(y, 9), "y_proba": np.tile(p, (9, 1)), "sigma": 0.1}
    plain = pb.diagrams.smooth_calibration_diagram(**options)
    found = pb.diagrams.smooth_calibration_diagram(
        **options, clusters=np.tile(np.arange(len(y)), 9)
    )
    assert (found.high - found.low).mean() == pytest.approx(
        3 * (plain.high - plain.low).mean(), rel=0.15
    )


def test_debiased_errors_take_off_the_noise_of_clusters():
    """Repeated rows leave the debiased error nearly as it is; without clusters it tends to the
    plain one."""
    frame = world()
    y, p, n = frame["label"].to_numpy(), outputs(frame), len(frame)
    tiled, clusters = (
        {"y_true": np.tile(y, 5), "y_proba": np.tile(p, (5, 1))},
        np.tile(np.arange(n), 5),
    )
    for lens in (pb.TopLabel(), pb.Classwise()):
        choices = {
            "lens": lens,
            "partition": pb.EqualWidth(8),
            "distance": "squared",
            "debias": True,
        }
        once = pb.calibration_error(y, p, **choices)
        again, plain = (
            pb.calibration_error(**tiled, **choices, clusters=clusters),
            pb.calibration_error(**tiled, **choices),
        )
        assert abs(again - once) < 0.15 * abs(plain - once)
    rows = Predictions(np.tile(y, 5), np.tile(p, (5, 1)), clusters=clusters)
    audit = {error.name: error for error in pb.audit(rows, repair=False).errors}
    assert float(audit["rms_error"].estimate) == pb.rms_calibration_error(rows)
    with pytest.raises(InputError, match="single events"):
        pb.calibration_error(
            rows, lens=pb.Full(), partition=pb.KDTree(), distance="squared", debias=True
        )
    with pytest.raises(InputError, match="exact=True"):
        pb.calibration_error(rows, debias=True, exact=False)


def few_clusters(seed, clusters=6, rows=60):
    """Calibrated outputs, labels with a common cause in each cluster."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.arange(clusters), rows)
    p = rng.uniform(0.05, 0.95, len(number))
    u = ndtr(
        np.sqrt(0.3) * rng.normal(size=clusters)[number]
        + np.sqrt(0.7) * rng.normal(size=len(number))
    )
    return (u < p).astype(int), p, number


def test_intervals_of_few_clusters_use_students_quantile():
    from probaudit.scoring.intervals import t95

    y, p, number = few_clusters(0, clusters=4, rows=150)
    options = {"clusters": number, "cv": 4, "calibrator": pb.calibrators.TemperatureScaling()}
    found = pb.calibration_loss(y, p, **options)
    loss = -np.log(np.where(y == 1, p, 1 - p))
    sums = pd.Series(loss - loss.mean()).groupby(number).sum()
    half = t95(3) * math.sqrt((sums**2).sum() * 4 / 3) / len(y)
    assert (found.raw.high - found.raw.low) / 2 == pytest.approx(half, rel=1e-9)


def test_an_error_above_zero_is_rare_with_few_clusters():
    """11 of 120 intervals lay above 0 before, where 3 are expected."""
    above = 0
    for seed in range(60):
        y, p, number = few_clusters(seed)
        choices = {
            "lens": pb.Binary(),
            "partition": pb.EqualWidth(8),
            "interval": True,
            "resamples": 199,
        }
        found = pb.calibration_error(y, p, clusters=number, **choices)
        above += found.low > 0
    assert above <= 4


def test_one_cluster_says_nothing_anywhere():
    y, p, _ = few_clusters(1)
    one = np.zeros(len(y), int)
    intervals = [
        pb.calibration_error(y, p, clusters=one, interval=True),
        pb.smooth_calibration_error(y, p, clusters=one, interval=True),
        pb.kernel_calibration_error(y, p, clusters=one, interval="percentile"),
        pb.kernel_calibration_error(y, p, clusters=one, score="log", interval="percentile"),
    ]
    for found in intervals:
        assert math.isnan(found.low), found
        assert math.isnan(found.high)
    with pytest.raises(InputError, match="two or more"):
        pb.compare({"a": p, "b": 1 - p}, y, clusters=one)
    found = pb.audit(y, p, clusters=one, features=np.c_[p], repair=False)
    assert "one cluster" in found.verdict
    more = {"clusters": np.r_[5, one], "features": np.r_[0, p][:, None], "on_bad_rows": "drop"}
    dropped = pb.Predictions(np.r_[0, y], np.r_[np.nan, p], **more)
    with pytest.raises(InputError, match="two or more"):
        pb.grouping_loss(dropped)


def test_clusters_without_an_effect_are_refused():
    y, p, number = few_clusters(0)
    with pytest.raises(InputError, match="have no effect"):
        pb.calibration_error(y, p, clusters=number)
    with pytest.raises(InputError, match="have no effect"):
        pb.partitioned_calibration_error(y, p, pb.EqualWidth(5), clusters=number)
    with pytest.raises(InputError, match="have no effect"):
        pb.maximum_mean_calibration_error(y, p, clusters=number)
    with pytest.raises(InputError, match="have no effect"):
        pb.kernel_calibration_curve(y, p, clusters=number)
    with pytest.raises(InputError, match="have no effect"):
        pb.diagrams.decision_regions_diagram(y, p, [[0, 1], [5, 0]], clusters=number)


def test_repeated_rows_do_not_narrow_rates_or_limits_in_diagrams():
    """Accuracies of the top k, rates of groups, and limits of errors by true class."""
    frame = world(clusters=60)
    y, p, n = frame["label"].to_numpy(), outputs(frame), len(frame)
    tiled = {"y_true": np.tile(y, 5), "y_proba": np.tile(p, (5, 1))}
    tiled["clusters"] = np.tile(np.arange(n), 5)
    once = pb.diagrams.top_k_diagram(y, p, resamples=20)
    again = pb.diagrams.top_k_diagram(**tiled, resamples=20)
    width, wide = (found.accuracy_high - found.accuracy_low for found in (once, again))
    np.testing.assert_allclose(wide, width, rtol=0.03)
    ward = frame["ward"].to_numpy()
    once = pb.diagrams.partition_composition_diagram(y, p, ward)
    again = pb.diagrams.partition_composition_diagram(
        tiled["y_true"], tiled["y_proba"], np.tile(ward, 5), clusters=tiled["clusters"]
    )
    np.testing.assert_allclose(again.high - again.low, once.high - once.low, rtol=0.03)
    once = pb.diagrams.group_errors_diagram(y, p)
    again = pb.diagrams.group_errors_diagram(**tiled)
    order = [once.name.tolist().index(name) for name in again.name]
    np.testing.assert_allclose(again.null_high, once.null_high[order], rtol=0.15)
    without = pb.diagrams.group_errors_diagram(tiled["y_true"], tiled["y_proba"])
    assert again.null_high.mean() > 1.1 * without.null_high.mean()
    one = pb.diagrams.group_errors_diagram(y, p, clusters=np.zeros(n))
    assert (one.null_high > once.null_high.max()).all()


def test_limits_of_errors_by_true_class_hold_for_dependent_rows():
    """Calibrated worlds: 5% pass the limits of all classes together, and 10% without clusters."""
    alarms = [0, 0]
    for seed in range(30):
        frame = world(seed, 50, 12, rho=0.6)
        y, p = frame["label"], outputs(frame)
        for place, more in enumerate(({"clusters": frame["patient"]}, {})):
            found = pb.diagrams.group_errors_diagram(y, p, resamples=60, **more)
            alarms[place] += bool((found.error > found.null_high).any())
    assert alarms[0] <= 5  # of 30; six or more have a probability of 0.4%
    assert alarms[1] >= alarms[0]
