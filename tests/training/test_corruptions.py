"""Corruptions of images."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.training import AMOUNTS, corrupt

IMAGES = np.random.default_rng(0).uniform(size=(6, 1, 28, 28)).astype(np.float32)


@pytest.mark.parametrize("kind", AMOUNTS)
@pytest.mark.parametrize("shape", [(6, 28, 28), (2, 3, 28, 28)])
def test_corruptions_keep_shape_type_and_range(kind, shape):
    images = IMAGES.reshape(shape)
    found = corrupt(images, kind, 5)
    assert found.shape == shape
    assert found.dtype == np.float32
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("kind", AMOUNTS)
def test_the_distance_grows_with_severity(kind):
    """For smooth images, as rotations of noise are all equally far."""
    line = np.linspace(0, 1, 28, dtype=np.float32)
    images = np.stack([line[:, None] ** 2 * line, (line[:, None] > 0.5) * line]).astype(np.float32)
    moved = [np.abs(corrupt(images, kind, s) - images).mean() for s in range(1, 6)]
    assert moved == sorted(moved)
    assert moved[0] > 0


def test_darkening_and_noise_have_their_amounts():
    np.testing.assert_allclose(corrupt(IMAGES, "darkening", 4), IMAGES * 0.25)
    grey = np.full((50, 28, 28), 0.5)
    assert corrupt(grey, "noise", 1).std() == pytest.approx(0.1, rel=0.02)


def test_blur_spreads_one_pixel_as_a_gaussian():
    """The variance of a blurred point is that of the Gaussian, along each axis."""
    point = np.zeros((1, 1, 29, 29))
    point[0, 0, 14, 14] = 1
    found = corrupt(point, "blur", 5)[0, 0]
    places = np.arange(29) - 14
    assert found.sum() == pytest.approx(1)
    assert found.sum(axis=0) @ places**2 == pytest.approx((2.0 * 29 / 28) ** 2, rel=0.01)


def test_rotation_turns_the_image_to_both_sides():
    line = np.zeros((40, 28, 28))
    line[:, 13:15] = 1  # horizontal
    found = corrupt(line, "rotation", 4)  # 45 degrees
    falling = np.array([np.trace(image) for image in found])
    rising = np.array([np.trace(image[:, ::-1]) for image in found])
    assert {*np.sign(falling - rising)} == {-1, 1}
    assert np.maximum(falling, rising).min() > 15  # along a diagonal


def test_seeds_repeat():
    for kind in ("noise", "rotation"):
        first, same, other = (corrupt(IMAGES, kind, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, same)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("images", "kind", "severity", "message"),
    [
        (IMAGES, "fog", 3, r"`kind`: must be one of rotation, noise, darkening, blur"),
        (IMAGES, "noise", 6, r"`severity`: must be 1, 2, 3, 4 or 5 \(found: 6\)"),
        (IMAGES * 255, "noise", 3, r"`images`: values must lie in \[0, 1\]"),
        (np.zeros((28, 28)), "noise", 3, r"`images`: must be floats \[n, height, width\]"),
        (np.zeros((2, 28, 28), int), "noise", 3, r"`images`: must be floats"),
    ],
)
def test_invalid_arguments_are_refused(images, kind, severity, message):
    with pytest.raises(pb.InputError, match=message):
        corrupt(images, kind, severity)
