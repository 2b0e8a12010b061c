"""Losses: values and gradients against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.training import FLSD_53, Focal, LabelSmoothing, MixUp

from ..conftest import softmax

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import FocalLoss, MMCELoss, SoftECELoss, mix_up  # noqa: E402

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


def confidence_slope(by_confidence):
    """The gradient by logits, from the gradient by the largest probability of each row."""
    top = P.argmax(axis=1)
    s = P[np.arange(N), top]
    return (by_confidence * s)[:, None] * (np.eye(K)[top] - P)


def test_mmce_is_that_of_the_package_and_its_gradient_the_closed_form():
    weight, width = 2.0, 0.4
    s, correct = P.max(axis=1), (P.argmax(axis=1) == Y).astype(float)
    r, apart = correct - s, s[:, None] - s[None]
    kernel = np.exp(-np.abs(apart) / width)
    mmce = np.sqrt(r @ kernel @ r) / N
    by_kernel = r * ((-np.sign(apart) / width * kernel) @ r)
    by_confidence = (by_kernel - kernel @ r) / (mmce * N**2)
    value, gradient = value_and_gradient(MMCELoss(weight, width))
    entropy = -np.log(P[np.arange(N), Y]).mean()
    package = pb.maximum_mean_calibration_error(Y, P, width=width, lens=pb.TopLabel())
    assert value == pytest.approx(entropy + weight * float(package), rel=1e-12)
    expected = (P - ONE_HOT) / N + weight * confidence_slope(by_confidence)
    np.testing.assert_allclose(gradient, expected, atol=1e-13)


def test_soft_ece_and_its_gradient_have_their_closed_forms():
    weight, bins, temperature = 1.5, 7, 0.02
    s, correct = P.max(axis=1), (P.argmax(axis=1) == Y).astype(float)
    r, centres = correct - s, (np.arange(bins) + 0.5) / bins
    share = softmax(-((s[:, None] - centres) ** 2) / temperature)
    size, gaps = share.sum(axis=0), share.T @ r
    error = np.sqrt((gaps**2 / size).sum() / N)
    u = -2 * (s[:, None] - centres) / temperature
    by_share = share * (u - (share * u).sum(axis=1, keepdims=True))
    by_gaps = by_share * r[:, None] - share
    by_confidence = (2 * gaps / size * by_gaps - (gaps / size) ** 2 * by_share).sum(axis=1) / N
    value, gradient = value_and_gradient(SoftECELoss(weight, bins, temperature))
    assert value == pytest.approx(-np.log(P[np.arange(N), Y]).mean() + weight * error, rel=1e-12)
    expected = (P - ONE_HOT) / N + weight * confidence_slope(by_confidence / (2 * error))
    np.testing.assert_allclose(gradient, expected, atol=1e-13)


def test_soft_ece_with_sharp_bins_is_the_binned_error():
    """As the temperature falls, memberships become those of 15 equal bins."""
    value, _ = value_and_gradient(SoftECELoss(1.0, 15, 1e-9))
    entropy = -np.log(P[np.arange(N), Y]).mean()
    binned = pb.rms_calibration_error(Y, P, partition=pb.EqualWidth(15), debias=False)
    assert value - entropy == pytest.approx(float(binned), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FocalLoss(-1.0), r"`gamma`: must not be negative"),
        (lambda: FocalLoss([(0.2, 5.0)]), r"`gamma`: limits must increase .* and end at 1"),
        (lambda: FocalLoss([]), r"`gamma`: limits must increase"),
        (lambda: Focal(float("nan")).loss(), r"`gamma`: must not be negative"),
        (lambda: MMCELoss(-1), r"`weight`: must not be negative"),
        (lambda: MMCELoss(width=0), r"`width`: must be positive"),
        (lambda: SoftECELoss(bins=0), r"`bins`: must be at least 1"),
        (lambda: SoftECELoss(temperature=0), r"`temperature`: must be positive"),
    ],
)
def test_invalid_choices_are_refused(make, message):
    with pytest.raises(pb.InputError, match=message):
        make()
