"""The trainer, on images that are easy to tell apart."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.training import INTERVENTIONS, Intervention, Trainer, train

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import networks  # noqa: E402


def squares(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images with a bright square in one of three places."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, n)
    images = random.uniform(0, 0.5, (n, 1, 28, 28)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[0, 8 * label : 8 * label + 8, 4:12] += 0.5
    return images, labels


def accuracy(model, data):
    rows = pb.collect(model, data, layer=None)
    return (rows.probs.argmax(axis=1) == rows.y).mean()


@pytest.mark.parametrize("intervention", INTERVENTIONS.values(), ids=INTERVENTIONS)
def test_every_intervention_learns(intervention):
    model = networks.mlp(3, width=16)
    losses = Trainer(epochs=4, batch_size=32, intervention=intervention).train(model, squares(300))
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert accuracy(model, squares(200, seed=1)) > 0.9


@pytest.mark.parametrize("name", ["lenet", "residual"])
def test_networks_learn(name):
    model = train(networks.named_model(name, classes=3), squares(300), epochs=4, batch_size=32)
    assert accuracy(model, squares(200, seed=1)) > 0.9


def weights(model):
    return torch.cat([part.flatten() for part in model.state_dict().values()])


def test_seeds_determine_the_network():
    data, mixed = squares(100), INTERVENTIONS["mix-up"]

    def trained(seed, start=0):
        model = networks.mlp(3, width=8, seed=start)
        model.insert(3, torch.nn.Dropout(0.5))
        return weights(train(model, data, epochs=1, seed=seed, intervention=mixed))

    first = trained(1)
    torch.manual_seed(123)  # torch's own generator has no influence
    assert torch.equal(first, trained(1))
    assert not torch.equal(first, trained(2))
    assert not torch.equal(first, trained(1, start=1))


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    train(networks.lenet(3), squares(40), epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_mode_of_the_model_is_kept():
    model = networks.mlp(3, width=8).eval()
    train(model, squares(40), epochs=1)
    assert not model.training


def test_labels_may_be_bytes():
    images, labels = squares(40)
    assert len(Trainer(epochs=1).train(networks.mlp(3), (images, labels.astype(np.uint8)))) == 1


def test_a_loader_gives_the_batches():
    images, labels = squares(96)
    rows = torch.utils.data.TensorDataset(torch.tensor(images), torch.tensor(labels))
    model = networks.mlp(3, width=16)
    Trainer(epochs=8).train(model, torch.utils.data.DataLoader(rows, 32))
    assert accuracy(model, (images, labels)) > 0.9


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"epochs": 0}, r"`epochs`: must be at least 1 \(found: 0\)"),
        ({"batch_size": 0}, r"`batch_size`: must be at least 1"),
        ({"learning_rate": 0.0}, r"`learning_rate`: must be positive"),
        ({"weight_decay": -1.0}, r"`weight_decay`: must not be negative"),
        ({"intervention": "mix-up"}, r"`intervention`: must be an Intervention"),
    ],
)
def test_invalid_choices_are_refused(choices, message):
    with pytest.raises(pb.InputError, match=message):
        Trainer(**choices)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.zeros((2, 784)),), r"must be a pair \(inputs, labels\)"),
        ((np.zeros((2, 784)), np.zeros(3, int)), r"one label for each row.*2 rows, 3 labels"),
        (iter([]), r"must be a tuple \(inputs, labels\), or a loader with a length"),
    ],
)
def test_invalid_data_are_refused(data, message):
    with pytest.raises(pb.InputError, match=message):
        Trainer().train(networks.mlp(3), data)


def test_divergence_is_reported():
    with pytest.raises(pb.InputError, match=r"`learning_rate`: training diverged"):
        Trainer(epochs=3, learning_rate=1e9).train(networks.mlp(3), squares(64))


def test_interventions_describe_themselves():
    words = [choice.words() for choice in INTERVENTIONS.values()]
    assert words[0] == Intervention().words() == "no intervention"
    assert words[2] == "mix-up, alpha 0.2"
    assert words[4] == "focal loss, gamma 5 below 0.2, 3 below 1"
    assert len(set(words)) == len(words)
