"""Kernel regression on the confidence: calibration error, curve, density and sharpness gap
(Chidambaram & Ge 2024, Section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..choices.definitions import Definition
from ..choices.lenses import Lens
from ..choices.scores import as_score
from ..errors import InputError
from .fine_grid import FineGrid

Kernel = Literal["gaussian", "epanechnikov"]


def _gaussian(u: np.ndarray) -> np.ndarray:
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def _epanechnikov(u: np.ndarray) -> np.ndarray:
    return 0.75 * np.maximum(0.0, 1 - u**2)


KERNELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gaussian": _gaussian,
    "epanechnikov": _epanechnikov,
}


def kernel_function(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name not in KERNELS:
        raise InputError("kernel", f"must be one of {', '.join(KERNELS)}", repr(name))
    return KERNELS[name]


@dataclass(frozen=True)
class KernelCurve:
    """At each x: E[target | output = x], E[loss | output = x], the density of outputs, and the
    pointwise sharpness gap times that density. NaN if no row lies within the kernel."""

    x: np.ndarray
    regression: np.ndarray
    loss: np.ndarray
    density: np.ndarray
    sharpness_gap: np.ndarray


def smoothed(
    values: np.ndarray, kernel: str, bandwidth: float, *, reflect: bool = False, power: int = 1
) -> np.ndarray:
    """sum_j K((x_i - x_j) / bandwidth)^power values_j at the midpoints x of the cells [..., G], by
    FFT. With `reflect`, values are mirrored at 0 and 1."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = values.shape[-1]
    far = 2 * n if reflect else n  # a mirrored point is up to twice as far away
    reach = np.arange(-far + 1, far) / n
    weights = kernel_function(kernel)(reach / bandwidth) ** power
    spread = (
        np.concatenate([values[..., ::-1], values, values[..., ::-1]], axis=-1)
        if reflect
        else values
    )
    size = next_fast_len(spread.shape[-1] + len(weights) - 1, real=True)
    full = irfft(rfft(spread, size) * rfft(weights, size), size)
    start = far - 1 + (n if reflect else 0)
    return np.asarray(full[..., start : start + n])


def kernel_error(
    weight: np.ndarray,
    outputs: np.ndarray,
    targets: np.ndarray,
    *,
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    reflect: bool = False,
) -> np.ndarray:
    """The mean square of E[target | output] - output, by Nadaraya-Watson regression on the grid, as
    in the code of Chidambaram & Ge 2024: Theorem C.4, with the regression instead of the label in
    the third term of Eq. C.3.

    weight, outputs, targets : sums over the cells, [..., G]. The regression at a row includes the
        row itself, as in the authors' code.

    For log loss this plug-in estimate is biased by outputs near 0 and 1; see `local_logistic`.
    """
    kept = weight > 0
    mass = np.where(kept, smoothed(weight, kernel, bandwidth, reflect=reflect), 1.0)
    hits = np.where(kept, smoothed(targets, kernel, bandwidth, reflect=reflect), 0.0)
    place = np.divide(outputs, weight, out=np.zeros_like(outputs), where=kept)
    gaps = (np.clip(hits / mass, 0, 1) - np.clip(place, 0, 1)) ** 2
    return np.asarray(np.where(kept, weight * gaps, 0.0).sum(axis=-1) / weight.sum(axis=-1))


def expected_if_calibrated(
    grid: FineGrid, *, kernel: str = "gaussian", bandwidth: float = 0.05
) -> float:
    """The mean of `kernel_error` for a calibrated model: squared bias plus variance of the
    regression. NaN if the squared weights are unknown."""
    kept = grid.kept
    mass = smoothed(grid.weight, kernel, bandwidth)[kept]
    bias = smoothed(grid.outputs, kernel, bandwidth)[kept] / mass - grid.place
    spread = np.zeros(len(grid.weight))
    spread[kept] = grid.weight_squared[kept] * np.clip(grid.place * (1 - grid.place), 0, 1)
    variance = smoothed(spread, kernel, bandwidth, power=2)[kept] / mass**2
    return float(((bias**2 + variance) * grid.share).sum())


def kernel_curve(
    grid: FineGrid,
    x: np.ndarray,
    *,
    kernel: str = "gaussian",
    bandwidth: float = 0.05,
    unexplained: FineGrid | None = None,
) -> KernelCurve:
    """The curve at given points, without FFT, so that it is accurate where rows are few.

    The sharpness gap is (E[loss | x] - d(E[target | x], x)) times the density, by the Brier score
    (Chidambaram & Ge 2024, Eq. 4.7, as in their figures).

    unexplained : the loss of each row less its part of the calibration error; the gap is then its
        regression. (For log loss, d is infinite at 0 and 1, but the kernel there averages the
        finite losses of neighbours.)
    """
    mass, regression, loss = _regression(grid, x, kernel, bandwidth, grid.targets, grid.loss)
    density = mass / (grid.weight.sum() * bandwidth)
    if unexplained is None:
        gap = loss - (np.clip(regression, 0, 1) - x) ** 2
    else:
        _, gap = _regression(unexplained, x, kernel, bandwidth, unexplained.loss)
        gap = np.maximum(gap, 0.0)  # the correction for noise can make it slightly negative
    return KernelCurve(x, regression, loss, density, gap * density)


def _regression(
    grid: FineGrid, x: np.ndarray, kernel: str, bandwidth: float, *sums: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The total weight under the kernel at each x, and the kernel means of the given sums."""
    kept = grid.kept
    weights = kernel_function(kernel)((x[:, None] - grid.place[None, :]) / bandwidth)
    mass = weights @ grid.weight[kept]
    with np.errstate(invalid="ignore", divide="ignore"):
        return mass, *(weights @ values[kept] / mass for values in sums)


def kernel_definition(lens: Lens, score: str, kernel: str, bandwidth: float) -> Definition:
    """The definition of a kernel calibration error."""
    width = f"{kernel.capitalize()} kernel of width {bandwidth:g}"
    return Definition("kernel calibration error", lens, as_score(score).words(), width)
