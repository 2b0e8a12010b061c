"""Interventions: choices that change how a network is trained. They need torch only when used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data.extras import needed

# FLSD-53 of Mukhoti et al. 2020: exponent 5 where the true class has less than 0.2, 3 elsewhere
FLSD_53 = ((0.2, 5.0), (1.0, 3.0))


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

    def loss(self) -> Any:
        torch = needed("torch", "Training", "torch")
        return torch.nn.CrossEntropyLoss(label_smoothing=self.alpha)

    def words(self) -> str:
        return f"label smoothing, alpha {self.alpha:g}"


@dataclass(frozen=True)
class MixUp(Intervention):
    """Mix-up (Zhang et al. 2018; for calibration, Thulasidasan et al. 2019), see `mix_up`."""

    alpha: float = 0.2

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


@dataclass(frozen=True)
class MMCE(Intervention):
    """The MMCE penalty (Kumar et al. 2018), see `MMCELoss`."""

    weight: float = 2.0

    def loss(self) -> Any:
        from .losses import MMCELoss

        return MMCELoss(self.weight)

    def words(self) -> str:
        return f"MMCE penalty, weight {self.weight:g}"


@dataclass(frozen=True)
class SoftECE(Intervention):
    """The soft-binned ECE penalty (Karandikar et al. 2021), see `SoftECELoss`."""

    weight: float = 1.0

    def loss(self) -> Any:
        from .losses import SoftECELoss

        return SoftECELoss(self.weight)

    def words(self) -> str:
        return f"soft ECE penalty, weight {self.weight:g}"


NONE = Intervention()
INTERVENTIONS: dict[str, Intervention] = {
    "base": NONE,
    "label smoothing": LabelSmoothing(),
    "mix-up": MixUp(),
    "focal loss": Focal(),
    "focal loss FLSD-53": Focal(FLSD_53),
    "MMCE": MMCE(),
    "soft ECE": SoftECE(),
}
