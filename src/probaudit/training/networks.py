"""Small networks for images of 28x28 pixels, and networks of timm and torchvision by name.

All end with a linear layer that gives logits, so that `collect` finds their penultimate features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..data.extras import needed
from ..errors import InputError

torch: Any = needed("torch", "Training", "torch")
nn: Any = torch.nn

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def lenet(classes: int = 10, *, channels: int = 1, seed: int = 0) -> Module:
    """A network like LeNet-5 (LeCun et al. 1998), with ReLU and maxima: 62,000 weights, 84
    penultimate features.

    seed : of the initial weights. Torch's global generator is not changed.
    """
    return _seeded(
        seed,
        lambda: nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        ),
    )


def mlp(classes: int = 10, *, pixels: int = 28 * 28, width: int = 256, seed: int = 0) -> Module:
    """Two hidden layers of `width` units with ReLU."""
    return _seeded(
        seed,
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(pixels, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, classes),
        ),
    )


def residual(classes: int = 10, *, channels: int = 1, width: int = 16, seed: int = 0) -> Module:
    """A small residual network (He et al. 2016): three stages of one block, with `width`, 2 and 4
    times `width` channels, for images of any size from 8x8 pixels."""
    return _seeded(
        seed,
        lambda: nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, stride=2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            ResidualBlock(width, width),
            ResidualBlock(width, 2 * width, stride=2),
            ResidualBlock(2 * width, 4 * width, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, classes),
        ),
    )


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two convolutions with batch normalisation, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


OWN: dict[str, Callable[..., Any]] = {"lenet": lenet, "mlp": mlp, "residual": residual}


def named_model(name: str, *, pretrained: bool = False, **options: Any) -> Module:
    """A network by its name: "lenet", "mlp" or "residual" of this module; "timm:resnet50" or
    "torchvision:resnet50" of these packages.

    pretrained : whether to load the weights that timm or torchvision publishes (a download).
    options : passed to the function that builds the network, such as `num_classes` of timm and
        torchvision, or `classes` and `seed` of the networks here.

    >>> named_model("lenet", classes=3)[-1]
    Linear(in_features=84, out_features=3, bias=True)
    """
    library, colon, own = name.partition(":")
    if not colon and name in OWN:
        if pretrained:
            raise InputError("pretrained", "there are no published weights for this network", name)
        return OWN[name](**options)
    if library == "timm":
        create = needed("timm", f"The network {name!r}").create_model
        return _created(create, name, own, pretrained=pretrained, **options)
    if library == "torchvision":
        create = needed("torchvision.models", f"The network {name!r}").get_model
        weights = "DEFAULT" if pretrained else None
        return _created(create, name, own, weights=weights, **options)
    rule = f'must be one of {", ".join(OWN)}, or begin with "timm:" or "torchvision:"'
    raise InputError("name", rule, name)


def _created(create: Callable[..., Any], name: str, own: str, **options: Any) -> Any:
    """The network that another package builds. An unknown name or option is an InputError."""
    try:
        return create(own, **options)
    except (RuntimeError, TypeError, ValueError) as problem:
        raise InputError("name", "could not be built", f"{name}: {problem}") from None


def _seeded(seed: int, build: Callable[[], Any]) -> Any:
    """A network whose initial weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
