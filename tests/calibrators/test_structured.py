"""Structured vector and matrix scaling: the optimum of their objective, numbers of probmetrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from probaudit.calibrators import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from probaudit.calibrators import structured as module
from probaudit.errors import InputError
from tests.conftest import softmax

BOTH = [StructuredVectorScaling, StructuredMatrixScaling]


def world(n=300, classes=4, seed=0):
    """Overconfident logits with a scale and a bias for each class, and labels."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, classes))
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return truth * np.linspace(1, 3, classes) + np.linspace(-1, 1, classes), y


def tempered(z, temperature, uniform):
    p = softmax(log_softmax(z, axis=1) / temperature)
    return np.log((1 - uniform) * p + uniform / p.shape[1])


def objective(model, x, y, w, matrix, bias):
    """The mean log loss of softmax(matrix x + bias), and the penalty, as the docstrings have it."""
    K, n = x.shape[1], w.sum()
    losses = -log_softmax(x @ matrix.T + bias, axis=1)[np.arange(len(y)), y]
    scale, mixing = (np.diag(matrix) - 1) ** 2, matrix**2
    penalty = K * (model.scale_penalty * scale.sum() + model.bias_penalty * (bias**2).sum())
    if isinstance(model, StructuredMatrixScaling):
        penalty += K * (K - 1) * model.mixing_penalty * (mixing.sum() - np.diag(mixing).sum())
    return w @ losses / n + penalty / n


def learned(model):
    if isinstance(model, StructuredMatrixScaling):
        return model.matrix_, model.bias_
    return np.diag(model.scale_), model.bias_


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_the_least_that_scipy_finds(kind, classes, weighted):
    z, y = world(classes=classes)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else np.ones(300)
    model = kind(scale_penalty=0.5, bias_penalty=2.0, from_logits=True).fit(z, y, w)
    single = TemperatureScaling(from_logits=True).fit(z, y, w)
    assert model.temperature_ == pytest.approx(single.temperature_, rel=1e-6)
    assert model.uniform_ == 1 / (w.sum() + 1)
    x = tempered(z, model.temperature_, model.uniform_)
    diagonal = kind is StructuredVectorScaling

    def value(at):
        matrix, bias = at[:-classes], at[-classes:]
        matrix = np.diag(matrix) if diagonal else matrix.reshape(classes, classes)
        return objective(model, x, y, w, matrix, bias)

    start = np.append(np.ones(classes) if diagonal else np.eye(classes).ravel(), np.zeros(classes))
    least = minimize(value, start, method="BFGS", options={"gtol": 1e-7}).fun
    assert objective(model, x, y, w, *learned(model)) == pytest.approx(least, abs=1e-10)
    assert model.fit_report_.converged
    matrix, bias = learned(model)
    assert model.predict_proba(z) == pytest.approx(softmax(x @ matrix.T + bias), abs=1e-12)


# log loss of `get_calibrator("svs").fit(p, y)` of probmetrics 1.3.0, which stops early in float32
# (torch 2.13.0), and of its objective minimised in float64 by scipy's BFGS to a slope of 1e-9
PROBMETRICS = {
    ("svs", "own_digits_mlp_val"): (0.21726629, 0.2172700053),
    ("sms", "own_digits_mlp_val"): (0.20010966, 0.2001087918),
    ("svs", "ferrer_agnews_gpt2"): (0.73242056, 0.7324207783),
    ("sms", "ferrer_agnews_gpt2"): (0.69444236, 0.6944206428),
}


@pytest.mark.parametrize("case", PROBMETRICS, ids="-".join)
def test_probmetrics(shared, case):
    kind = dict(zip(("svs", "sms"), BOTH, strict=True))[case[0]]
    data = np.load(shared / "data" / f"{case[1]}.npz")
    found = kind(from_logits=True).fit(data["logits"], data["labels"]).fit_report_.score_after
    theirs, least = PROBMETRICS[case]
    assert found == pytest.approx(theirs, abs=3e-5)
    assert found == pytest.approx(least, abs=1e-8)


def test_many_classes_have_the_optimum_of_few(monkeypatch):
    """L-BFGS with a block for each class ends where Newton steps do."""
    z, y = world(400, 12)
    newton = StructuredVectorScaling(from_logits=True).fit(z, y)
    monkeypatch.setattr(module, "MOST_DENSE", 0)
    blocks = StructuredVectorScaling(from_logits=True).fit(z, y)
    assert blocks.fit_report_.converged
    assert blocks.predict_proba(z) == pytest.approx(newton.predict_proba(z), abs=1e-7)


@pytest.mark.parametrize("kind", BOTH)
def test_from_temperature_scaling_to_free_scaling(kind):
    """Strong penalties leave the tempered probabilities; many rows leave no penalty."""
    z, y = world(5000, 3)
    single = TemperatureScaling(from_logits=True).fit(z, y).predict_proba(z)
    strong = {name: 1e9 for name in kind().get_params() if name.endswith("_penalty")}
    model = kind(from_logits=True, **strong).fit(z, y)
    assert model.predict_proba(z) == pytest.approx(single, abs=1e-3)
    assert model.predict_proba(z).min() > 1e-8
    free = VectorScaling(from_logits=True).fit(z, y).fit_report_.score_after
    few = dict.fromkeys(strong, 1e-6)
    assert kind(from_logits=True, **few).fit(z, y).fit_report_.score_after <= free + 1e-3


@pytest.mark.parametrize("kind", BOTH)
def test_no_output_is_certain(kind):
    """The uniform share bounds the log loss of new rows, whatever the outputs."""
    P, y = np.eye(3)[[0, 1, 2, 0, 1, 2]], [0, 1, 2, 0, 1, 2]
    probs = kind().fit(P, y).predict_proba(np.eye(3))
    assert probs.min() > 1e-4
    assert probs.argmax(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_penalties_must_be_positive(value):
    for kind in BOTH:
        for name in [name for name in kind().get_params() if name.endswith("_penalty")]:
            with pytest.raises(InputError, match=f"`{name}`"):
                kind(**{name: value}).fit([[0.7, 0.3], [0.4, 0.6]], [0, 1])
