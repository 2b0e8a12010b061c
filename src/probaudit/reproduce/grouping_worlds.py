"""Perez-Lebel et al. 2023, Appendix B: calibrated classifiers with a high grouping loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..choices.lenses import Binary
from ..diagrams.grouping import GroupingDiagram
from ..estimate import Estimate
from ..grouping.loss import grouping_loss
from ..simulate import GroupedWorld, linked_scores, neural_outputs
from .grouping_diagrams import WorldDiagram
from .outcome import Claim, Outcome, Row, mean_estimate

DRAWN = 500  # rows in a figure
CALIBRATED = 0.05  # a calibration loss below this share of the grouping loss counts as none
Make = Callable[[int], GroupedWorld]


def _parabola(s: np.ndarray) -> np.ndarray:
    return 2 * s - s**2


def _steep(s: np.ndarray) -> np.ndarray:
    return np.minimum(1, 2 * s)


def _flat(s: np.ndarray) -> np.ndarray:
    """Half where decisions allow it: 2s up to 1/4, then 1/2, then 2s - 1 from 3/4."""
    return np.clip(2 * s, 0, 0.5) + np.clip(2 * s - 1.5, 0, 0.5)


def _half(s: np.ndarray) -> np.ndarray:
    return np.full_like(s, 0.5)


def _sure(s: np.ndarray) -> np.ndarray:
    return (s > 0.5) * 1.0


def _smooth(u: np.ndarray) -> np.ndarray:
    return np.tanh(1.5 * u)


# In Figures 11 and 12, w has length 1 and the variance along it is 10. The scores are those of
# w = (1, 1) with a variance of 5.
_sigmoid = partial(neural_outputs, spread=5.0)
LEFT, RIGHT = "left", "right"
WORLDS: dict[int, dict[str, Make]] = {
    9: {
        LEFT: partial(linked_scores, link=_parabola),
        RIGHT: partial(linked_scores, link=_steep),
    },
    10: {
        LEFT: partial(linked_scores, link=_flat),
        RIGHT: partial(linked_scores, link=_half, other=_sure),
    },
    11: {
        "smooth": partial(_sigmoid, perturbation=_smooth),
        "step": partial(_sigmoid, perturbation=np.sign),
    },
    12: {
        "smooth": partial(_sigmoid, perturbation=_smooth, accurate=True),
        "step": partial(_sigmoid, perturbation=np.sign, accurate=True),
    },
}
ACCURATE = (10, 12)


def worlds(figure: int, n: int, resamples: int) -> Outcome:
    """The two worlds of a figure: calibration, decisions and grouping loss of n rows."""
    rows, claims = [], []
    drawn: dict[str, dict[str, np.ndarray]] = {"feature": {}, "score": {}, "truth": {}, "curve": {}}
    for name, make in WORLDS[figure].items():
        world = make(n)
        found = grouping_loss(
            world.y, world.scores, world.features, lens=Binary(), resamples=resamples
        )
        decided = world.truth != 0.5
        right = ((world.scores > 0.5) == (world.truth > 0.5))[decided].astype(float)
        label = f"Figure {figure}, {name}"
        loss, bound = found.calibration_loss, found.lower_bound
        rows += [
            Row(label, "mean |truth − score|", float(np.abs(world.truth - world.scores).mean())),
            Row(label, "true grouping loss", world.grouping_loss, decimals=4),
            Row(label, "our lower bound", bound, low=bound.low, high=bound.high, decimals=4),
        ]
        optimal = figure in ACCURATE
        source = "Appendix B.1" if figure < 11 else "Appendix B.2"
        words = f"{label}: decisions are {'' if optimal else 'not '}optimal (share)"
        share = mean_estimate(right)
        holds = Claim.above(1 - 1e-12, words, source, float(share))
        claims += [
            Claim.below(
                CALIBRATED,
                f"{label}: scores are calibrated (calibration / grouping loss)",
                source,
                _ratio(loss, world.grouping_loss),
            ),
            holds if optimal else Claim.below(1.0, words, source, share),
            Claim.above(
                0.0,
                f"{label}: grouping loss is detected (our bound / true loss)",
                source,
                _ratio(bound, world.grouping_loss),
            ),
        ]
        diagram = GroupingDiagram.of_grouping(found)
        feature = world.features[:DRAWN, 0] if figure < 11 else _across(world)
        drawn["feature"][label] = feature
        drawn["score"][label] = world.scores[:DRAWN]
        drawn["truth"][label] = world.truth[:DRAWN]
        drawn["curve"][label] = np.stack([diagram.stated, diagram.observed])
    axis = "feature x" if figure < 11 else "feature across the weights"
    shown = WorldDiagram(**drawn, axis=axis, title=f"As Figure {figure}", gap=figure > 10)
    return Outcome(tuple(rows), tuple(claims), {"worlds": shown})


def _across(world: GroupedWorld) -> np.ndarray:
    """The direction that scores do not depend on."""
    return np.asarray((world.features[:DRAWN, 1] - world.features[:DRAWN, 0]) / np.sqrt(2))


def _ratio(value: Estimate, to: float) -> Estimate:
    return Estimate(value / to, low=value.low / to, high=value.high / to)
