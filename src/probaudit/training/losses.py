"""The focal loss, as a module for an ordinary training loop.

Label smoothing (Szegedy et al. 2016) has no class here:
`torch.nn.CrossEntropyLoss(label_smoothing=...)` is the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..data.extras import needed
from ..errors import InputError

torch: Any = needed("torch", "Training", "torch")

if TYPE_CHECKING:
    from torch import Tensor


class FocalLoss(torch.nn.Module):  # type: ignore[misc]
    """The focal loss (Lin et al. 2017): the mean of -(1 - p)^gamma log(p), where p is the
    probability of the true class.

    gamma : one exponent for all rows (0 gives the cross-entropy); or a schedule, pairs of an upper
        limit of p and the exponent below it. The last limit must be 1. A schedule chooses the
        exponent of each row by its current p (Mukhoti et al. 2020); `FLSD_53` is theirs.

    >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> round(FocalLoss(gamma=0)(logits, labels).item(), 4)
    0.7201
    >>> round(FocalLoss([(0.2, 5), (1, 3)])(logits, labels).item(), 4)
    0.2567
    """

    def __init__(self, gamma: float | Sequence[tuple[float, float]] = 3.0) -> None:
        super().__init__()
        pairs = ((1.0, gamma),) if isinstance(gamma, (int, float)) else tuple(gamma)
        limits = [limit for limit, _ in pairs]
        if limits != sorted(set(limits)) or limits[-1:] != [1.0] or limits[0] <= 0:
            raise InputError("gamma", "limits must increase within (0, 1] and end at 1", limits)
        if any(not 0 <= value < float("inf") for _, value in pairs):
            raise InputError("gamma", "must not be negative", [value for _, value in pairs])
        self.schedule = pairs

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        log_p = -torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        rest = -torch.expm1(log_p)  # 1 - p without cancellation
        certain = rest <= 0  # p rounds to 1, where powers below 1 have no finite slope
        factor = torch.where(certain, 1.0, rest) ** self._exponents(log_p)
        return -(torch.where(certain, 0.0, factor) * log_p).mean()

    def _exponents(self, log_p: Tensor) -> Tensor:
        limits = torch.tensor([limit for limit, _ in self.schedule[:-1]], dtype=log_p.dtype)
        values = torch.tensor([value for _, value in self.schedule], dtype=log_p.dtype)
        place = torch.bucketize(log_p.detach().exp(), limits.to(log_p.device), right=True)
        return values.to(log_p.device)[place]

    def extra_repr(self) -> str:
        return f"gamma={self.schedule[0][1] if len(self.schedule) == 1 else self.schedule}"
