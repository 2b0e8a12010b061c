"""Networks: shapes, seeds, and names of other packages."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import probaudit as pb

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import named_model, networks  # noqa: E402


@pytest.mark.parametrize("name", ["lenet", "mlp", "residual"])
def test_networks_give_logits_of_the_classes(name):
    model = named_model(name, classes=7)
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


def test_the_residual_network_takes_other_sizes_and_colours():
    assert networks.residual(4, channels=3)(torch.zeros(2, 3, 33, 40)).shape == (2, 4)


def test_seeds_set_the_initial_weights():
    first, same, other = networks.lenet(seed=1), networks.lenet(seed=1), networks.lenet(seed=2)
    assert torch.equal(first[0].weight, same[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)


def test_building_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    networks.residual()
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.fixture
def packages(monkeypatch):
    """Stand-ins for timm and torchvision that record their calls."""
    calls = []

    def create(library):
        def build(name, **options):
            if name == "no_such":
                raise RuntimeError(f"Unknown model ({name})")
            calls.append((library, name, options))
            return torch.nn.Linear(2, options.get("num_classes", 1000))

        return build

    timm, torchvision, models = map(ModuleType, ("timm", "torchvision", "torchvision.models"))
    timm.create_model, models.get_model = create("timm"), create("torchvision")
    torchvision.models = models
    for module in (timm, torchvision, models):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def test_networks_of_other_packages(packages):
    model = named_model("timm:resnet50", pretrained=True, num_classes=5)
    assert model.out_features == 5
    named_model("torchvision:vit_b_16", pretrained=True)
    named_model("torchvision:vit_b_16", num_classes=3)
    assert packages == [
        ("timm", "resnet50", {"pretrained": True, "num_classes": 5}),
        ("torchvision", "vit_b_16", {"weights": "DEFAULT"}),
        ("torchvision", "vit_b_16", {"weights": None, "num_classes": 3}),
    ]


def test_unknown_names_are_refused(packages):
    with pytest.raises(pb.InputError, match=r"`name`: could not be built .*Unknown model"):
        named_model("timm:no_such")
    with pytest.raises(pb.InputError, match=r'one of lenet, mlp, residual, or begin with "timm:"'):
        named_model("resnet50")
    with pytest.raises(pb.InputError, match=r"`pretrained`: there are no published weights"):
        named_model("lenet", pretrained=True)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match="'timm:resnet50' needs timm: pip install timm"):
        named_model("timm:resnet50")
