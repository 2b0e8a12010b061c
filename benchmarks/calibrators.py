"""Speed of temperature-like fits, relative to scikit-learn and to L-BFGS in torch if installed."""

from __future__ import annotations

import importlib.util
import time
from unittest import mock

import numpy as np
from sklearn.calibration import _TemperatureScaling

from probaudit.calibrators import DirectionPreserving, TemperatureScaling
from probaudit.calibrators.fitting import softmax_sums
from probaudit.calibrators.fitting.newton import bounded_minimum
from probaudit.calibrators.fitting.softmax_sums import SoftmaxRows
from timing import best, line
from worlds import SHAPES, rows


def torch_affine(z: np.ndarray, y: np.ndarray) -> float:
    """The least log loss of softmax(beta z + b), by L-BFGS in torch."""
    import torch

    scores, labels = torch.from_numpy(z), torch.from_numpy(y)
    beta, bias = torch.ones(1, requires_grad=True), torch.zeros(z.shape[1], requires_grad=True)
    search = torch.optim.LBFGS(
        [beta, bias],
        max_iter=200,
        tolerance_grad=1e-7,
        tolerance_change=1e-10,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        search.zero_grad()
        loss = torch.nn.functional.cross_entropy(beta * scores + bias, labels)
        loss.backward()
        return loss

    search.step(closure)
    return closure().item()


def run() -> None:
    name = "50,000 x 1,000 float32"
    y, z, _ = rows(*SHAPES[name])
    temperature, affine = (
        TemperatureScaling(from_logits=True),
        DirectionPreserving(from_logits=True),
    )
    at = SoftmaxRows(temperature._learning_sample(z, y, None))
    zero = np.zeros(z.shape[1])
    steps = best(
        {"sum": z.sum, "step": lambda: at.at_scale(0.8), "biased": lambda: at.at(0.8, zero)}
    )
    line(
        f"{name}: Newton step of a temperature / z.sum()", steps["step"] / steps["sum"], "goal <= 6"
    )
    line(f"{name}: the same with biases / z.sum()", steps["biased"] / steps["sum"])

    peer = _TemperatureScaling()
    jobs = {"ours": lambda: temperature.fit(z, y), "sklearn": lambda: peer.fit(z, y)}
    for clock, words in ((time.perf_counter, "seconds"), (time.process_time, "CPU seconds")):
        fits = best(jobs, seconds=0, at_least=3, clock=clock)
        ratio = fits["sklearn"] / fits["ours"]
        line(f"{name}: temperature, scikit-learn / ours, {words}", ratio, "goal >= 30")
    alone = SoftmaxRows(temperature._learning_sample(z, y, None))
    with mock.patch.object(softmax_sums, "LEAST_SAMPLE", np.inf):
        minimum = bounded_minimum(alone.at_scale, 1.0, *softmax_sums.SCALES, 1e-7)
    scale, loss = 1 / temperature.temperature_, temperature.fit_report_.score_after
    print(f"   1/T minus that of a search from 1: {scale - minimum.at:.1e}; log loss", end=" ")
    print(f"{loss - minimum.value:.1e}; log loss of scikit-learn minus ours", end=" ")
    print(f"{alone.at_scale(float(peer.beta_))[0] - loss:.1e}")

    if importlib.util.find_spec("torch"):
        losses = []
        fits = best(
            {"ours": lambda: affine.fit(z, y), "torch": lambda: losses.append(torch_affine(z, y))},
            seconds=0,
            at_least=1,
        )
        line(
            f"{name}: bias-corrected temperature, torch / ours",
            fits["torch"] / fits["ours"],
            "goal >= 20",
        )
        line("   log loss, torch minus ours", losses[-1] - affine.fit_report_.score_after)
    else:
        print("bias-corrected temperature is not compared: torch is not installed")
