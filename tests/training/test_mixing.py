"""Mix-up of batches."""

from __future__ import annotations

import pytest

import probaudit as pb

torch = pytest.importorskip("torch", reason="torch is not installed")

from probaudit.training import mix_up  # noqa: E402

INPUTS = torch.arange(24.0).reshape(6, 1, 2, 2)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_rows_are_weighted_means_with_their_labels():
    batch = mix_up(INPUTS, LABELS, 0.4, seeded(1))
    found = []
    for row, label in zip(batch.inputs, batch.partners, strict=True):
        place = len(found)
        # the inputs are distinct, so the partner can be computed from the mixed row
        other = (row - batch.share * INPUTS[place]) / (1 - batch.share)
        partner = int((INPUTS - other).abs().amax(dim=(1, 2, 3)).argmin())
        torch.testing.assert_close(INPUTS[partner], other)
        assert LABELS[partner] == label
        found.append(partner)
    assert sorted(found) == list(range(6))
    assert torch.equal(batch.labels, LABELS)


def test_alpha_zero_mixes_nothing():
    batch = mix_up(INPUTS, LABELS, 0)
    assert batch.inputs is INPUTS
    assert batch.share == 1
    logits = torch.randn(6, 3, generator=seeded(0))
    loss = torch.nn.CrossEntropyLoss()
    assert batch.loss(loss, logits) == loss(logits, LABELS)


@pytest.mark.parametrize("seed", range(8))
def test_alpha_towards_zero_leaves_the_rows_of_the_batch(seed):
    """The share tends to 0 or 1: the batch has the same rows and labels, perhaps in another
    order."""
    batch = mix_up(INPUTS, LABELS, 1e-9, seeded(seed))
    assert batch.share in (0, 1)
    labels = batch.labels if batch.share else batch.partners
    order = batch.inputs[:, 0, 0, 0].argsort()
    assert torch.equal(batch.inputs[order], INPUTS)
    assert torch.equal(labels[order], LABELS)
    logits = torch.randn(6, 3, generator=seeded(9))
    loss = torch.nn.CrossEntropyLoss()
    torch.testing.assert_close(batch.loss(loss, logits), loss(logits, labels))


def test_shares_follow_a_beta_distribution():
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2a + 1))."""
    random, alpha = seeded(0), 0.3
    shares = torch.tensor([mix_up(INPUTS, LABELS, alpha, random).share for _ in range(4000)])
    assert shares.mean().item() == pytest.approx(0.5, abs=0.03)
    assert shares.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.05)


def test_a_generator_repeats_the_batch():
    first, second = (mix_up(INPUTS, LABELS, 0.2, seeded(5)) for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
    assert first.share == second.share


def test_negative_alpha_is_refused():
    with pytest.raises(pb.InputError, match=r"`alpha`: must not be negative \(found: -1\)"):
        mix_up(INPUTS, LABELS, -1)
