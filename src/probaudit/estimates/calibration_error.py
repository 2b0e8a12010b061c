"""Calibration error over cells: the share of each cell times the distance of its mean output and mean target.

ECE, classwise, top-k, full and grouped ECE (paper 3, Eq. 3) and the partitioned calibration error (paper 4, Eq. 4) are
this one line.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..distances import Distance, Squared
from ..errors import InputError
from .cells import Cells


@dataclass(frozen=True)
class Gap:
    """The error of one view: its value, its cells, and how many cells were too thin to be debiased."""

    value: float
    cells: Cells
    thin: int = 0


def mean_gap(cells: Cells, distance: Distance, *, worst: bool = False) -> float:
    """The mean distance over cells, or the largest."""
    gaps = distance.between(cells.outputs, cells.targets)
    return float(gaps.max() if worst else (cells.share * gaps).sum())


def debiased_gap(cells: Cells, distance: Distance) -> Gap:
    """The mean squared distance less what chance adds to it, t (1 - t) / (n - 1) for each target (Kumar et al. 2019).

    Of weighted rows, n is the effective number, (sum w)^2 / sum w^2. A cell of one row says nothing about chance; such
    cells are left out and counted.
    """
    if not isinstance(distance, Squared):
        raise InputError("debias", 'needs distance="squared": only its bias is known', repr(distance))
    enough = cells.effective > 1
    fields = (cells.rows, cells.weight, cells.outputs, cells.targets, cells.effective)
    kept = Cells(*(field[enough] for field in fields))
    if not len(kept.rows):
        raise InputError("debias", "needs a cell of two rows or more")
    noise = kept.targets * (1 - kept.targets)
    noise = noise if noise.ndim == 1 else noise.sum(axis=1)
    gaps = distance.between(kept.outputs, kept.targets) - noise / (kept.effective - 1)
    return Gap(float((kept.share * gaps).sum()), cells, int((~enough).sum()))
