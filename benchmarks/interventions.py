"""Training-time interventions on Fashion-MNIST: accuracy and calibration of a small network.

Needs torch and the Debian package `dataset-fashion-mnist`. Prints the tables of
docs/from-models.md:

    .venv/bin/python benchmarks/interventions.py
    .venv/bin/python benchmarks/interventions.py --network residual --rows 20000 --epochs 5
"""

from __future__ import annotations

import argparse

import numpy as np

import probaudit as pb
from probaudit.training import INTERVENTIONS, Focal, Trainer, fashion_mnist, named_model


def measured(rows: pb.Predictions) -> list[float]:
    """Accuracy, mean confidence, ECE, log loss, and the share of it that recalibration removes."""
    p = rows.probabilities()
    return [
        float((p.argmax(axis=1) == rows.codes).mean()),
        float(p.max(axis=1).mean()),
        float(pb.calibration_error(rows)),
        float(pb.log_score(rows)),
        float(pb.calibration_loss(rows).relative),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--network", default="mlp")
    options.add_argument("--epochs", type=int, default=60)
    options.add_argument("--rows", type=int, default=5000)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    train, test = fashion_mnist("train", rows=given.rows), fashion_mnist("test")
    print("| intervention | accuracy | confidence | ECE | log loss | removable |")
    print("|---|---|---|---|---|---|")
    for name, intervention in (INTERVENTIONS | {"focal loss, gamma 1": Focal(1.0)}).items():
        found = []
        for seed in range(given.seeds):
            model = named_model(given.network, seed=seed)
            Trainer(epochs=given.epochs, intervention=intervention, seed=seed).train(model, train)
            found.append(measured(pb.collect(model, test, layer=None)))
        accuracy, confidence, ece, loss, removable = np.mean(found, axis=0)
        print(
            f"| {name} | {accuracy:.1%} | {confidence:.1%} | {ece:.3f} | {loss:.3f} "
            f"| {removable:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
