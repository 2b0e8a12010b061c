"""PyTorch modules as models: outputs, and features by a forward hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import Argument, InputError
from ..text import listed
from .forward import PENULTIMATE, Answer, Forward, Outputs, checked_outputs

if TYPE_CHECKING:
    from torch import Tensor, device
    from torch.nn import Module


def device_of(model: Module) -> device:
    """The device of a model: that of its first parameter or buffer, or the CPU if it has none."""
    import torch

    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


def moved(inputs: Any, device: device) -> Any:
    """Tensors on a device; also those in tuples, lists and mappings. Arrays become tensors."""
    import torch

    if isinstance(inputs, Mapping):
        return {name: moved(part, device) for name, part in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return [moved(part, device) for part in inputs]
    return torch.as_tensor(inputs).to(device)


@contextmanager
def forward_of_module(model: Module, layer: Any, outputs: str | None) -> Iterator[Forward]:
    """A module in evaluation mode, without gradients, on its own device. Afterwards each of its
    modules is in the mode it was in, and no hook remains."""
    import torch

    found, where = checked_outputs(outputs, "logits", "a PyTorch module"), device_of(model)
    tap = None if layer is None else _tap(model, layer)
    modes = [(module, module.training) for module in model.modules()]

    def ask(inputs: Any) -> Answer:
        batch = moved(inputs, where)
        with torch.no_grad():
            if isinstance(batch, dict):
                given = model(**batch)
            else:
                given = model(*batch) if isinstance(batch, list) else model(batch)
        result = _tensor(given, found)
        return Answer.of(result, None if tap is None else tap.features(result))

    try:
        model.eval()
        if tap is not None:
            tap.open()
        yield Forward(ask, found)
    finally:
        if tap is not None:
            tap.close()
        for module, mode in modes:
            module.training = mode


def _tensor(given: Any, outputs: Outputs) -> Tensor:
    """The output of a model, a tensor; or the entry of a mapping that is named after its kind."""
    import torch

    if isinstance(given, Mapping) and outputs in given:
        given = given[outputs]
    if isinstance(given, torch.Tensor):
        return given
    raise InputError(
        "model",
        f'must return a tensor, or a mapping with an entry "{outputs}"',
        type(given).__name__,
        way_out=("wrap it in a module that returns the outputs alone",),
    )


@dataclass
class _Tap(ABC):
    """Keeps what a module saw in the last call of the model."""

    modules: Mapping[str, Module]
    handles: list[Any] = field(default_factory=list)
    seen: Any = None

    def open(self) -> None:
        self.handles = [m.register_forward_hook(self._seen) for m in self.modules.values()]

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()

    @abstractmethod
    def _seen(self, module: Module, inputs: Any, output: Any) -> None:
        """The hook that runs after each call of a module."""

    @abstractmethod
    def features(self, result: Tensor) -> Any:
        """The features of the last call, whose output was `result`."""


@dataclass
class _OutputOf(_Tap):
    """The output of one layer. Copied at once, because a later layer may change it in place."""

    calls: int = 0

    def _seen(self, module: Module, inputs: Any, output: Any) -> None:
        import torch

        if not isinstance(output, torch.Tensor):
            rule = "its output must be a tensor"
            raise InputError("layer", rule, f"{self._name} returns {type(output).__name__}")
        self.calls += 1
        self.seen = output.detach().clone()

    @property
    def _name(self) -> str:
        return next(iter(self.modules))

    def features(self, result: Tensor) -> Any:
        calls, seen, self.calls, self.seen = self.calls, self.seen, 0, None
        if calls != 1:
            rule = "must be called once when the model is called"
            raise InputError("layer", rule, f"{self._name} is called {calls} times")
        return seen


@dataclass
class _InputOfLast(_Tap):
    """The input of the linear layer that gives the output of the model."""

    def _seen(self, module: Module, inputs: Any, output: Any) -> None:
        self.seen = (inputs[0], output, output._version) if inputs else None

    def features(self, result: Tensor) -> Any:
        seen, self.seen = self.seen, None
        if seen is not None:
            features, output, version = seen
            same = output.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()
            if same and output.numel() == result.numel() and output._version == version:
                return features
        found = f"its linear layers are {listed(list(self.modules))}" if self.modules else "none"
        raise InputError(
            "layer",
            "the output of the model must be that of its last linear layer, unless a layer is "
            "named",
            found,
            way_out=(
                "pass ",
                Argument("layer"),
                ", a module or its name, whose output gives the features, or ",
                Argument("layer", "None"),
                " for no features",
            ),
        )


def _tap(model: Module, layer: Any) -> _Tap:
    """The hook for a layer: its name, the module itself, or "penultimate"."""
    from torch import nn

    modules = {name: module for name, module in model.named_modules() if name}
    if isinstance(layer, nn.Module):
        named = {name: module for name, module in modules.items() if module is layer}
        if not named:
            raise InputError("layer", "must be a module of the model", type(layer).__name__)
        return _OutputOf(named)
    if layer in modules:
        return _OutputOf({layer: modules[layer]})
    if layer != PENULTIMATE:
        raise InputError("layer", f"must be one of {listed(list(modules))}", repr(layer))
    linear = {name: module for name, module in modules.items() if isinstance(module, nn.Linear)}
    return _InputOfLast(linear or ({"model": model} if isinstance(model, nn.Linear) else {}))
