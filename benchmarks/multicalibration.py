"""Multicalibration against other repairs: the calibration of groups, out of fold, as a table.

multicalibration.py [FOLDER] [--mcgrad PYTHON]

Worlds with known truth: two overlapping groups with opposite biases, a bias of intersections that
no single group shows, a region hidden in ten features, groups with different temperatures, three
classes, and calibrated outputs. FOLDER has .npz files of real predictions with features. PYTHON is
an interpreter with mcgrad, for two classes.

Each repair has 5 random folds. Columns: log loss, worst gap of a group (predicted minus observed,
for the class where it is largest), worst calibration error of a group (mean over classes of 10
equal-mass bins), and seconds for all folds. In the worlds, "observed" is the true probability.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FOLDS, BINS = 5, 10


@dataclass(frozen=True)
class World:
    """Logits, labels and what repairs may use; `judged` are masks of the groups to judge."""

    name: str
    logits: np.ndarray
    y: np.ndarray
    judged: list[np.ndarray]
    truth: np.ndarray | None = None
    groups: np.ndarray | None = None
    features: np.ndarray | None = None
    columns: list[str] = field(default_factory=list)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def known(name: str, logits: np.ndarray, true: np.ndarray, rng: Any, **others: Any) -> World:
    """A world with labels drawn from the true logits."""
    q = softmax(true)
    y = (q.cumsum(axis=1) < rng.random((len(q), 1))).sum(axis=1).clip(max=q.shape[1] - 1)
    return World(name, logits, y, truth=q, **others)


def crossings(groups: np.ndarray) -> list[np.ndarray]:
    """Every value of every column, and every combination of two."""
    singles = [groups[:, j] == v for j in range(groups.shape[1]) for v in np.unique(groups[:, j])]
    a, b = groups[:, 0], groups[:, -1]
    return singles + [(a == v) & (b == w) for v in np.unique(a) for w in np.unique(b)]


def worlds(n: int = 10_000, seed: int = 7) -> Iterator[World]:
    rng = np.random.default_rng(seed)
    two = rng.integers(0, 2, (n, 2))
    x = 1.5 * rng.normal(size=n)

    def binary(shift: Any, scale: Any = 1.0) -> tuple[np.ndarray, np.ndarray]:
        return np.column_stack([0 * x, x]), np.column_stack([0 * x, scale * x + shift])

    rest = {"groups": two, "judged": crossings(two)}
    yield known("overlapping groups", *binary(0.8 * two[:, 0] - 0.8 * two[:, 1]), rng, **rest)
    sign = np.where(two[:, 0] == two[:, 1], 0.6, -0.6)
    yield known("intersection, no margin", *binary(sign), rng, **rest)
    yield known("temperatures by group", *binary(0.0, np.where(two[:, 0], 2.0, 0.5)), rng, **rest)
    features = rng.normal(size=(n, 10))
    region = (features[:, 0] > 0.5) & (features[:, 1] > 0)
    hidden = {"features": features, "judged": [region, ~region]}
    yield known("hidden region", *binary(1.2 * region), rng, **hidden)
    z = 1.5 * rng.normal(size=(n, 3))
    effect = np.outer(two[:, 0], [0.8, 0, -0.8]) + np.outer(two[:, 1], [-0.8, 0.8, 0])
    yield known("three classes", z, z + effect, rng, **rest)
    rest |= {"features": features}
    yield known("calibrated", *binary(0.0), rng, **rest)


def real_worlds(folder: Path) -> Iterator[World]:
    with np.load(folder / "fashion_cnn_shift.npz") as data:
        corruption = data["corruption"][:, None]
        yield World(
            "fashion, shifted",
            data["logits"].astype(float),
            data["labels"],
            [corruption[:, 0] == k for k in range(4)],
            groups=corruption,
            features=data["features"].astype(float),
        )
    with np.load(folder / "own_spambase_mlp_test.npz") as data:
        x = data["x"].astype(float)
        runs, free = x[:, 56], x[:, 15]  # length of capitals, and "free"
        cuts = np.searchsorted(np.quantile(runs, [0.25, 0.5, 0.75]), runs)
        groups = np.column_stack([cuts, (free > 0).astype(int)])
        yield World(
            "spambase",
            data["logits"].astype(float),
            data["labels"],
            crossings(groups),
            groups=groups,
            features=x,
        )


def repairs(world: World) -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    """Calibrators by name, each with its features and groups."""
    from probaudit import calibrators as c

    found: dict[str, tuple[Any, dict[str, np.ndarray]]] = {
        "uncalibrated": (c.Identity(), {}),
        "temperature": (c.TemperatureScaling(), {}),
    }
    groups, features = world.groups, world.features
    if groups is not None:
        one = groups @ (100 ** np.arange(groups.shape[1]))
        found["one per group, first column"] = (c.PerGroup(), {"groups": groups[:, 0]})
        biased = c.PerGroup(c.BiasCorrectedTemperature())
        found["one per crossing, with bias"] = (biased, {"groups": one})
        found["multicalibration, groups"] = (c.MultiCalibration(), {"groups": groups})
    table = groups.astype(float) if features is None and groups is not None else features
    found["group calibration"] = (c.GroupCalibration(), {"features": table})
    found["multicalibration, features"] = (c.MultiCalibration(), {"features": table})
    return found


def out_of_fold(world: World, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Any:
    """Calibrated probabilities; `predict` gets the rows to learn from and those to calibrate."""
    folds = np.random.default_rng(1).permutation(len(world.y)) % FOLDS
    probs = np.empty(world.logits.shape)
    for fold in range(FOLDS):
        probs[folds == fold] = predict(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold))
    return probs


def with_calibrator(world: World, calibrator: Any, sides: dict[str, np.ndarray]) -> Any:
    from sklearn.base import clone

    def predict(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = clone(calibrator).set_params(from_logits=True)
        model.fit(world.logits[train], world.y[train], **{k: v[train] for k, v in sides.items()})
        return np.asarray(
            model.predict_proba(world.logits[test], **{k: v[test] for k, v in sides.items()})
        )

    return predict


def with_mcgrad(world: World, python: str) -> Any:
    table = world.features if world.features is not None else world.groups
    assert table is not None

    def predict(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder) / "in.npz", Path(folder) / "out.npy"
            p = softmax(world.logits)[:, 1].clip(1e-6, 1 - 1e-6)
            np.savez(given, p=p, y=world.y, x=table, train=train, test=test)
            subprocess.run(
                [python, __file__, "--worker", given, found],
                check=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
            )
            q = np.load(found)
        return np.column_stack([1 - q, q])

    return predict


def mcgrad_worker(given: str, found: str) -> None:
    """Runs in the interpreter of mcgrad."""
    import logging

    import pandas as pd
    from mcgrad.methods import MCGrad

    logging.disable(logging.CRITICAL)
    with np.load(given) as data:
        names = [f"x{j}" for j in range(data["x"].shape[1])]
        frame = pd.DataFrame(data["x"].astype(float), columns=names)
        frame["p"], frame["y"] = data["p"], data["y"]
        model = MCGrad()
        options = {"prediction_column_name": "p", "numerical_feature_column_names": names}
        model.fit(frame.iloc[data["train"]], label_column_name="y", **options)
        np.save(found, model.predict(frame.iloc[data["test"]], **options))


def measures(world: World, probs: np.ndarray) -> tuple[float, float, float]:
    """Log loss, worst gap and worst calibration error of a group."""
    rows, size = np.arange(len(world.y)), probs.shape[1]
    loss = -np.log(np.maximum(probs[rows, world.y], 1e-300)).mean()
    observed = np.eye(size)[world.y] if world.truth is None else world.truth
    gaps, errors = [], []
    for inside in world.judged:
        p, q = probs[inside], observed[inside]
        gaps.append(np.abs((p - q).mean(axis=0)).max())
        errors.append(np.mean([binned_error(p[:, k], q[:, k]) for k in range(size)]))
    return float(loss), float(max(gaps)), float(max(errors))


def binned_error(p: np.ndarray, q: np.ndarray) -> float:
    parts = np.array_split(np.argsort(p, kind="stable"), BINS)
    return float(sum(abs((p[part] - q[part]).sum()) for part in parts) / len(p))


def run(folder: Path | None, python: str | None) -> None:
    cases = [*worlds(), *(real_worlds(folder) if folder else ())]
    for world in cases:
        print(f"\n{world.name} ({len(world.y):,} rows, {world.logits.shape[1]} classes)")
        print(f"{'':32}{'log loss':>10}{'worst gap':>11}{'worst ECE':>11}{'s':>8}")
        ways = {name: with_calibrator(world, *repair) for name, repair in repairs(world).items()}
        if python and world.logits.shape[1] == 2:
            ways["mcgrad"] = with_mcgrad(world, python)
        for name, predict in ways.items():
            start = time.perf_counter()
            probs = out_of_fold(world, predict)
            seconds = time.perf_counter() - start
            loss, gap, error = measures(world, probs)
            print(f"{name:32}{loss:10.4f}{gap:11.4f}{error:11.4f}{seconds:8.1f}", flush=True)
        if world.truth is not None:
            loss, *_ = measures(world, world.truth)
            print(f"{'the truth':32}{loss:10.4f}{0:11.4f}{0:11.4f}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--worker"]:
        mcgrad_worker(*arguments[1:])
    else:
        place = arguments.index("--mcgrad") if "--mcgrad" in arguments else len(arguments)
        interpreter = arguments[place + 1] if place < len(arguments) else None
        folders = arguments[:place]
        run(Path(folders[0]) if folders else None, interpreter)
