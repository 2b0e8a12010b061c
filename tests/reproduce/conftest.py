from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from probaudit.reproduce.proper_scores_real import SETS
from probaudit.reproduce.sharpness import DRAWN, TABLES
from tests.report.conftest import browser

__all__ = ["browser"]
TWO = {"ferrer_sst2_gpt2", "ferrer_sst2_gpt2_4shot", "own_spambase_mlp_test"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A data folder with a file for most experiments: 400 rows of overconfident logits."""
    path = tmp_path_factory.mktemp("predictions")
    rng = np.random.default_rng(0)
    names = {file for _, file, _ in SETS} | {file for _, file in DRAWN}
    names |= {file for networks in TABLES.values() for _, file in networks}
    for name in sorted(names - {"ferrer_sitw_plda", "imagenet_vit_base"}):
        classes = 2 if name in TWO else 4
        labels = rng.integers(0, classes, 400)
        logits = 4 * (np.eye(classes)[labels] + rng.normal(0, 1, (400, classes)))
        np.savez(path / f"{name}.npz", labels=labels, logits=logits.astype(np.float32))
    return path
