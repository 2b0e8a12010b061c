"""Interventions on Fashion-MNIST cost little accuracy."""

from __future__ import annotations

from pathlib import Path

import pytest

import probaudit as pb
from probaudit.training import INTERVENTIONS, Trainer, fashion_mnist
from probaudit.training.images import DEBIAN_FOLDER

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import networks  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(DEBIAN_FOLDER).is_dir(), reason="dataset-fashion-mnist is absent"),
]


def test_interventions_stay_within_5_points_of_the_base_accuracy():
    """The condition of Kirchenbauer et al. 2022, section C.2, for the strength of an
    intervention."""
    train, test = fashion_mnist("train", rows=20_000), fashion_mnist("test")
    accuracy, confidence = {}, {}
    for name, intervention in INTERVENTIONS.items():
        model = networks.mlp()
        Trainer(epochs=4, intervention=intervention).train(model, train)
        p = pb.collect(model, test, layer=None).probabilities()
        accuracy[name] = (p.argmax(axis=1) == test[1]).mean()
        confidence[name] = p.max(axis=1).mean()
    assert accuracy["base"] > 0.82
    assert min(accuracy.values()) > accuracy["base"] - 0.05
    assert max(confidence, key=confidence.get) == "base"
