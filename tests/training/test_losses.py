"""Losses: values and gradients against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.training import FLSD_53, Focal, LabelSmoothing, MixUp

from ..conftest import softmax

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import FocalLoss, mix_up  # noqa: E402

N, K = 40, 5
RANDOM = np.random.default_rng(0)
Z = RANDOM.normal(scale=2, size=(N, K))
Y = RANDOM.integers(0, K, N)
P = softmax(Z)
ONE_HOT = np.eye(K)[Y]


def value_and_gradient(loss, z=Z, y=Y):
    logits = torch.tensor(z, requires_grad=True)
    value = loss(logits, torch.tensor(y))
    value.backward()
    return value.item(), logits.grad.numpy()


def focal(gamma):
    """The mean focal loss, and its gradient: with p the probability of the true class,
    [gamma p (1 - p)^(gamma - 1) log p - (1 - p)^gamma] (one-hot - P)."""
    p = P[np.arange(N), Y]
    slope = gamma * p * (1 - p) ** (gamma - 1) * np.log(p) - (1 - p) ** gamma
    return (-((1 - p) ** gamma) * np.log(p)).mean(), slope[:, None] * (ONE_HOT - P) / N


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 3.0])
def test_focal_loss_and_gradient_have_their_closed_forms(gamma):
    value, gradient = value_and_gradient(FocalLoss(gamma))
    expected, slope = focal(gamma)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-14)


def test_scheduled_exponents_depend_on_the_true_class_probability():
    p = P[np.arange(N), Y]
    gamma = np.where(p < 0.2, 5.0, 3.0)  # Mukhoti et al. 2020, section 4
    assert len(set(gamma)) == 2
    value, gradient = value_and_gradient(FocalLoss(FLSD_53))
    expected, slope = focal(gamma)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-14)


def test_focal_with_gamma_zero_is_cross_entropy():
    ours, theirs = value_and_gradient(FocalLoss(0)), value_and_gradient(torch.nn.CrossEntropyLoss())
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-16)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_gradient_is_finite_where_the_network_is_certain(gamma):
    logits = np.array([[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]])
    value, gradient = value_and_gradient(FocalLoss(gamma), logits, np.array([0, 0]))
    assert value == pytest.approx(100)
    assert np.isfinite(gradient).all()


def test_label_smoothing_has_its_closed_form():
    alpha = 0.1
    target = (1 - alpha) * ONE_HOT + alpha / K
    value, gradient = value_and_gradient(LabelSmoothing(alpha).loss())
    assert value == pytest.approx(-(target * np.log(P)).sum(axis=1).mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, (P - target) / N, atol=1e-14)


def test_mix_up_loss_is_that_of_mixed_labels():
    batch = mix_up(torch.tensor(Z), torch.tensor(Y), 1.0, torch.Generator().manual_seed(3))
    assert 0 < batch.share < 1
    other = np.eye(K)[batch.partners.numpy()]
    target = batch.share * ONE_HOT + (1 - batch.share) * other
    value, gradient = value_and_gradient(
        lambda logits, labels: batch.loss(MixUp(1.0).loss(), logits)
    )
    assert value == pytest.approx(-(target * np.log(P)).sum(axis=1).mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, (P - target) / N, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FocalLoss(-1.0), r"`gamma`: must not be negative"),
        (lambda: FocalLoss([(0.2, 5.0)]), r"`gamma`: limits must increase .* and end at 1"),
        (lambda: FocalLoss([]), r"`gamma`: limits must increase"),
        (lambda: Focal(float("nan")).loss(), r"`gamma`: must not be negative"),
        (lambda: LabelSmoothing(1.5), r"`alpha`: must lie in \[0, 1\]"),
        (lambda: MixUp(-0.1), r"`alpha`: must not be negative"),
    ],
)
def test_invalid_choices_are_refused(make, message):
    with pytest.raises(pb.InputError, match=message):
        make()
