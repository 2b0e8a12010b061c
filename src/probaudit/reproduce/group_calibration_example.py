"""Yang et al. 2023, Figure 1 and Section 3.2: a problem of two classes whose recalibrated outputs
are wrong in groups of the original classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..calibration.errors import calibration_error, partitioned_calibration_error
from ..calibrators.isotonic import IsotonicCalibration
from ..calibrators.temperature import TemperatureScaling
from ..choices.lenses import TopLabel
from ..data.predictions import Predictions
from ..diagrams.aligned import AlignedReliability
from ..diagrams.diagram import Diagram
from ..diagrams.reliability import reliability_diagram
from ..estimate import Estimate
from .group_calibration_protocol import Sets, split_difference, split_mean, titled, with_groups
from .group_calibration_tables import RESAMPLED
from .outcome import Claim, Outcome, Row, mean_estimate
from .printed_values import row_beside
from .trained import Networks, Recipe

POSITIVE = range(5)
GROUPS = {"G1": (0, 1, 2, 5, 6, 7), "G2": (3, 4, 8, 9)}  # of the original classes, by the paper
TOP = TopLabel()
TRUE, PREDICTED, DRAWN = "by true class", "by predicted class", "by true class, labels drawn"
SOURCES = {TRUE: "Figure 1c, d", PREDICTED: "here", DRAWN: "control"}
OWN_PCE = "PCE in resampled partitions"
GAP = "confidence minus accuracy"


def two_classes(rows: Predictions) -> Predictions:
    """The sum of the probabilities of classes 0 to 4 against the others, as logits."""
    z = np.asarray(rows.probs, np.float64)
    positive = np.isin(np.arange(z.shape[1]), POSITIVE)
    logits = np.column_stack([logsumexp(z[:, part], axis=1) for part in (~positive, positive)])
    y = np.isin(rows.codes, POSITIVE).astype(int)
    return Predictions(y, logits, features=rows.features, from_logits=True)


def figure_1(networks: Networks, recipe: list[Any]) -> Outcome:
    """Isotonic regression, fitted to the test labels, and its error in groups of original classes.

    A partition by the true class is not a partition of inputs. As a control, labels are drawn from
    the model's own probabilities, which are then the true ones.
    """
    rows = networks.outputs(Recipe(*recipe), "test")
    binary = two_classes(rows)
    y, raw = binary.codes, binary.probabilities()
    fit = IsotonicCalibration(finite=False).fit(raw, y)
    p = fit.predict_proba(raw)
    scaled = TemperatureScaling(from_logits=True).fit(rows.probs, rows.codes)
    truth = scaled.predict_proba(rows.probs)
    drawn = (truth.cumsum(axis=1) > np.random.default_rng(0).random((len(y), 1))).argmax(axis=1)
    perfect = _positive_share(truth)
    cases = {
        TRUE: (rows.codes, p, y),
        PREDICTED: (np.asarray(rows.probs).argmax(axis=1), p, y),
        DRAWN: (drawn, perfect, np.isin(drawn, POSITIVE).astype(int)),
    }
    gaps = {
        (case, group): _overconfidence(q[inside], labels[inside])
        for case, (classes, q, labels) in cases.items()
        for group, members in GROUPS.items()
        for inside in [np.isin(classes, members)]
    }
    errors = {
        name: float(calibration_error(y, q, lens=TOP))
        for name, q in (("original", raw), ("isotonic regression", p))
    }
    numbers = [Row(name, "ECE", error, decimals=4) for name, error in errors.items()]
    numbers += [
        Row(f"{group} {case}", GAP, float(gap), low=gap.low, high=gap.high, decimals=4)
        for (case, group), gap in gaps.items()
    ]
    claims = [
        Claim.below(
            0.1,
            "isotonic regression leaves nearly no ECE (share of the ECE before)",
            "Figure 1b",
            errors["isotonic regression"] / errors["original"],
        ),
        *(
            _not_zero(f"{group} {case}: confidence and accuracy differ", SOURCES[case], gap)
            for (case, group), gap in gaps.items()
        ),
    ]
    whole = {"(a) original": (y, raw), "(b) isotonic": (y, p)}
    parts = {
        f"({letter}) {group}": (y[inside], p[inside])
        for letter, (group, members) in zip("cd", GROUPS.items(), strict=True)
        for inside in [np.isin(rows.codes, members)]
    }
    figures = {
        "whole": _reliability(whole, "Before and after isotonic regression"),
        "groups": _reliability(parts, "After isotonic regression, in groups of true classes"),
    }
    notes = (
        "Classes 0 to 4 are positive. The outputs are sums of those of a network for ten classes;"
        " the paper trains one for two.",
        "The true class is not a function of the input, so a partition by it is not one of inputs"
        " (Definition 1). In the control, labels are drawn from the model's own probabilities, so"
        " that the model is perfect; a difference there is not an error of the model.",
    )
    return Outcome(tuple(numbers), tuple(claims), figures, notes)


def _not_zero(statement: str, source: str, gap: Estimate) -> Claim:
    """The claim that an estimate is not 0. It is undecided if the interval contains 0."""
    holds = True if gap.low > 0 or gap.high < 0 else None
    return Claim(statement, source, float(gap), gap.low, gap.high, holds)


def _reliability(of: Mapping[str, tuple[np.ndarray, np.ndarray]], title: str) -> Diagram:
    each = tuple(reliability_diagram(*one, lens=TOP, bins=15) for one in of.values())
    return titled(AlignedReliability(tuple(of), each, "the predicted class"), title)


def _positive_share(p: np.ndarray) -> np.ndarray:
    positive = p[:, list(POSITIVE)].sum(axis=1)
    return np.column_stack([1 - positive, positive])


def _overconfidence(p: np.ndarray, y: np.ndarray) -> Estimate:
    """Mean confidence minus accuracy."""
    return mean_estimate(p.max(axis=1) - (p.argmax(axis=1) == y))


def section_3_2(
    networks: Networks, recipe: list[Any], splits: int, rows: int, partitions: int
) -> Outcome:
    """ECE, and PCE in the learned partitions, of temperature scaling and group calibration on the
    problem of Figure 1."""
    whole = Sets.trained(networks, recipe, rows, partitions)
    sets = Sets(two_classes(whole.validation), two_classes(whole.test), partitions)
    models = {"GC+TS": sets.learned(resample=False), f"GC+TS {RESAMPLED}": sets.learned()}

    def partitioned(name: str, test: Predictions) -> float:
        return float(
            partitioned_calibration_error(
                test, partitions=models[name].partitions(test.features), lens=TOP
            )
        )

    metrics = {
        "ECE": partial(calibration_error, lens=TOP),
        "PCE": partial(partitioned, "GC+TS"),
        OWN_PCE: partial(partitioned, f"GC+TS {RESAMPLED}"),
    }
    methods = {"TS": TemperatureScaling()} | {name: with_groups(m) for name, m in models.items()}
    found = sets.splits(methods, splits, metrics=metrics)
    numbers = tuple(
        row_beside(
            "group_calibration",
            "Section 3.2",
            method,
            metric,
            split_mean(found, method, metric),
            decimals=4,
        )
        for method in methods
        for metric in metrics
    )
    claims = [
        Claim.below(
            0.0,
            f"{method} has a lower {metric} than TS (x 1,000)",
            "Section 3.2" if method == "GC+TS" else "here",
            split_difference(found, method, "TS", metric, 1000),
        )
        for method, metric in (
            ("GC+TS", "ECE"),
            ("GC+TS", "PCE"),
            (f"GC+TS {RESAMPLED}", "ECE"),
            (f"GC+TS {RESAMPLED}", OWN_PCE),
        )
    ]
    notes = ("PCE is the mean over the learned partitions; each has two groups.",)
    return Outcome(numbers, tuple(claims), notes=notes)
