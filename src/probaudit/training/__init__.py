"""Training-time interventions: losses and batch transforms for PyTorch, a short trainer, small
networks, image data and corruptions.

A module is imported when one of its names is first used. Images, corruptions and the choices need
no torch; everything else names the extra to install if torch is missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {
    "AMOUNTS": "corruptions",
    "FASHION_CLASSES": "images",
    "FLSD_53": "interventions",
    "FocalLoss": "losses",
    "Focal": "interventions",
    "INTERVENTIONS": "interventions",
    "ImageFolder": "images",
    "Intervention": "interventions",
    "LabelSmoothing": "interventions",
    "MixUp": "interventions",
    "Mixed": "mixing",
    "Trainer": "trainer",
    "cifar": "images",
    "corrupt": "corruptions",
    "fashion_mnist": "images",
    "folder_dataset": "images",
    "mix_up": "mixing",
    "named_model": "networks",
    "train": "trainer",
}

__all__ = sorted([*MODULES, "networks"])


def __getattr__(name: str) -> Any:
    if name == "networks":
        return import_module(".networks", __name__)
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
