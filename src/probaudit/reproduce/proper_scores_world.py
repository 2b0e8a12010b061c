"""The simulated samples of Ferrer & Ramos 2025, regenerated."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..simulate import GaussianPosteriors, gaussian_systems

# The order in which the authors' code makes folds; it ignores the second group of six later on.
FOLD_ORDER = (
    *((system, method) for system in ("cal", "mcp") for method in "DTH"),
    *(("unused", method) for method in "DTHDTH"),
    *((system, method) for system in ("mcs", "mcps") for method in "DTH"),
)


@dataclass(frozen=True, eq=False)
class PublishedWorld:
    """A sample, and the five stratified folds of each system and calibrator: D direction-preserving
    calibration, T temperature scaling, H histogram binning."""

    sample: GaussianPosteriors
    generator: np.random.RandomState  # as the sample left it

    @functools.cached_property
    def folds(self) -> dict[tuple[str, str], np.ndarray]:
        """The fold of each row, by system and calibrator."""
        from sklearn.model_selection import StratifiedKFold

        y = self.sample.y
        splitter = StratifiedKFold(5, shuffle=True, random_state=self.generator)
        found = {}
        for key in FOLD_ORDER:
            if len(self.sample.priors) > 2 and key[1] == "H":
                continue
            found[key] = np.empty(len(y), np.int64)
            for number, (_, test) in enumerate(splitter.split(y, y)):
                found[key][test] = number
        return found

    def system(self, name: str) -> np.ndarray:
        found: np.ndarray = getattr(self.sample, name)
        return found


def published_world(
    n: int,
    classes: int = 2,
    *,
    prior: float = 0.8,
    variance: float = 0.15,
    scale: float = 5.0,
) -> PublishedWorld:
    """The sample of the paper for these parameters (Appendix C), to the last digits.

    The authors' code draws with numpy's legacy generator and seed 0, class after class. The
    number of rows of each class is truncated, so that 400 becomes 399. The same generator then
    makes the folds.

    >>> world = published_world(400)
    >>> len(world.sample.y), world.sample.cal[0].round(4).tolist()
    (399, [0.9993, 0.0007])
    """
    rng = np.random.RandomState(0)
    priors = np.array([prior] + [(1 - prior) / (classes - 1)] * (classes - 1))
    counts = (priors * n).astype(int)
    means = np.sqrt(0.5) * np.eye(classes)
    x = np.concatenate(
        [
            mean + np.sqrt(variance) * rng.standard_normal((count, classes))
            for mean, count in zip(means, counts, strict=True)
        ]
    )
    y = np.repeat(np.arange(classes), counts)
    sample = gaussian_systems(y, x, means, priors, variance, scale, wrong_prior=0.9)
    return PublishedWorld(sample, rng)
