"""Dense outputs: maps [n, K, ...] with labels [n, ...], and labels that are ignored."""

from __future__ import annotations

import math

import numpy as np
import pytest

import probaudit as pb
from probaudit.data.pixels import PixelRows
from probaudit.errors import InputError

IMAGES, CLASSES, SIZE = 30, 5, (16, 24)


def softmax(z, axis=1):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def segmentation(images=IMAGES, classes=CLASSES, size=SIZE, seed=0, ignored=0.1):
    """Labels [n, H, W] and float32 maps [n, K, H, W]; each image has its own mix of classes."""
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=(images, classes, *[1] * len(size)))
    p = softmax(1.5 * rng.normal(size=(images, classes, *size)) + shift)
    y = (rng.random((images, 1, *size)) > p.cumsum(axis=1)).sum(axis=1)
    y[rng.random(y.shape) < ignored] = 255
    return y.astype(np.uint8), p.astype(np.float32)


def flattened(y, p):
    """The same pixels as rows, with the image of each row."""
    rows = np.ascontiguousarray(np.moveaxis(p, 1, -1)).reshape(-1, p.shape[1])
    return y.reshape(-1), rows, np.repeat(np.arange(len(y)), y[0].size)


LAYOUTS = {
    "C order": np.ascontiguousarray,
    "channels last": lambda p: np.moveaxis(np.ascontiguousarray(np.moveaxis(p, 1, -1)), -1, 1),
    "crop": lambda p: np.pad(p, [(0, 0), (0, 0), (1, 2), (3, 1)])[:, :, 1:-2, 3:-1],
    "float16": lambda p: p.astype(np.float16),
    "reversed": lambda p: np.ascontiguousarray(p[:, :, ::-1])[:, :, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_maps_are_those_of_the_flattened_array(layout):
    y, p = segmentation(7, 4, (5, 6))
    maps = LAYOUTS[layout](p)
    rows, flat = PixelRows(maps), flattened(y, maps)[1]
    places = np.random.default_rng(1).permutation(len(flat))[:50]
    assert rows.shape == flat.shape
    for taken in (slice(None), slice(11, 95), slice(3, 100, 7), places, -places, flat[:, 0] > 0.3):
        assert np.array_equal(rows[taken], flat[taken])
    assert np.array_equal(rows[17], flat[17])
    assert np.array_equal(rows[:, [2, 0]], flat[:, [2, 0]])
    assert np.array_equal(np.asarray(rows), flat)
    with pytest.raises(IndexError):
        rows[np.array([len(flat)])]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_are_bit_identical_to_those_of_flattened_rows(layout):
    y, p = segmentation()
    maps = LAYOUTS[layout](p)
    labels, rows, image = flattened(y, maps)
    for score in (pb.log_score, pb.brier_score):
        dense = score(y, maps, ignore_label=255)
        for kept in (labels == labels, labels != 255):
            options = {"ignore_label": 255} if kept.all() else {}
            flat = score(labels[kept], rows[kept], clusters=image[kept], **options)
            assert dense.to_dict() == flat.to_dict()
        assert dense.n == np.count_nonzero(labels != 255)


@pytest.mark.parametrize("lens", [None, pb.OneVsRest(2), pb.Classwise()])
def test_calibration_errors_are_bit_identical(lens):
    y, p = segmentation()
    labels, rows, image = flattened(y, p)
    choices = {"lens": lens, "interval": True, "resamples": 50, "ignore_label": 255}
    flat = pb.calibration_error(labels, rows, clusters=image, **choices)
    assert pb.calibration_error(y, p, **choices).to_dict() == flat.to_dict()


def test_an_audit_is_bit_identical_and_says_what_it_did():
    y, p = segmentation()
    labels, rows, image = flattened(y, p)
    dense = pb.audit(y, p, ignore_label=255)
    flat = pb.audit(labels, rows, clusters=image, ignore_label=255)
    ours, theirs = dense.to_dict(), flat.to_dict()
    assert dense.settings["ignored"] == f"{np.count_nonzero(labels == 255):,} rows with label 255"
    assert dense.settings["clusters"] == "30 clusters (one per image)"
    assert ours.pop("settings") | {"clusters": "30 clusters"} == theirs.pop("settings")
    assert ours == theirs
    assert ours["dropped_rows"] == {}
    assert dense.fingerprint == flat.fingerprint


def test_a_sample_of_many_pixels_keeps_the_images_as_clusters(monkeypatch):
    y, p = segmentation(20, 3, (32, 32))
    labels, rows, image = flattened(y, p)
    monkeypatch.setattr("probaudit.states.evidence.SAMPLE_ROWS", 2_000)
    dense = pb.audit(y, p, ignore_label=255)
    flat = pb.audit(labels, rows, clusters=image, ignore_label=255)
    assert dense.evidence.sampled
    assert dense.settings["clusters"] == "20 clusters in a sample (one per image)"
    ours, theirs = dense.to_dict(), flat.to_dict()
    for found in (ours, theirs):
        found.pop("settings")
    assert ours == theirs


def test_compare_groups_and_states_take_dense_outputs():
    y, p = segmentation()
    labels, rows, image = flattened(y, p)
    other = softmax(np.log(p) * 0.5).astype(np.float32)
    flat_other = flattened(y, other)[1]
    dense = pb.compare({"a": p, "b": other}, y, ignore_label=255, repair=False)
    flat = pb.compare(
        {"a": rows, "b": flat_other}, labels, clusters=image, ignore_label=255, repair=False
    )
    assert dense.settings["ignored"].endswith("rows with label 255")
    assert dense.to_dict() == flat.to_dict()
    city = np.arange(IMAGES) % 3
    grouped = pb.audit(y, p, columns={"city": city}, ignore_label=255, repair=False)
    expected = pb.audit(
        labels, rows, columns={"city": city[image]}, clusters=image, ignore_label=255, repair=False
    )
    assert grouped.to_dict()["groups"] == expected.to_dict()["groups"] != []
    rows_of_images = pb.Predictions(y, p, ignore_label=255)
    whole = pb.statistics(rows_of_images)
    parts = pb.statistics(classes=CLASSES, ignore_label=255)
    for first in range(0, IMAGES, 10):
        parts.update(y[first : first + 10], p[first : first + 10])
    restored = pb.State.from_bytes(whole.to_bytes())
    for state in (parts, restored):
        assert state.audit(repair=False)["log_score"].n == np.count_nonzero(labels != 255)
    assert restored.audit(repair=False).to_dict() == whole.audit(repair=False).to_dict()
    assert whole.audit(repair=False).settings["ignored"].endswith("rows with label 255")


@pytest.mark.parametrize("size", [(40,), (4, 5, 6)], ids=["tokens", "volumes"])
def test_any_number_of_spatial_axes(size):
    y, p = segmentation(25, 3, size)
    labels, rows, image = flattened(y, p)
    dense = pb.log_score(y, p, ignore_label=255)
    flat = pb.log_score(labels, rows, clusters=image, ignore_label=255)
    assert dense.to_dict() == flat.to_dict()


def test_one_channel_is_the_second_of_two_classes():
    rng = np.random.default_rng(3)
    p = rng.random((20, 8, 9))
    y = (rng.random(p.shape) < p).astype(int)
    flat = pb.log_score(y.reshape(-1), p.reshape(-1), clusters=np.repeat(np.arange(20), 72))
    for outputs in (p, p[:, None], np.stack([1 - p, p], axis=1)):
        found = pb.log_score(y, outputs)
        assert (found, found.low, found.high) == pytest.approx((flat, flat.low, flat.high))
    tokens = pb.log_score(y[:, 0], p[:, None, 0])
    assert tokens.n == 180
    assert "20 clusters" in tokens.definition
    logits = np.log(p / (1 - p))
    assert pb.log_score(y, logits, from_logits=True) == pytest.approx(flat)
    sure = pb.Predictions.from_confidence(p, y == 1)
    assert sure.clusters is not None
    assert len(sure) == p.size


def test_logits_weights_and_clusters_of_images():
    y, p = segmentation()
    labels, rows, image = flattened(y, p)
    weight, patient = np.linspace(0.5, 2, IMAGES), np.arange(IMAGES) // 2
    dense = pb.log_score(
        y, np.log(p), from_logits=True, sample_weight=weight, clusters=patient, ignore_label=255
    )
    flat = pb.log_score(
        labels,
        np.log(rows),
        from_logits=True,
        sample_weight=weight[image],
        clusters=patient[image],
        ignore_label=255,
    )
    assert dense.to_dict() == flat.to_dict()
    assert "15 clusters" in dense.definition
    pixel_weights = pb.log_score(y, p, sample_weight=np.ones(y.shape), ignore_label=255)
    assert pixel_weights == pytest.approx(pb.log_score(y, p, ignore_label=255), rel=1e-12)


def test_intervals_of_pixels_cover_only_with_clusters():
    """Pixels of an image share an error, so the interval of independent pixels is far too short."""
    rng, runs, size = np.random.default_rng(5), 200, (6, 6)
    covered = {"images": 0, "pixels": 0}
    for _ in range(runs):
        p = np.clip(rng.beta(2, 2, (40, 1, 1)) * np.ones((1, *size)), 0.02, 0.98)
        y = (rng.random((40, 1, 1)) < p).astype(int)  # all pixels of an image have one label
        expected = float((2 * p * (1 - p)).mean())
        for unit, found in {
            "images": pb.brier_score(y, p),
            "pixels": pb.brier_score(y.reshape(-1), p.reshape(-1)),
        }.items():
            covered[unit] += found.low <= expected <= found.high
    assert covered["images"] >= 0.9 * runs
    assert covered["pixels"] <= 0.5 * runs


WRONG = {
    "spatial": ((3, 4, 5), (3, 2, 4, 6), {}, "y_proba", "labels \\[n, ...\\] need outputs"),
    "images": ((4, 4, 5), (3, 2, 4, 5), {}, "y_proba", "labels \\[n, ...\\] need outputs"),
    "channels last": ((3, 4, 5), (3, 4, 5, 2), {}, "y_proba", "labels \\[n, ...\\] need outputs"),
    "flat labels": ((60,), (3, 2, 4, 5), {}, "y_proba", "labels \\[n, ...\\] need outputs"),
    "events": ((6, 2), (6, 2), {}, "y_true", "one label per row.*multilabel_table"),
    "weights": (
        (3, 4, 5),
        (3, 2, 4, 5),
        {"sample_weight": np.ones(7)},
        "sample_weight",
        "one weight per row",
    ),
    "clusters": ((3, 4, 5), (3, 2, 4, 5), {"clusters": [1, 2]}, "clusters", "one value per row"),
    "text": ((3, 4, 5), (3, 2, 4, 5), {"ignore_label": "void"}, "ignore_label", "must be a number"),
    "empty": ((0, 4, 5), (0, 2, 4, 5), {}, "y_proba", "at least one row"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_shapes_name_the_expected_ones(case):
    labels, outputs, options, argument, words = WRONG[case]
    with pytest.raises(InputError, match=words) as caught:
        pb.log_score(np.zeros(labels, int), np.full(outputs, 0.5), **options)
    assert caught.value.argument == argument


def test_an_ignored_label_is_never_a_bad_row():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 400)
    y = rng.integers(0, 3, 400)
    ignored = rng.random(400) < 0.3
    for mark, labels in {
        -100: np.where(ignored, -100, y),
        math.nan: np.where(ignored, np.nan, y),
        2: y,
    }.items():
        kept = y != 2 if mark == 2 else ~ignored
        outputs = np.where(kept[:, None], p, np.nan)  # outputs of ignored rows are not checked
        found = pb.audit(labels, outputs, ignore_label=mark, repair=False)
        expected = pb.audit(y[kept], p[kept], repair=False)
        assert found["log_score"].to_dict() == expected["log_score"].to_dict()
        assert found.summary.dropped == 0
        assert found.summary.ignored == np.count_nonzero(~kept)
    names = np.array(["cat", "dog", "owl"])[y].astype(object)
    names[ignored] = "void"
    options = {"classes": ["cat", "dog", "owl"], "ignore_label": "void"}
    assert pb.log_score(names, p, **options) == pb.log_score(y[~ignored], p[~ignored])
    names[5] = "cow"
    with pytest.raises(InputError, match=r"row 5: label 'cow'.*ignore_label='cow'"):
        pb.log_score(names, p, **options)
    dropped = pb.audit(names, p, **options, on_bad_rows="drop", repair=False)
    assert dropped.summary.dropped == 1
    assert dropped.summary.ignored == np.count_nonzero(names == "void")
    state = pb.State.from_bytes(
        pb.statistics(pb.Predictions(names, p, **options, on_bad_rows="drop")).to_bytes()
    )
    assert state.audit(repair=False).to_dict() == dropped.to_dict()


def test_rows_that_are_all_ignored_are_an_error():
    with pytest.raises(InputError, match="2 rows have the ignored label"):
        pb.log_score([9, 9], [[0.5, 0.5], [0.5, 0.5]], ignore_label=9)
    with pytest.raises(InputError, match="must not be given together with Predictions"):
        pb.log_score(pb.Predictions([1, 0], [0.5, 0.5]), ignore_label=1)


def test_files_and_commands_take_an_ignored_label(tmp_path):
    from typer.testing import CliRunner

    from probaudit.cli.commands import app

    y, p = segmentation(12, 3, (8, 8))
    np.savez(tmp_path / "maps.npz", label=y, p_maps=p, city=np.arange(12) % 2)
    rows = pb.read(tmp_path / "maps.npz", ignore_label=255)
    assert pb.log_score(rows) == pb.log_score(y, p, ignore_label=255)
    page, found = tmp_path / "page.html", tmp_path / "audit.json"
    options = ["--ignore-label", "255", "--groups", "city", "--no-repair"]
    command = ["audit", str(tmp_path / "maps.npz"), *options]
    done = CliRunner().invoke(app, [*command, "--html", str(page), "--json", str(found)])
    assert done.exit_code == 0, done.output
    assert "one per image" in page.read_text()
    assert f"{np.count_nonzero(y == 255)} rows with label 255" in page.read_text()
    done = CliRunner().invoke(app, command[:2])
    assert done.exit_code == 2
    assert "pass `--ignore-label 255`" in done.output
    done = CliRunner().invoke(app, [*command[:2], "--ignore-label", "void"])
    assert done.exit_code == 2
    assert "must be of the type of the labels" in done.output


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_stream_ignores_the_same_rows(tmp_path, suffix):
    pd = pytest.importorskip("pandas")
    y, p = segmentation(10, 3, (8, 8))
    labels, rows, image = flattened(y, p)
    frame = pd.DataFrame(rows.astype(float), columns=["p_0", "p_1", "p_2"])
    frame = frame.assign(label=labels.astype(int), image=image)
    path = tmp_path / f"rows.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    options = {"clusters": "image", "ignore_label": 255}
    memory = pb.audit(pb.read(path, **options), repair=False)
    stream = pb.audit(pb.scan(path, **options), repair=False)
    assert stream.to_dict() == memory.to_dict()
    assert stream.summary.ignored == np.count_nonzero(labels == 255)
