"""Predictions collected from PyTorch modules."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(50, 6)).astype(np.float32)
Y = RANDOM.integers(0, 3, 50)


def network(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, outputs))


def loader(x=X, y=Y, size: int = 8):
    rows = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    return torch.utils.data.DataLoader(rows, size)


def by_hand(model, x=X):
    """Logits and the input of the last layer, computed without hooks."""
    with torch.no_grad():
        hidden = torch.relu(model[0](torch.tensor(x)))
        return model[3](hidden).numpy(), hidden.numpy()


@pytest.mark.parametrize("data", [loader(), (X, Y), [(X[:20], Y[:20]), (X[20:], Y[20:])]])
def test_logits_features_and_labels(data):
    model = network()
    rows = pb.collect(model, data)
    logits, hidden = by_hand(model)
    assert rows.kind == "logits"
    np.testing.assert_allclose(rows.probs, logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.features, hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rows.y, Y)


def test_the_result_can_be_audited():
    found = pb.audit(pb.collect(network(), loader()), repair=False)
    logits, _ = by_hand(network())
    assert found["log_score"] == pytest.approx(float(pb.log_score(Y, logits, from_logits=True)))


def test_the_model_is_as_it_was():
    model = network()
    model[2].eval()  # one module in another mode than the rest
    before = [module.training for module in model.modules()]
    pb.collect(model, loader())
    assert [module.training for module in model.modules()] == before
    assert all(not module._forward_hooks for module in model.modules())
    assert all(weight.grad is None for weight in model.parameters())


def test_the_model_is_as_it_was_after_an_error():
    model = network()
    with pytest.raises(ZeroDivisionError):
        pb.collect(model, loader(), batch=lambda batch: 1 / 0)
    assert model.training
    assert all(not module._forward_hooks for module in model.modules())


def test_gradients_are_off_inside_and_on_again():
    seen = []

    class Watching(nn.Linear):
        def forward(self, x):
            seen.append((torch.is_grad_enabled(), self.training))
            return super().forward(x)

    pb.collect(Watching(6, 3), (X, Y))
    assert seen == [(False, False)]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("which", ["0", 0])
def test_a_layer_by_name_or_module(which):
    model = network()
    layer = which if isinstance(which, str) else model[which]
    with torch.no_grad():
        expected = model[0](torch.tensor(X)).numpy()
    rows = pb.collect(model, loader(), layer=layer)
    np.testing.assert_allclose(rows.features, expected, rtol=1e-5, atol=1e-6)


def test_a_layer_that_is_changed_in_place_later():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))
    with torch.no_grad():
        expected = model[0](torch.tensor(X)).numpy()
    assert (expected < 0).any()
    rows = pb.collect(model, (X, Y), layer="0")
    np.testing.assert_allclose(rows.features, expected, rtol=1e-5, atol=1e-6)


def test_features_of_convolutions_are_flattened():
    images = RANDOM.normal(size=(9, 1, 8, 8)).astype(np.float32)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    rows = pb.collect(model, (images, Y[:9]), layer="0")
    assert rows.features.shape == (9, 2 * 6 * 6)


def test_no_features():
    assert (
        pb.collect(nn.Sequential(nn.Linear(6, 3), nn.ReLU()), (X, Y), layer=None).features is None
    )


class SoftmaxNetwork(nn.Module):
    def __init__(self, logarithm: bool = False) -> None:
        super().__init__()
        self.head, self.logarithm = nn.Linear(6, 3), logarithm

    def forward(self, x):
        z = self.head(x)
        return torch.log_softmax(z, 1) if self.logarithm else torch.softmax(z, 1)


@pytest.mark.parametrize("logarithm", [False, True])
def test_a_model_that_does_not_end_with_its_linear_layer_is_refused(logarithm):
    model = SoftmaxNetwork(logarithm)
    with pytest.raises(pb.InputError, match=r"`layer`: the output of the model must be .*head"):
        pb.collect(model, (X, Y))
    kind = "log_probabilities" if logarithm else "probabilities"
    rows = pb.collect(model, (X, Y), outputs=kind, layer=None)
    assert rows.kind == kind
    np.testing.assert_allclose(rows.probabilities().sum(axis=1), 1, rtol=1e-6)


def test_outputs_changed_in_place_are_refused():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(x).clamp_(min=0)

    with pytest.raises(pb.InputError, match="unless a layer is named"):
        pb.collect(Network(), (X, Y))


@pytest.mark.parametrize("squeezed", [False, True])
def test_a_single_logit_belongs_to_the_second_class(squeezed):
    class Binary(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 1)

        def forward(self, x):
            return self.head(x).squeeze(1) if squeezed else self.head(x)

    model, labels = Binary(), (Y > 0).astype(np.float32)[:, None]  # as BCEWithLogitsLoss takes them
    rows = pb.collect(model, (X, labels))
    with torch.no_grad():
        expected = torch.sigmoid(model.head(torch.tensor(X)))[:, 0].numpy()
    assert rows.n_classes == 2
    np.testing.assert_allclose(rows.probabilities()[:, 1], expected, rtol=1e-5)
    np.testing.assert_array_equal(rows.features, X)
    assert rows.codes.tolist() == (Y > 0).astype(int).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """Probabilities in half precision sum to 1 within their own precision only."""

    class Half(nn.Module):
        def forward(self, x):
            return torch.softmax(x[:, :3], 1).to(dtype)

    rows = pb.collect(Half(), (X, Y), outputs="probabilities", layer=None)
    assert abs(rows.probs.astype(float).sum(axis=1) - 1).max() > 1e-5
    assert 0 < pb.log_score(rows) < 3
    logits = pb.collect(network().to(dtype), (torch.tensor(X).to(dtype), Y))
    assert logits.probs.dtype == (np.float16 if dtype == torch.float16 else np.float32)


def test_mappings_and_tuples_of_inputs_become_arguments():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, first, second):
            return {"logits": self.head(first + second), "other": first}

    model = Two()
    expected = pb.collect(model.head, (X, Y))
    batches = [{"first": X / 2, "second": X / 2, "label": Y}]
    named = pb.collect(
        model, batches, batch=lambda b: ({k: b[k] for k in ("first", "second")}, b["label"])
    )
    ordered = pb.collect(model, [((X / 2, X / 2), Y)])
    for rows in (named, ordered):
        np.testing.assert_allclose(rows.probs, expected.probs, rtol=1e-6)
        np.testing.assert_array_equal(rows.features, X)
    whole = pb.collect(model, ({"first": X / 2, "second": X / 2}, Y), batch_size=7)
    np.testing.assert_allclose(whole.probs, expected.probs, rtol=1e-5, atol=1e-6)


def test_names_of_classes_replace_column_numbers():
    rows = pb.collect(network(), loader(), classes=["ant", "bee", "cat"])
    assert rows.classes == ("ant", "bee", "cat")
    np.testing.assert_array_equal(rows.codes, Y)
    assert rows.y[0] == ["ant", "bee", "cat"][Y[0]]
    for labels in (Y > 0, (Y > 0).astype(np.float32)[:, None]):
        binary = pb.collect(network(1), (X, labels), classes=["no", "yes"])
        np.testing.assert_array_equal(binary.y == "yes", Y > 0)
    with pytest.raises(pb.InputError, match=r"labels must be column numbers from 0 to 1, .*2"):
        pb.collect(network(2), loader(), classes=["ant", "bee"])


def test_columns_of_batches():
    site = np.array(["north", "south"])[Y % 2]
    batches = [(X[a : a + 25], Y[a : a + 25], {"site": site[a : a + 25]}) for a in (0, 25)]
    rows = pb.collect(network(), batches)
    np.testing.assert_array_equal(rows.columns["site"], site)
    with pytest.raises(pb.InputError, match=r"all batches must have the same columns \(site\)"):
        pb.collect(network(), [batches[0], batches[1][:2]])


def test_dense_outputs_stay_dense():
    images = RANDOM.normal(size=(6, 1, 5, 4)).astype(np.float32)
    labels = RANDOM.integers(0, 3, (6, 5, 4))
    rows = pb.collect(nn.Conv2d(1, 3, 1), (images, labels), layer=None, batch_size=4)
    assert len(rows) == 6 * 5 * 4
    assert rows.n_classes == 3


def test_workers_of_a_loader():
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    rows = pb.collect(network(), torch.utils.data.DataLoader(data, 10, num_workers=1))
    np.testing.assert_array_equal(rows.y, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "7"}, r"`layer`: must be one of 0, 1, 2, 3 \(found: '7'\)"),
        ({"layer": nn.ReLU()}, r"`layer`: must be a module of the model"),
        ({"outputs": "scores"}, r"`outputs`: must be one of logits, probabilities"),
        ({"batch_size": 3}, r"`batch_size`: must not be given with a loader"),
        ({"to": "rows.csv"}, r"`to`: must end in .parquet"),
        ({"batch": lambda b: b[0]}, r"`batch`: a batch must be \(inputs, labels\)"),
        ({"batch": lambda b: (b[0], b[1], b[1])}, r"`batch`: columns must be a frame, or"),
        (
            {"batch": lambda b: (b[0], b[1][:2])},
            r"`model`: must return one row of outputs for each",
        ),
        ({"batch": lambda b: (*b, {"a": [1]})}, r"`data`: 'a' must have one value for each"),
        ({"classes": ["a", "b"]}, r"labels must be column numbers from 0 to 1"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(pb.InputError, match=message):
        pb.collect(network(), loader(), **options)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, r"`data`: must be a loader, or a tuple \(inputs, labels\) \(found: int\)"),
        ([], r"`data`: needs at least one row"),
        ([X], r"`data`: a batch must be \(inputs, labels\)"),
        ((X, Y[:9]), r"`data`: labels must have one value for each row \(50\) \(found: 9\)"),
    ],
)
def test_invalid_data_are_refused(data, message):
    with pytest.raises(pb.InputError, match=message):
        pb.collect(network(), data)


def test_layers_that_cannot_give_features():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused, self.twice = nn.Linear(6, 6), nn.Linear(6, 6)
            self.lstm, self.head = nn.LSTM(6, 6), nn.Linear(6, 3)

        def forward(self, x):
            self.lstm(x)
            return self.head(self.twice(self.twice(x)))

    for layer, message in (
        ("unused", "unused is called 0 times"),
        ("twice", "twice is called 2 times"),
        ("lstm", "lstm returns tuple"),
    ):
        with pytest.raises(pb.InputError, match=message):
            pb.collect(Odd(), (X, Y), layer=layer)


def test_a_model_must_return_a_tensor():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(pb.InputError, match=r"`model`: must return a tensor.*tuple"):
        pb.collect(Pair(), (X, Y), layer=None)


def test_batches_of_different_shape_are_refused():
    class Wider(nn.Module):
        def forward(self, x):
            return x[:, : len(x)]

    with pytest.raises(pb.InputError, match=r"outputs must have the same shape in all batches"):
        pb.collect(Wider(), [(X[:3], Y[:3]), (X[:4], Y[:4])], layer=None)
