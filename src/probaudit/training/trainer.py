"""A short trainer, for experiments with interventions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..data.extras import needed
from ..data.work import Progress
from ..errors import InputError
from ..models.torch_models import device_of, moved
from .interventions import NONE, Intervention

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

    from .mixing import Mixed


@dataclass(frozen=True)
class Trainer:
    """The choices of a training run: stochastic gradient descent with Nesterov momentum 0.9 and a
    learning rate that falls to 0 along a half cosine.

    epochs : passes over the data.
    learning_rate : the first and largest one.
    batch_size : rows per step, for data in memory; a loader has its own.
    weight_decay : the factor of the squared weights, as torch's SGD defines it.
    intervention : how the training differs from the plain cross-entropy.
    seed : of the order of rows, of mix-up and of dropout. Initial weights are those of the model.
    progress : whether to show a progress bar; by default on a terminal.

    The same choices, data, initial weights and number of threads give the same network.
    """

    epochs: int = 5
    learning_rate: float = 0.05
    batch_size: int = 128
    weight_decay: float = 5e-4
    intervention: Intervention = NONE
    seed: int = 0
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise InputError(name, f"must be at least {least}", getattr(self, name))
        if not 0 < self.learning_rate < math.inf:
            raise InputError("learning_rate", "must be positive and finite", self.learning_rate)
        if not 0 <= self.weight_decay < math.inf:
            raise InputError("weight_decay", "must not be negative", self.weight_decay)
        if not isinstance(self.intervention, Intervention):
            rule = "must be an Intervention, such as MixUp(0.2)"
            raise InputError("intervention", rule, repr(self.intervention))

    def train(self, model: Module, data: Any) -> list[float]:
        """Train a model in place, on its own device. Returns the mean loss of each epoch.

        data : a tuple (inputs, labels) of arrays or tensors; or a loader of such pairs, which has
            a length and sets the order of rows itself.
        """
        torch = needed("torch", "Training", "torch")
        device, loss = device_of(model), self.intervention.loss()
        batches = _Batches.of(data, self.batch_size)
        optimiser = torch.optim.SGD(
            model.parameters(),
            lr=self.learning_rate,
            momentum=0.9,
            nesterov=True,
            weight_decay=self.weight_decay,
        )
        steps = self.epochs * len(batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        random = torch.Generator().manual_seed(self.seed)
        was_training, means = model.training, []
        with (
            Progress(steps, self.progress, unit="steps", work="training") as bar,
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        ):
            torch.manual_seed(self.seed)  # of dropout
            model.train()
            for _ in range(self.epochs):
                total, rows = 0.0, 0
                for inputs, labels in batches.shuffled(random):
                    batch = self._mixed(moved(inputs, device), moved(labels, device), random)
                    optimiser.zero_grad()
                    value = batch.loss(loss, model(batch.inputs))
                    value.backward()
                    optimiser.step()
                    schedule.step()
                    total, rows = total + value.item() * len(labels), rows + len(labels)
                    self._check_finite(total)
                    bar.advance(1)
                means.append(total / rows)
            model.train(was_training)
        return means

    def _mixed(self, inputs: Tensor, labels: Tensor, random: Generator) -> Mixed:
        from .mixing import mix_up

        return mix_up(inputs, labels, self.intervention.mix_up, random)

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise InputError(
                "learning_rate",
                "training diverged: the loss is not finite",
                self.learning_rate,
                way_out=("pass a smaller one",),
            )


@dataclass(frozen=True)
class _Batches:
    """The batches of an epoch: of tensors in memory, in random order; or of a loader."""

    loader: Any
    tensors: tuple[Any, Any] | None = None
    size: int = 0

    @classmethod
    def of(cls, data: Any, size: int) -> _Batches:
        torch = needed("torch", "Training", "torch")
        if not isinstance(data, tuple):
            if not hasattr(data, "__len__") or len(data) == 0:
                rule = "must be a tuple (inputs, labels), or a loader with a length"
                raise InputError("data", rule, type(data).__name__)
            return cls(data)
        if len(data) != 2:
            raise InputError("data", "must be a pair (inputs, labels)", f"{len(data)} parts")
        inputs, labels = (torch.as_tensor(part) for part in data)
        if len(inputs) != len(labels) or len(labels) == 0:
            found = f"{len(inputs)} rows, {len(labels)} labels"
            raise InputError("data", "needs one label for each row, and a row", found)
        # torch's losses take class numbers as int64 only
        return cls(None, (inputs, labels if labels.is_floating_point() else labels.long()), size)

    def __len__(self) -> int:
        if self.tensors is None:
            return len(self.loader)
        return -(-len(self.tensors[1]) // self.size)

    def shuffled(self, random: Generator) -> Iterator[tuple[Any, Any]]:
        if self.tensors is None:
            yield from self.loader
            return
        torch = needed("torch", "Training", "torch")
        inputs, labels = self.tensors
        for rows in torch.randperm(len(labels), generator=random).split(self.size):
            yield inputs[rows], labels[rows]


def train(model: Module, data: Any, **choices: Any) -> Module:
    """Train a model in place with the choices of `Trainer`, and return it.

    model = train(networks.lenet(), fashion_mnist("train"), epochs=3, intervention=MixUp(0.2))
    """
    Trainer(**choices).train(model, data)
    return model
