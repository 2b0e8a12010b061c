"""Interventions: choices that change how a network is trained. They need torch only when used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..data.extras import needed
from ..errors import InputError

# FLSD-53 of Mukhoti et al. 2020: exponent 5 where the true class has less than 0.2, 3 elsewhere
FLSD_53 = ((0.2, 5.0), (1.0, 3.0))


def check_alpha(alpha: float) -> None:
    """Raise if the alpha of mix-up is not a number from 0."""
    if not 0 <= alpha < math.inf:
        raise InputError("alpha", "must not be negative", alpha)


@dataclass(frozen=True)
class Intervention:
    """No intervention: the cross-entropy of the given rows. The others are subclasses."""

    @property
    def mix_up(self) -> float:
        """The alpha of mix-up; 0 for none."""
        return 0.0

    def loss(self) -> Any:
        """The loss, a torch module of logits and labels."""
        return needed("torch", "Training", "torch").nn.CrossEntropyLoss()

    def words(self) -> str:
        return "no intervention"


@dataclass(frozen=True)
class LabelSmoothing(Intervention):
    """Label smoothing (Szegedy et al. 2016), by torch: the cross-entropy with 1 - alpha times the
    one-hot label plus alpha / K for each of the K classes."""

    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError("alpha", "must lie in [0, 1]", self.alpha)

    def loss(self) -> Any:
        torch = needed("torch", "Training", "torch")
        return torch.nn.CrossEntropyLoss(label_smoothing=self.alpha)

    def words(self) -> str:
        return f"label smoothing, alpha {self.alpha:g}"


@dataclass(frozen=True)
class MixUp(Intervention):
    """Mix-up (Zhang et al. 2018; for calibration, Thulasidasan et al. 2019), see `mix_up`."""

    alpha: float = 0.2

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    @property
    def mix_up(self) -> float:
        return self.alpha

    def words(self) -> str:
        return f"mix-up, alpha {self.alpha:g}"


@dataclass(frozen=True)
class Focal(Intervention):
    """The focal loss: with one exponent (Lin et al. 2017), or with a schedule such as `FLSD_53`
    that depends on the row (Mukhoti et al. 2020). See `FocalLoss`."""

    gamma: float | tuple[tuple[float, float], ...] = 3.0

    def loss(self) -> Any:
        from .losses import FocalLoss

        return FocalLoss(self.gamma)

    def words(self) -> str:
        if isinstance(self.gamma, tuple):
            return "focal loss, gamma " + ", ".join(f"{g:g} below {p:g}" for p, g in self.gamma)
        return f"focal loss, gamma {self.gamma:g}"


NONE = Intervention()
INTERVENTIONS: dict[str, Intervention] = {
    "base": NONE,
    "label smoothing": LabelSmoothing(),
    "mix-up": MixUp(),
    "focal loss": Focal(),
    "focal loss FLSD-53": Focal(FLSD_53),
}
