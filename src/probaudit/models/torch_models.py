"""PyTorch modules as models: outputs, and features by a forward hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import device
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
