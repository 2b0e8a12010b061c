"""Networks of the experiments are trained once, stored, and shared."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from probaudit.errors import InputError
from probaudit.reproduce.data_folder import DataFolder
from probaudit.reproduce.trained import Networks, Recipe

torch = pytest.importorskip("torch", reason="torch is not installed")


def write_idx(path, values):
    header = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + values.tobytes())


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Small stand-ins for the four files: the label is the brightness of the image."""
    monkeypatch.setattr("probaudit.reproduce.trained.HELD_OUT", 50)
    random = np.random.default_rng(0)
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    for stem, rows in (("train", 250), ("t10k", 60)):
        labels = random.integers(0, 10, rows).astype(np.uint8)
        pixels = random.integers(0, 20, (rows, 28, 28)) + 23 * labels[:, None, None]
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", pixels.astype(np.uint8))
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", labels)
    return DataFolder(tmp_path / "data").images


RECIPE = Recipe("mlp", rows=200, epochs=2)


def test_outputs_are_stored_and_the_same_when_read_again(images, tmp_path, monkeypatch):
    networks = Networks(tmp_path / "networks", images)
    first = {part: networks.outputs(RECIPE, part) for part in ("test", "calibration")}
    assert [len(first[part]) for part in first] == [60, 50]
    assert first["test"].features.shape == (60, 256)
    monkeypatch.setattr("probaudit.training.Trainer.train", None)
    for part, rows in first.items():
        again = networks.outputs(RECIPE, part)
        np.testing.assert_array_equal(again.probs, rows.probs)
        np.testing.assert_array_equal(again.features, rows.features)
    # other images need the stored network, not another one
    rotated = networks.outputs(RECIPE, "test", corruption="noise", severity=5)
    assert np.abs(rotated.probs - first["test"].probs).max() > 0.01
    np.testing.assert_array_equal(rotated.y, first["test"].y)


def test_each_choice_gives_another_network(images, tmp_path):
    networks = Networks(tmp_path / "networks", images)
    base = networks.outputs(RECIPE).probs
    for other in (
        Recipe("mlp", rows=200, epochs=2, seed=1),
        Recipe("mlp", rows=150, epochs=2),
        Recipe("mlp", "focal loss", rows=200, epochs=2),
    ):
        assert np.abs(networks.outputs(other).probs - base).max() > 0.001


def test_calibration_rows_are_never_trained_on(images, tmp_path):
    networks = Networks(tmp_path / "networks", images)
    with pytest.raises(InputError, match="must leave 50 rows"):
        networks.outputs(Recipe("mlp", rows=201, epochs=1))
