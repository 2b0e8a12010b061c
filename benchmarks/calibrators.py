"""Speed of temperature-like fits, relative to scikit-learn and to L-BFGS in torch if installed."""

from __future__ import annotations

import importlib.util

import numpy as np
from sklearn.calibration import _TemperatureScaling

from probaudit.calibrators import DirectionPreserving, TemperatureScaling
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

    fits = best(
        {"ours": lambda: temperature.fit(z, y), "sklearn": lambda: _TemperatureScaling().fit(z, y)},
        seconds=0,
        at_least=2,
    )
    line(f"{name}: temperature, scikit-learn / ours", fits["sklearn"] / fits["ours"], "goal >= 25")

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
