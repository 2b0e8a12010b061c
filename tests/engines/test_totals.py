"""What a sample decides or learns, counted over all rows: the same in memory, from files and on a
cluster."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import probaudit as pb
from probaudit.choices.lenses import Binary, Classwise, Full, OneVsRest, TopLabel
from probaudit.choices.partitions import Column, Cuts, Edges, EqualMass, EqualWidth, KDTree, Whole
from probaudit.engines.cluster import connected, total
from probaudit.engines.dask_rows import FileRows
from probaudit.engines.memory import evidence_of
from probaudit.engines.totals import added, from_ticks, in_ticks, total_of_rows, total_of_source
from probaudit.errors import InputError
from probaudit.grouping.features import Features
from probaudit.grouping.regions import KMeansRegions
from probaudit.simulate import neural_outputs
from probaudit.states import Plan, evidence
from probaudit.states.evidence import Others

N = 12_000


def outputs_of(n=N, classes=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, classes)) * 1.5
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    q = np.exp(z / 1.3) / np.exp(z / 1.3).sum(axis=1, keepdims=True)
    y = (q.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)
    return y, p.astype(dtype)


def write(folder, y, p, name="x.parquet", **columns):
    path = folder / name
    probs = {f"p_{k}": p[:, k] for k in range(p.shape[1])}
    parquet.write_table(pa.table({"label": y, **probs, **columns}), path, row_group_size=1_700)
    return path


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 3_000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("split", ["mean", "median"])
@pytest.mark.parametrize("decimals", [1, 8])
def test_the_boxes_of_a_tree_hold_the_rows_that_made_them(dtype, split, decimals):
    p = outputs_of(2_000, dtype=dtype)[1].round(decimals)
    for tree in (KDTree(2**-4, split=split), KDTree(min_rows=7, split=split)):
        boxes = tree.placed(p)
        assert np.array_equal(boxes.cells(p), tree.cells(p))
        assert boxes.count == tree.cells(p).max() + 1
        order = np.random.default_rng(1).permutation(len(p))[:500]
        assert np.array_equal(boxes.cells(p[order]), tree.cells(p)[order])
    assert np.array_equal(KDTree(0.2).placed(p[:, 0]).cells(p[:, 0]), KDTree(0.2).cells(p[:, 0]))


@pytest.mark.parametrize("decimals", [1, 2, 8])
def test_placed_bins_are_those_of_the_outputs_that_placed_them(decimals):
    p = outputs_of(2_000)[1][:, 0].round(decimals)
    for partition in (
        EqualMass(15),
        EqualWidth(7),
        Edges([0, 0.3, 1]),
        Whole(),
        Cuts(np.array([0.2, 0.5])),
    ):
        placed = partition.placed(p)
        assert np.array_equal(placed.cells(p), partition.cells(p))
        assert placed.count > placed.cells(p).max()
        assert placed.placed(p) is placed


def test_a_partition_that_needs_its_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 300)
    y, p = outputs_of(500)
    source = pb.scan(write(tmp_path, y, p))
    with pytest.raises(InputError, match="KDTree"):
        pb.calibration_error(source, lens=Full())
    with pytest.raises(InputError, match="partition"):
        pb.calibration_error(source, partition=Column(np.arange(500) % 3))
    for name in ("features", "split"):
        with pytest.raises(InputError, match=f"`{name}`.*rows in memory"):
            pb.grouping_loss(source, **{name: np.ones(500, bool)})
    with pytest.raises(InputError, match="where"):
        pb.calibration_error(source, where=np.ones(500, bool))
    with pytest.raises(InputError, match="interval"):
        pb.calibration_error(source, lens=Classwise(), interval=True)


ERRORS = {
    "top label": {},
    "equal mass": {"partition": EqualMass(15)},
    "classwise": {"lens": Classwise()},
    "one class": {"lens": OneVsRest(1), "interval": True, "debias": True},
    "tree": {"lens": Full(), "partition": KDTree(2**-4), "distance": "tvd", "interval": True},
    "worst": {"worst": True, "partition": Edges([0, 0.2, 0.8, 1.0])},
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_rows_in_files_are_those_in_memory(tmp_path, name, weighted):
    y, p = outputs_of()
    weights = {"w": np.random.default_rng(3).random(N)} if weighted else {}
    source = pb.scan(write(tmp_path, y, p, **weights), **({"weight": "w"} if weighted else {}))
    found, expected = (
        pb.calibration_error(rows, **ERRORS[name]) for rows in (source, source.read())
    )
    assert float(found) == pytest.approx(float(expected), abs=1e-13)
    assert found.interval == pytest.approx(expected.interval, abs=1e-9, nan_ok=True)
    assert found.definition == expected.definition
    assert found.n == N
    assert list(found.per_class.values()) == pytest.approx(
        list(expected.per_class.values()), abs=1e-13
    )


@pytest.mark.parametrize("name", ERRORS)
def test_errors_counted_beyond_a_sample_are_those_of_all_rows(tmp_path, small_sample, name):
    """Where the sample decides no cell."""
    y, p = outputs_of()
    source = pb.scan(write(tmp_path, y, p))
    choices = {"partition": EqualWidth(15)} | {
        k: v for k, v in ERRORS[name].items() if k not in ("partition", "interval")
    }
    if name == "tree":
        choices["lens"] = TopLabel()
    found, expected = (pb.calibration_error(rows, **choices) for rows in (source, source.read()))
    assert float(found) == pytest.approx(float(expected), abs=1e-13)
    assert (found.definition, found.n) == (expected.definition, N)


def test_a_sample_decides_the_boxes_and_all_rows_are_counted(tmp_path, small_sample):
    y, p = outputs_of()
    source = pb.scan(write(tmp_path, y, p))
    tree = KDTree(2**-4)
    found = pb.calibration_error(source, lens=Full(), partition=tree, distance="tvd")
    sample = evidence_of(source.read(), Plan.of(source.read())).sample
    assert len(sample) == 3_000
    cells = tree.placed(sample.probabilities()).cells(p)
    by_hand = 0.0
    for cell in np.unique(cells):
        inside = cells == cell
        by_hand += (
            inside.mean()
            * 0.5
            * np.abs(p[inside].mean(axis=0) - np.eye(4)[y[inside]].mean(axis=0)).sum()
        )
    assert float(found) == pytest.approx(by_hand, abs=1e-8)
    assert found.n == N
    assert "cells of a sample of 3,000 rows" in found.definition


def test_bad_rows_are_dropped_and_blocks_may_have_no_good_row(tmp_path):
    y, p = outputs_of()
    p[1_700:3_400] = np.nan
    source = pb.scan(write(tmp_path, y, p), on_bad_rows="drop")
    found, expected = pb.calibration_error(source), pb.calibration_error(source.read())
    assert float(found) == pytest.approx(float(expected), abs=1e-13)
    assert found.n == N - 1_700


# Regions


def world(folder, n=N, **columns):
    """Rows whose features tell more than the outputs do."""
    found = neural_outputs(n)
    features = {f"x_{k}": found.features[:, k] for k in range(found.features.shape[1])}
    table = {"label": found.y.astype(np.int64), "p": found.scores, **features, **columns}
    path = folder / "world.parquet"
    parquet.write_table(pa.table(table), path, row_group_size=1_700)
    return pb.scan(path, probs=["p"], features=["x_*"], columns=list(columns) or None)


@pytest.mark.parametrize("regions", ["tree", "stump", "kmeans"])
@pytest.mark.parametrize("bins", [15, EqualMass(10)])
def test_regions_of_a_sample_are_counted_over_all_rows(tmp_path, small_sample, regions, bins):
    source = world(tmp_path)
    choices = {"lens": Binary(), "regions": regions, "bins": bins, "resamples": 50}
    found = pb.grouping_loss(source, **choices)
    rows = source.read()
    drawn = evidence_of(rows, Plan.of(rows))
    again = pb.grouping_loss(drawn.sample, others=drawn.others, **choices)
    sample = pb.grouping_loss(drawn.sample, **choices)
    for name in ("lower_bound", "explained", "plugin", "bias", "induced", "calibration_loss"):
        one, other = getattr(found, name), getattr(again, name)
        assert (float(one), one.interval, one.n, one.definition) == (
            float(other),
            other.interval,
            other.n,
            other.definition,
        )
    assert (
        found.lower_bound.n == int(found.regions.rows.sum()) == int(found.diagram.rows.sum()) == N
    )
    assert sample.lower_bound.n == len(sample.region_of) == len(found.region_of) == 3_000
    assert "counted over all" in found.definition
    narrower = np.diff(found.lower_bound.interval) / np.diff(sample.lower_bound.interval)
    assert narrower == pytest.approx(0.5)  # the root of 3,000 / 12,000
    low, high = found.lower_bound.interval
    assert low - 0.002 < float(sample.lower_bound) < high + 0.002


def test_known_groups_are_counted_as_if_all_rows_were_there(tmp_path, small_sample):
    site = np.random.default_rng(0).choice(["a", "b", "c"], N)
    source = world(tmp_path, site=site)
    found = pb.grouping_loss(source, lens=Binary(), regions=["site"])
    expected = pb.grouping_loss(source.read(), lens=Binary(), regions=["site"])
    for name in ("explained", "plugin", "bias"):
        assert float(getattr(found, name)) == pytest.approx(
            float(getattr(expected, name)), abs=1e-9
        )
    assert found.binned_calibration_loss == pytest.approx(
        expected.binned_calibration_loss, abs=1e-9
    )
    assert sorted(region.rule for region in found.regions) == sorted(
        region.rule for region in expected.regions
    )
    assert found.regions.rows.tolist() == expected.regions.rows.tolist()


def test_groups_that_the_sample_lacks_are_left_out_and_told(tmp_path, small_sample):
    rows = world(tmp_path).read()
    drawn = evidence_of(rows, Plan.of(rows))
    lacking = np.setdiff1d(np.arange(N), drawn.places)[:7]
    site = np.full(N, "here")
    site[lacking] = "nowhere"
    found = pb.grouping_loss(world(tmp_path, site=site), lens=Binary(), regions=["site"])
    assert found.lower_bound.n == N - 7
    assert "7 rows of groups that the sample lacks left out" in found.definition


def test_sums_of_weights_that_differ_by_many_orders():
    values = 10.0 ** -np.arange(12.0)
    found = from_ticks(in_ticks(np.arange(12), values, 12))[:, 0]
    assert np.abs(found - values).max() < 2.0**-56


def test_weights_of_any_scale(tmp_path, small_sample):
    even, random = np.full(N, 3.0), np.random.default_rng(5).random(N) + 0.5
    plain = pb.grouping_loss(world(tmp_path), lens=Binary())
    rows = world(tmp_path).read()

    def of(weights):
        weighted = replace(rows, sample_weight=weights)
        drawn = evidence_of(weighted, Plan.of(weighted))
        return pb.grouping_loss(drawn.sample, lens=Binary(), others=drawn.others)

    assert float(of(even).lower_bound) == pytest.approx(float(plain.lower_bound), abs=1e-13)
    one, ten = of(random), of(10 * random)
    assert float(one.lower_bound) == pytest.approx(float(ten.lower_bound), abs=1e-13)
    assert float(one.lower_bound) != pytest.approx(float(plain.lower_bound), abs=1e-5)


def test_the_interval_is_as_wide_as_counts_vary():
    """A sample is held fixed, with its regions, and the other rows come anew."""
    seen = neural_outputs(3_000)
    sample = pb.Predictions(seen.y, seen.scores, features=seen.features)
    found = []
    for seed in range(40):
        fresh = neural_outputs(12_000, seed=seed + 1)
        rows = pb.Predictions(fresh.y, fresh.scores, features=fresh.features)
        plan = Plan.of(rows)
        summary = evidence_of(rows, plan).summary
        others = Others(summary, lambda job, rows=rows: total_of_rows(rows, 1, job), np.uint64(0))
        found.append(
            pb.grouping_loss(sample, lens=Binary(), others=others, resamples=200).lower_bound
        )
    spread, stated = (
        np.std([float(x) for x in found]),
        np.mean([np.diff(x.interval) for x in found]) / 3.92,
    )
    # the sample, a fifth of all rows, does not vary here: about 0.9
    assert 0.6 < spread / stated < 1.3


@pytest.mark.parametrize("score", ["brier", "log"])
def test_no_grouping_loss_is_found_where_there_is_none(monkeypatch, score):
    """Outputs are miscalibrated, and a feature tells the output: the curve must be that of all
    rows, not of the sample."""
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 2_000)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        s = rng.beta(0.5, 10, 100_000)
        features = np.column_stack([s, rng.normal(size=(len(s), 2))])
        rows = pb.Predictions(
            (rng.random(len(s)) < np.clip(1.5 * s, 0, 1)).astype(int), s, features=features
        )
        drawn = evidence_of(rows, Plan.of(rows))
        found.append(
            pb.grouping_loss(
                drawn.sample, others=drawn.others, lens=Binary(), score=score, resamples=40
            )
        )
    bounds = np.array([float(x.lower_bound) for x in found])
    assert abs(bounds.mean()) < 4 * bounds.std(ddof=1) / 8**0.5 + 1e-6
    assert not any(x.lower_bound.low > 0 for x in found)
    if score == "brier":  # the calibration loss is the mean of (s - 1.5 s)^2
        truth = float(np.mean(np.minimum(0.5 * s, 1 - s) ** 2))
        assert sum(x.calibration_loss.low <= truth <= x.calibration_loss.high for x in found) >= 7


def test_groups_with_missing_values_are_the_same_in_memory_and_from_files(tmp_path, small_sample):
    codes = np.random.default_rng(0).integers(0, 4, N)
    missing = np.arange(N) % 7_001 == 7_000  # only one batch then has a gap, and is of floats
    source = world(tmp_path, g=pa.array(codes, mask=missing))
    found, expected = (
        pb.grouping_loss(rows, lens=Binary(), regions=["g"]) for rows in (source, source.read())
    )
    assert found.lower_bound.n == N - int(missing.sum())  # the sample has no row without a group
    assert float(found.explained) == pytest.approx(float(expected.explained), abs=1e-5)
    many = world(tmp_path, g=pa.array(codes, mask=np.arange(N) % 5 == 0))
    found, expected = (
        pb.grouping_loss(rows, lens=Binary(), regions=["g"]) for rows in (many, many.read())
    )
    assert found.lower_bound.n == N
    assert float(found.explained) == pytest.approx(float(expected.explained), abs=1e-12)
    assert sum("g = (missing)" in region.rule for region in found.regions) == 1


@pytest.mark.parametrize("kind", ["text", "nullable"])
def test_audits_of_frames_beyond_a_sample(small_sample, kind):
    rng = np.random.default_rng(0)
    seen = neural_outputs(N)
    gaps = pd.array(np.where(rng.random(N) < 0.1, None, rng.integers(0, 3, N)), dtype="Int64")
    frame = pd.DataFrame(
        {"x": seen.features[:, 0], "t": rng.choice(["a", "b"], N) if kind == "text" else gaps}
    )
    for regions in (None, ["t"]):
        found = pb.audit(seen.y, seen.scores, features=frame, regions=regions, repair=False)
        assert found["grouping_loss"].n == 3000  # of the recalibrated sample
        assert "on a sample of 3,000 rows" in found["grouping_loss"].definition


def test_a_state_may_be_read_from_several_threads():
    y, p = outputs_of(20_000, classes=2)
    expected = pb.statistics(classes=2).update(y, p).to_bytes()
    for _ in range(10):
        state = pb.statistics(classes=2).update(y, p)
        with ThreadPoolExecutor(4) as pool:
            assert all(
                found == expected
                for found in pool.map(lambda _, state=state: state.to_bytes(), range(4))
            )
        assert state.to_bytes() == expected


def test_what_cannot_be_placed_is_measured_on_the_sample(tmp_path, small_sample):
    rows = world(tmp_path).read()
    drawn = evidence_of(rows, Plan.of(rows))
    choices = {"lens": Binary(), "split": np.arange(3_000) % 2 == 0}
    found = pb.grouping_loss(drawn.sample, others=drawn.others, **choices)
    assert found.lower_bound.n == pb.grouping_loss(drawn.sample, **choices).lower_bound.n
    assert "counted over all" not in found.definition
    assert "on a sample of 3,000 rows" in found.definition


def test_features_of_other_rows_are_read_as_those_of_the_sample():
    rng = np.random.default_rng(0)
    size, colour = rng.random(300), rng.choice(["red", "green", "blue"], 300)
    known = Features.of({"size": size, "colour": colour}, 300)
    again = known.form.read({"colour": colour[:40], "size": size[:40]}, 40)
    assert len(known.form.values) == 0
    assert np.array_equal(again.values, known.values[:40])
    assert np.array_equal(again.codes, known.codes[:40])
    matrix = np.column_stack([size[:40].astype(object), colour[:40].astype(object)])
    assert np.array_equal(known.form.read(matrix, 40).values, known.values[:40])
    new = known.form.read({"size": [0.5], "colour": ["violet"]}, 1)
    assert not new.values[0, 1:].any()


def test_audits_are_the_same_in_memory_and_from_files(tmp_path, small_sample):
    source = world(tmp_path)
    stream, memory = (
        json.dumps(pb.audit(rows, repair=False).to_dict()) for rows in (source, source.read())
    )
    assert stream == memory
    found = json.loads(stream)["estimates"]["grouping_loss"]
    assert found["n"] == 3000
    assert "on a sample of 3,000 rows" in found["definition"]


class Parities:
    """A job that counts rows, by number and by label."""

    def __call__(self, start, rows):
        numbers = start + np.arange(len(rows))
        return [np.bincount(numbers % 2, minlength=2), np.bincount(rows.codes, minlength=4)]


def test_every_engine_sums_the_same(tmp_path):
    y, p = outputs_of()
    source = pb.scan(write(tmp_path, y, p))
    expected = [np.array([N // 2, N // 2]), np.bincount(y, minlength=4)]
    with connected(workers=2) as client:
        found = [total(FileRows(source), Parities(), client=client)]
    found += [total_of_source(source, threads, False, Parities()) for threads in (1, 3)]
    found += [total_of_rows(source.read(), threads, Parities()) for threads in (None, 3)]
    for sums in found:
        assert [part.tolist() for part in sums] == [part.tolist() for part in expected]


def test_regions_are_counted_on_a_cluster(tmp_path, small_sample, monkeypatch):
    source = world(tmp_path)
    rows = source.read()
    drawn = evidence_of(rows, Plan.of(rows))
    with connected(workers=2) as client:
        others = replace(
            drawn.others, total=lambda job: total(FileRows(source), job, client=client)
        )
        found = pb.grouping_loss(
            drawn.sample, lens=TopLabel(), regions=KMeansRegions(3), others=others
        )
        trees = pb.grouping_loss(drawn.sample, lens=Classwise(), others=others)
    again = pb.grouping_loss(
        drawn.sample, lens=TopLabel(), regions=KMeansRegions(3), others=drawn.others
    )
    assert repr(found) == repr(again)
    assert float(trees.lower_bound) == float(pb.grouping_loss(source, lens=Classwise()).lower_bound)


def test_a_failure_in_a_block_is_raised(tmp_path):
    y, p = outputs_of()
    source = pb.scan(write(tmp_path, y, p))

    def job(start, rows):
        raise ValueError(f"at {start}")

    for failing in (
        lambda: total_of_source(source, 2, False, job),
        lambda: total_of_rows(source.read(), 2, job),
    ):
        with pytest.raises(ValueError, match="at "):
            failing()


def test_sums_are_added_in_place():
    first = [np.array([1, 2])]
    assert added([], first) is first
    assert added(first, [np.array([1, 1])])[0].tolist() == [2, 3]
