"""Mix-up: training on weighted means of two images, and the loss that goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.extras import needed
from .interventions import check_alpha

torch: Any = needed("torch", "Training", "torch")

if TYPE_CHECKING:
    from torch import Generator, Tensor

    Loss = Callable[[Tensor, Tensor], Tensor]


class Mixed(NamedTuple):
    """A batch after mix-up. Row i is `share` times a row with label `labels[i]`, plus `1 - share`
    times a row with label `partners[i]`."""

    inputs: Tensor
    labels: Tensor
    partners: Tensor
    share: float

    def loss(self, loss: Loss, logits: Tensor) -> Tensor:
        """The mean of the losses of both labels, weighted by their shares. For the cross-entropy,
        this equals the loss of the mixed one-hot labels (Zhang et al. 2018)."""
        if self.share == 1:
            return loss(logits, self.labels)
        own, other = loss(logits, self.labels), loss(logits, self.partners)
        return self.share * own + (1 - self.share) * other


def mix_up(
    inputs: Tensor, labels: Tensor, alpha: float, generator: Generator | None = None
) -> Mixed:
    """Mix the rows of a batch with a random permutation of them (Zhang et al. 2018). One share per
    batch is drawn from Beta(alpha, alpha); as in their code, with alpha = 0 nothing is mixed.

    generator : the source of random numbers; torch's global one by default.

    In a training loop:

        batch = mix_up(inputs, labels, alpha=0.2)
        batch.loss(torch.nn.CrossEntropyLoss(), model(batch.inputs)).backward()

    >>> inputs, labels = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 1])
    >>> mix_up(inputs, labels, alpha=0).share
    1.0
    """
    check_alpha(alpha)
    if alpha == 0:
        return Mixed(inputs, labels, labels, 1.0)
    seed = int(torch.randint(2**62, (1,), generator=generator))
    share = float(np.random.default_rng(seed).beta(alpha, alpha))
    partner = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    mixed = share * inputs + (1 - share) * inputs[partner]
    return Mixed(mixed, labels, labels[partner], share)
