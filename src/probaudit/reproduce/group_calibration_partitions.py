"""Yang et al. 2023, Figure 2 and Section 2.2: the composition of learned partitions, and whether
partitions from different starting points differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..calibrators.group_calibration import REFERENCE_PENALTY, GroupCalibration
from ..data.predictions import Predictions
from ..diagrams.composition import partition_composition_diagram
from ..diagrams.diagram import Diagram
from ..training.images import FASHION_CLASSES
from .group_calibration_protocol import HELD_OUT, Sets, titled
from .outcome import Claim, Outcome, Row
from .trained import Networks

GROUPS = 2
APART = 0.01  # of the rows: partitions that differ less count as one
COUNT, ROWS = "different partitions", "rows apart, %"
PAPER, RESAMPLED = "starting points only", "a resample each"
DISTINCT = "different initial values give distinct partitions (share of rows apart)"


def rows_apart(groups: np.ndarray) -> np.ndarray:
    """The share of rows that each pair of partitions into two groups puts apart, whatever the
    numbers of the groups; [partitions, partitions].

    >>> rows_apart(np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]])).tolist()
    [[0.0, 0.0, 0.25], [0.0, 0.0, 0.25], [0.25, 0.25, 0.0]]
    """
    different = (groups[:, None] != groups[None]).mean(axis=2)
    return np.minimum(different, 1 - different)


def count_different(apart: np.ndarray) -> int:
    """The number of partitions that are more than 1% of the rows apart from all kept before."""
    kept: list[int] = []
    for one in range(len(apart)):
        if all(apart[one, other] > APART for other in kept):
            kept.append(one)
    return len(kept)


def learned_partitions(
    networks: Networks, name: str, recipe: list[Any], variants: bool, rows: int, partitions: int
) -> Outcome:
    """How far partitions differ for several ways to learn them, and Figure 2.

    variants : whether to try other starting points, features and penalties too.
    """
    sets = Sets.trained(networks, recipe, rows, partitions)
    models = {PAPER: sets.learned(resample=False), RESAMPLED: sets.learned()}
    points = np.asarray(sets.test.features, np.float64)
    groups = {words: _groups(model, points) for words, model in models.items()}
    if variants:
        groups |= _variants(sets, points)
    numbers, apart = [], {}
    pairs = np.triu_indices(partitions, 1)
    for words, found in groups.items():
        apart[words] = rows_apart(found)
        smaller = np.minimum(found.mean(axis=1), 1 - found.mean(axis=1))
        for column, value, decimals in (
            (COUNT, float(count_different(apart[words])), 0),
            (ROWS, 100 * float(apart[words][pairs].mean()), 2),
            ("smaller group, % of rows", 100 * float(smaller.mean()), 1),
        ):
            numbers.append(Row(f"{name}, {words}", column, value, decimals=decimals))
    mean = float(apart[PAPER][pairs].mean())
    claim = Claim.above(APART, f"{name}: {DISTINCT}", "Section 2.2", mean)
    figures = {
        f"{words.replace(' ', '-')}-{k + 1}": _composition(name, sets, models[words], words, u)
        for words, model in models.items()
        for k, u in enumerate(_two_partitions(apart[words]))
    }
    return Outcome(tuple(numbers), (claim,), figures)


def _groups(model: GroupCalibration, points: np.ndarray) -> np.ndarray:
    return np.array([one.values for one in model.partitions(points)])


def _variants(sets: Sets, points: np.ndarray) -> dict[str, np.ndarray]:
    """Partitions that differ in their starting points only, learned in other ways."""
    size = GROUPS * points.shape[1]
    random = np.random.default_rng(0).uniform(-1, 1, (sets.partitions, GROUPS, points.shape[1]))
    far = 10 * random / np.sqrt(points.shape[1])
    choices: dict[str, dict[str, Any]] = {
        "starting points x 10": {"start": far},
        "with bias": {"bias": True},
        "λ = 0.1 of the whole norm (equation)": {"penalty": REFERENCE_PENALTY},
        "λ = 0.01 of the mean square": {"penalty": 0.01 / size},
        "λ = 0.001 of the mean square": {"penalty": 0.001 / size},
    }
    found = {
        words: _groups(sets.learned(resample=False, **choice), points)
        for words, choice in choices.items()
    }
    features = np.asarray(sets.validation.features, np.float64)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    scaled = np.divide(1.0, deviation, where=deviation > 0, out=np.zeros_like(deviation))
    standard = replace(
        sets, validation=replace(sets.validation, features=(features - mean) * scaled)
    )
    model = standard.learned(resample=False)
    return found | {"standardised features": _groups(model, (points - mean) * scaled)}


def _two_partitions(apart: np.ndarray) -> tuple[int, ...]:
    """The two partitions that are furthest apart; one, if all are the same."""
    first, second = np.unravel_index(apart.argmax(), apart.shape)
    return (int(first), int(second)) if apart.max() > APART else (0,)


def _composition(
    name: str, sets: Sets, model: GroupCalibration, words: str, partition: int
) -> Diagram:
    """The classes of the groups in the test rows, with temperatures fitted to the first 10%."""
    rows = sets.test
    fitted = rows.take(np.arange(round(HELD_OUT * len(rows))))
    model.fit_calibrators(fitted.probs, fitted.codes, features=fitted.features)
    names = np.array(FASHION_CLASSES)
    named = Predictions(
        names[rows.codes],
        rows.probs,
        classes=FASHION_CLASSES,
        features=rows.features,
        from_logits=True,
    )
    drawn = partition_composition_diagram(named, groups=model, partition=partition)
    return titled(drawn, f"{name}, {words}: partition {partition + 1}")
