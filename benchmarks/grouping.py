"""Speed of learning the groups of group calibration, relative to torch if installed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from probaudit.calibrators.base import Sample
from probaudit.calibrators.group_calibration import GroupCalibration
from probaudit.calibrators.mixture import Mixture
from timing import best, line

PARTITIONS, GROUPS, FEATURES, ROWS, CLASSES = 20, 2, 64, 6_000, 10


def world() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels and features. Logits are too large on one side of a plane and too small on the
    other."""
    rng = np.random.default_rng(0)
    features = rng.normal(0, 3, (ROWS, FEATURES))
    logits = 2 * rng.standard_normal((ROWS, CLASSES))
    temperatures = np.where(features[:, 0] + features[:, 1] > 0, 3.0, 0.7)
    noise = rng.gumbel(size=logits.shape)
    return logits, (logits / temperatures[:, None] + noise).argmax(axis=1), features


def with_torch(
    logits: np.ndarray, labels: np.ndarray, features: np.ndarray, starts: np.ndarray, penalty: float
) -> list[float]:
    """Final losses of L-BFGS from each start, for the same loss in float32 as in the reference."""
    import torch

    torch.set_num_threads(2)
    z, x = torch.tensor(logits, dtype=torch.float32), torch.tensor(features, dtype=torch.float32)
    y, rows = torch.tensor(labels), torch.arange(len(labels))

    def learn(start: np.ndarray) -> float:
        weights = torch.tensor(start, dtype=torch.float32, requires_grad=True)
        temperatures = torch.full((GROUPS,), 1.5, requires_grad=True)
        search = torch.optim.LBFGS(
            [weights, temperatures], max_iter=100, line_search_fn="strong_wolfe"
        )

        def loss() -> Any:
            search.zero_grad()
            truths = [torch.log_softmax(z / temperatures[g], 1)[rows, y] for g in range(GROUPS)]
            joint = torch.log_softmax(x @ weights.T, 1) + torch.stack(truths, 1)
            value = -torch.logsumexp(joint, 1).mean() + penalty * (weights**2).sum()
            value.backward()
            return value

        search.step(loss)
        return loss().item()

    return [learn(start) for start in starts]


def run() -> None:
    logits, labels, features = world()
    starts = np.random.default_rng(1).uniform(-1, 1, (PARTITIONS, GROUPS, FEATURES)) / np.sqrt(
        FEATURES
    )
    penalty = 0.1 / starts[0].size
    model = GroupCalibration(start=starts, penalty=penalty, resample=False, from_logits=True)
    jobs: dict[str, Any] = {"ours": lambda: model.learn_groups(logits, labels, features=features)}
    if importlib.util.find_spec("torch"):
        jobs["torch"] = lambda: with_torch(logits, labels, features, starts, penalty)
    times = best(jobs, seconds=1)
    shape = f"{PARTITIONS} partitions of 6,000 x {FEATURES}"
    line(f"{shape}: seconds", times["ours"])
    if "torch" in times:
        mixture = Mixture.of(
            Sample(logits, True, labels, np.ones(ROWS)), features, penalty, bias=False
        )
        fits = zip(model.weights_, model.temperatures_, strict=True)
        ours = [mixture.loss(np.concatenate([w.ravel(), np.log(t)]), GROUPS)[0] for w, t in fits]
        theirs = with_torch(logits, labels, features, starts, penalty)
        line(f"{shape}: mean loss, torch - ours, x 1e6", 1e6 * (np.mean(theirs) - np.mean(ours)))
        line(f"{shape}: torch / ours", times["torch"] / times["ours"], "goal >= 3")
    else:
        print("learning of groups is not compared: torch is not installed")


if __name__ == "__main__":
    run()
