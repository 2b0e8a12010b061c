"""Kernel regression on the confidence: calibration error, curve, density and sharpness gap (paper 5, Section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import InputError
from ..scores import OneDimensional
from .fine_grid import FineGrid

Kernel = Literal["gaussian", "epanechnikov"]


def _gaussian(u: np.ndarray) -> np.ndarray:
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def _epanechnikov(u: np.ndarray) -> np.ndarray:
    return 0.75 * np.maximum(0.0, 1 - u**2)


KERNELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"gaussian": _gaussian, "epanechnikov": _epanechnikov}


def kernel_function(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name not in KERNELS:
        raise InputError("kernel", f"must be one of {', '.join(KERNELS)}", repr(name))
    return KERNELS[name]


@dataclass(frozen=True)
class KernelCurve:
    """At each x: E[target | output = x], E[loss | output = x], the density of outputs, and the pointwise sharpness gap."""

    x: np.ndarray
    regression: np.ndarray
    loss: np.ndarray
    density: np.ndarray
    sharpness_gap: np.ndarray


def smoothed(values: np.ndarray, kernel: str, bandwidth: float, *, reflect: bool = False) -> np.ndarray:
    """sum_j K((x_i - x_j) / bandwidth) values_j at the middles x of the cells [..., G], by FFT; with `reflect`, mirrored at 0
    and 1."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = values.shape[-1]
    far = 2 * n if reflect else n  # a mirrored point is up to twice as far away
    reach = np.arange(-far + 1, far) / n
    weights = kernel_function(kernel)(reach / bandwidth)
    spread = np.concatenate([values[..., ::-1], values, values[..., ::-1]], axis=-1) if reflect else values
    size = next_fast_len(spread.shape[-1] + len(weights) - 1, real=True)
    full = irfft(rfft(spread, size) * rfft(weights, size), size)
    start = far - 1 + (n if reflect else 0)
    return np.asarray(full[..., start : start + n])


def kernel_error(
    weight: np.ndarray,
    outputs: np.ndarray,
    targets: np.ndarray,
    score: OneDimensional,
    *,
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    reflect: bool = False,
) -> np.ndarray:
    """The mean divergence of E[target | output] from the output (paper 5, Theorem C.4), by Nadaraya-Watson on the grid.

    Sums over the cells, [..., G]. The regression includes the point itself, as the reference does.
    """
    kept = weight > 0
    mass = np.where(kept, smoothed(weight, kernel, bandwidth, reflect=reflect), 1.0)
    hits = np.where(kept, smoothed(targets, kernel, bandwidth, reflect=reflect), 0.0)
    place = np.divide(outputs, weight, out=np.zeros_like(outputs), where=kept)
    gaps = score.divergence(np.clip(hits / mass, 0, 1), np.clip(place, 0, 1))
    return np.asarray(np.where(kept, weight * gaps, 0.0).sum(axis=-1) / weight.sum(axis=-1))


def kernel_curve(
    grid: FineGrid, score: OneDimensional, x: np.ndarray, *, kernel: str = "gaussian", bandwidth: float = 0.05
) -> KernelCurve:
    """The curve at given places, each summed directly, so that it is right where there are hardly any rows.

    The sharpness gap is (E[loss | x] - d(E[target | x], x)) times the density (paper 5, Eq. 4.7, as drawn in its diagrams).
    """
    kept = grid.kept
    weights = kernel_function(kernel)((x[:, None] - grid.place[None, :]) / bandwidth)
    mass = weights @ grid.weight[kept]
    with np.errstate(invalid="ignore", divide="ignore"):
        regression, loss = (weights @ sums[kept] / mass for sums in (grid.targets, grid.loss))
    density = mass / (grid.weight.sum() * bandwidth)
    gap = (loss - score.divergence(np.clip(regression, 0, 1), x)) * density
    return KernelCurve(x, regression, loss, density, gap)
