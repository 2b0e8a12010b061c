from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from probaudit.reproduce import generalised_ece
from probaudit.reproduce.proper_scores_real import SETS
from probaudit.reproduce.sharpness import DRAWN, TABLES
from tests.report.conftest import browser

__all__ = ["browser"]
CIFAR_100 = {file for _, file in generalised_ece.CIFAR_100}
TWO = {"ferrer_sst2_gpt2", "ferrer_sst2_gpt2_4shot", "own_spambase_mlp_test"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A data folder with a file for most experiments: 400 rows of overconfident logits; and
    stand-ins for the images of Fashion-MNIST."""
    path = tmp_path_factory.mktemp("predictions")
    rng = np.random.default_rng(0)
    names = {file for _, file, _ in SETS} | {file for _, file in DRAWN}
    names |= {file for networks in TABLES.values() for _, file in networks}
    for name in sorted(names - {"ferrer_sitw_plda", "imagenet_vit_base"}):
        classes = 2 if name in TWO else 100 if name in CIFAR_100 else 4
        labels = rng.integers(0, classes, 400)
        logits = 4 * (np.eye(classes)[labels] + rng.normal(0, 1, (400, classes)))
        np.savez(path / f"{name}.npz", labels=labels, logits=logits.astype(np.float32))
    images = path / "fashion-mnist"
    images.mkdir()
    for stem, rows in (("train", 16_000), ("t10k", 1000)):
        labels = rng.integers(0, 10, rows).astype(np.uint8)
        write_idx(images / f"{stem}-images-idx3-ubyte", blurred(rng, labels))
        write_idx(images / f"{stem}-labels-idx1-ubyte", labels)
    return path


def write_idx(path: Path, values: np.ndarray) -> None:
    header = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    path.write_bytes(header + values.tobytes())


def blurred(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Images whose brightness depends on the label, with noise."""
    bright = np.clip(20.0 * labels + rng.normal(20, 15, len(labels)), 0, 235)
    noise = rng.integers(0, 20, (len(labels), 28, 28), dtype=np.uint8)
    return noise + bright.astype(np.uint8)[:, None, None]
