"""Corruptions of images, in five severities as in ImageNet-C (Hendrycks & Dietterich 2019)."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from ..text import listed

# One amount per severity: degrees; standard deviation of noise; factor; standard deviation in
# pixels of 28x28 images (larger images are blurred in proportion).
AMOUNTS = {
    "rotation": (10.0, 20.0, 30.0, 45.0, 60.0),
    "noise": (0.1, 0.2, 0.3, 0.4, 0.5),
    "darkening": (0.7, 0.5, 0.35, 0.25, 0.15),
    "blur": (0.6, 0.9, 1.2, 1.6, 2.0),
}


def corrupt(images: np.ndarray, kind: str, severity: int = 3, *, seed: int = 0) -> np.ndarray:
    """Corrupted copies of images.

    images : [n, height, width] or [n, channels, height, width], with values in [0, 1].
    kind : "rotation" (by the amount, to a random side), "noise" (Gaussian), "darkening" (a factor)
        or "blur" (Gaussian).
    severity : 1 to 5; the amounts are in `AMOUNTS`.
    seed : of the sides of rotation and of the noise.

    >>> corrupt(np.ones((1, 4, 4)), "darkening", severity=2)[0, 0]
    array([0.5, 0.5, 0.5, 0.5])
    """
    images = np.asarray(images)
    if kind not in AMOUNTS:
        raise InputError("kind", f"must be one of {listed(list(AMOUNTS))}", repr(kind))
    if severity not in range(1, 6):
        raise InputError("severity", "must be 1, 2, 3, 4 or 5", severity)
    if images.ndim not in (3, 4) or images.dtype.kind != "f":
        rule = "must be floats [n, height, width] or [n, channels, height, width]"
        raise InputError("images", rule, f"{images.dtype} of shape {images.shape}")
    if images.size and not (images.min() >= 0 and images.max() <= 1):
        found = f"{images.min():g} to {images.max():g}"
        raise InputError("images", "values must lie in [0, 1]", found)
    amount, random = AMOUNTS[kind][severity - 1], np.random.default_rng(seed)
    if kind == "darkening":
        return (images * amount).astype(images.dtype)
    if kind == "noise":
        noise = random.normal(0, amount, images.shape)
        return np.clip(images + noise, 0, 1).astype(images.dtype)
    if kind == "blur":
        from scipy.ndimage import gaussian_filter

        width = amount * images.shape[-1] / 28
        still = (0.0,) * (images.ndim - 2)
        return np.clip(gaussian_filter(images, (*still, width, width)), 0, 1)
    return _rotated(images, amount * random.choice([-1, 1], len(images)))


def _rotated(images: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    from scipy.ndimage import rotate

    axes = (images.ndim - 3, images.ndim - 2)  # of one image
    turned = np.empty_like(images)
    for image, angle, out in zip(images, degrees, turned, strict=True):
        rotate(image, angle, axes, reshape=False, output=out, order=1)
    return turned
