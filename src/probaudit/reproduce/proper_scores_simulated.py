"""Ferrer & Ramos 2025 on simulated data: Figures 1 and 4 to 7, and Table 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..calibration.errors import calibration_error
from ..calibrators.base import Calibrator
from ..calibrators.binning import HistogramBinning
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.temperature import DirectionPreserving, TemperatureScaling
from ..choices.lenses import Binary, TopLabel
from ..choices.partitions import Edges
from ..choices.scores import Brier, Cost, Log, RiskWeighted
from ..diagrams.picture import Axis, Line, Panel, Picture, Points
from ..diagrams.risk import RiskCurves
from ..estimate import Estimate
from ..scoring.proper_scores import bayes_risk, brier_score, log_score
from ..scoring.risk_curve import risk_curve
from .outcome import Claim, Outcome, Row
from .printed_values import row_beside
from .proper_scores_world import PublishedWorld, published_world
from .stored_diagram import StoredDiagram

SYSTEMS = ("cal", "mcs", "mcp", "mcps")
SAME = 0.002  # largest difference of a score on the same sample: another optimiser, float32
SAME_POINTS = 0.05  # the same for percentages
BINS = Edges(np.linspace(0, 1, 16), right=True)  # (low, high], as in the authors' code
beside = partial(row_beside, "proper_scores")


def methods() -> dict[str, Calibrator]:
    """D, T and H of the paper. An empty bin of H gives 0, as in the authors' code."""
    return {
        "D": DirectionPreserving(),
        "T": TemperatureScaling(),
        "H": HistogramBinning(empty=0.0),
    }


def overall(y: Any, p: Any, **options: Any) -> dict[str, Estimate]:
    """The normalised scores of Figures 5 and 6 and of Table 2."""
    classes = p.shape[1]
    costs = {
        "NRisk-01": Cost.zero_one(classes),
        "NRisk-01r": Cost.zero_one(classes, reject=0.1),
        "NRisk-imb": Cost.imbalanced(classes),
    }
    risks = {
        name: bayes_risk(y, p, cost, normalize=True, **options) for name, cost in costs.items()
    }
    return risks | {
        "NCE": log_score(y, p, normalize=True, **options),
        "NBS": brier_score(y, p, normalize=True, **options),
    }


def binned_errors(y: Any, p: Any, **options: Any) -> dict[str, float]:
    """ECE of the second of two classes, and of the most probable class, in percent."""
    found = {"ECEmc": calibration_error(y, p, lens=TopLabel(), partition=BINS, **options)}
    if p.shape[1] == 2:
        found["ECE"] = calibration_error(y, p, lens=Binary(), partition=BINS, **options)
    return {name: 100 * float(value) for name, value in found.items()}


def loss_of(world: PublishedWorld, system: str, metric: str) -> CalibrationLoss:
    """The calibration loss behind a name such as RCL-BS-Dxv: the score, the calibrator, and whether
    it is cross-validated (xv) or trained on the test rows (tt)."""
    _, score, how = metric.split("-")
    y, p = world.sample.y, world.system(system)
    options: dict[str, Any] = {"score": {"BS": "brier", "CE": "log"}[score], "interval": None}
    if how.endswith("tt"):
        options |= {"train": (y, p)}
    else:
        options |= {"cv": world.folds[system, how[0]]}
    return calibration_loss(y, p, calibrator=methods()[how[0]], **options)


def figure_1(points: int) -> Outcome:
    """Losses of the two classes against the probability q_2 of the second."""
    q = np.linspace(0.001, 0.999, points)
    p = np.column_stack([1 - q, q])
    cost = Cost(np.array([[0.0, 1.0], [2.0, 0.0]]))
    titles = {"cost 1 and 2": cost, "log loss": Log(), "Brier loss": Brier()}
    panels, columns = [], {"q_2": q}
    for title, score in titles.items():
        lines = []
        for k in (0, 1):
            # the Brier loss of Eq. 9 is a mean over classes, ours a sum
            loss = score.score(p, np.full(points, k)) / (2 if title == "Brier loss" else 1)
            columns[f"{title}, class {k + 1}"] = loss
            name = f"rows of class {k + 1}" if title == "cost 1 and 2" else ""
            lines.append(Line(q, loss, role=f"series {k}", name=name))
        panels.append(Panel(tuple(lines), Axis("q_2", 0, 1), Axis("loss", low=0), title=title))
    threshold = float(q[np.flatnonzero(np.diff(columns["cost 1 and 2, class 2"]))[0] + 1])
    brier = columns["Brier loss, class 1"]
    rows = (
        Row("threshold of the cost", "value", threshold, 1 / 3, "Figure 1", tolerance=2 / points),
        Row("largest Brier loss", "value", float(brier.max()), 1.0, "Section 3.1", tolerance=0.002),
    )
    picture = Picture(
        tuple(panels),
        "Three proper scoring rules",
        "Loss of each class against the probability of the second class: a cost matrix, the log"
        " loss and the Brier loss.",
        "The threshold of the costs is 1 / (1 + 2). Only the log loss is unbounded.",
        columns=3,
    )
    note = (
        "The Brier loss is that of Eq. 9, (1 − q)² for two classes, which the paper calls bounded"
        " by one. The authors' notebook of Figure 1 draws half of it."
    )
    return Outcome(rows, figures={"losses": StoredDiagram(picture, columns)}, notes=(note,))


def figure_4(n: int) -> Outcome:
    """Bayes risk curves of four systems, and the scores that are the areas below them."""
    under = published_world(n, prior=0.6, scale=0.48).sample
    over = published_world(n, prior=0.6, scale=2.0).sample
    hard = published_world(n, prior=0.6, variance=0.19).sample
    systems = {"cal": under.cal, "mcs-u": under.mcs, "mcs-o": over.mcs, "cal-h": hard.cal}
    y, thresholds = under.y, np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    rows = []
    for name, p in systems.items():
        found = {"NCE": log_score(y, p, normalize=True), "NBS": brier_score(y, p, normalize=True)}
        risks = risk_curve(y, p, thresholds=thresholds).risk
        found |= {f"risk at {t:g}": Estimate(r) for t, r in zip(thresholds, risks, strict=True)}
        rows += [
            beside("Figure 4", name, column, value, tolerance=SAME, source="Figure 4, its code")
            for column, value in found.items()
        ]
    curves = {
        name: risk_curve(y, p, thresholds=np.linspace(0.01, 0.99, 99))
        for name, p in systems.items()
    }
    scores = {row.row: row.ours for row in rows if row.column == "NCE"}
    figures = {
        name: RiskCurves.of_curves(
            curves, scores=scores, normalize=False, against="threshold", weight=weight
        )
        for name, weight in (("risk", None), ("weighted-risk", RiskWeighted(2.0, 2.0)))
    }
    nce = {row.row: row.ours for row in rows if row.column == "NCE"}
    nbs = {row.row: row.ours for row in rows if row.column == "NBS"}
    equal = ("mcs-u", "mcs-o", "cal-h")
    spread = max(nce[s] for s in equal) - min(nce[s] for s in equal)
    claims = (
        Claim.below(
            0.005,
            "mcs-u, mcs-o and cal-h have the same NCE (largest difference)",
            "Section 3.1",
            spread,
        ),
        Claim.below(
            0.0,
            "The miscalibrated mcs-o has a lower Brier score than the calibrated cal-h"
            " (difference in NBS)",
            "Section 3.1",
            nbs["mcs-o"] - nbs["cal-h"],
        ),
    )
    return Outcome(tuple(rows), claims, figures)


def system_scores(part: str, n: int, classes: int, variance: float) -> Outcome:
    """Figures 5 and 6, left: normalised scores of the four systems."""
    world = published_world(n, classes, variance=variance)
    rows = []
    for system in SYSTEMS:
        found = overall(world.sample.y, world.system(system))
        rows += [
            beside(part, system, name, value, tolerance=SAME, source=f"{part}, its code")
            for name, value in found.items()
        ]
    return Outcome(tuple(rows))


def system_errors(
    part: str, n: int, classes: int, variance: float, metrics: Sequence[str]
) -> Outcome:
    """Figures 5 and 6, right: calibration errors and relative calibration losses, in percent."""
    world = published_world(n, classes, variance=variance)
    rows = []
    for system in SYSTEMS:
        found = binned_errors(world.sample.y, world.system(system))
        found |= {m: 100 * float(loss_of(world, system, m).relative) for m in metrics}
        rows += [
            beside(
                part,
                system,
                name,
                value,
                tolerance=SAME_POINTS,
                source=f"{part}, its code",
                decimals=1,
            )
            for name, value in found.items()
        ]
    return Outcome(tuple(rows))


def table_1(sizes: Sequence[int], by_caption: bool) -> Outcome:
    """100 (CE_e - CE_se) / CE_e, with the semi-empirical CE_se of each reference posterior s.

    The authors' code first divides CE_e by the entropy of the class frequencies, and CE_se by that
    of the mean of s. The caption has no such step, and column T depends on it. Let z be the
    log-posteriors of the system and s = softmax(a z), where a minimises the empirical cross-entropy
    of s, mean(log sum_k exp(a z_k) - a z_y). Its derivative is zero at the minimum, so

        mean(sum_k s_k z_k) = mean(z_y).

    The left side is -CE_se and the right side -CE_e, so that by the caption T is exactly 0. The
    printed number is 100 (1 - H(class frequencies) / H(mean of s)). It is 28 or 29 for mcp and
    mcps, as a temperature cannot correct their priors. Trained on the test rows, D has a
    bias for each class and H the observed rates, so that the mean of s is the class frequencies,
    and the normalisers are equal.

    by_caption : without the normalisers.
    """
    worlds = {n: published_world(n) for n in sizes}
    rows = []
    for system in SYSTEMS:
        for n, world in worlds.items():
            column = f"{system}, N = {n:,}"
            for name, found in _references(world, system).items():
                value = found["caption" if by_caption else "printed"]
                tolerance = math.nan if by_caption else 0.5
                one = beside("Table 1", name, column, value, tolerance=tolerance, decimals=0)
                rows.append(one)
    if not by_caption:
        return Outcome(tuple(rows))
    claim = Claim.below(
        0.01,
        "By the formula of the caption, T trained on the test rows is 0 in every column (largest"
        " absolute value)",
        "Table 1",
        max(abs(row.ours) for row in rows if row.row == "Ttt"),
    )
    return Outcome(tuple(rows), (claim,))


def _references(world: PublishedWorld, system: str) -> dict[str, Mapping[str, float]]:
    """The relative difference for each reference posterior, normalised as in the authors' code
    (printed) and not (caption)."""
    y, log, q = world.sample.y, Log(), world.system(system)
    truth = world.sample.cal
    semi = float((log.divergence(truth, q) + log.entropy(truth)).mean())
    cases = {"true": (truth, semi)}
    for method in "DTH":
        for how in ("tt", "xv"):
            found = loss_of(world, system, f"RCL-CE-{method}{how}")
            cases[method + how] = (found.posteriors, found.semi_empirical)
    empirical = float(log.score(q, y).mean())
    frequencies = float(log.entropy(np.bincount(y) / len(y)))

    def relative(posteriors: np.ndarray, semi: float) -> dict[str, float]:
        own = float(log.entropy(posteriors.mean(axis=0)))
        return {
            "printed": 100 * (1 - semi / own * frequencies / empirical),
            "caption": 100 * (1 - semi / empirical),
        }

    return {name: relative(*case) for name, case in cases.items()}


def figure_7(points: int) -> Outcome:
    """The expected divergence of posteriors s from a fixed q_0: its minimum is at the mean of s for
    a score divergence (Appendix B)."""
    s = published_world(12, prior=0.6).sample.cal
    grid = np.linspace(0, 1, points + 2)[1:-1]
    fixed = np.stack([grid, 1 - grid], axis=1)
    many, one = s[:, None], fixed[None]
    distance = np.abs(many - one)
    divergences = {
        "L1 of one posterior": distance[..., 0].mean(axis=0),
        "L1": distance.sum(axis=2).mean(axis=0),
        "L2": ((many - one) ** 2).sum(axis=2).mean(axis=0),
        "KL": (many * np.log(many / one)).sum(axis=2).mean(axis=0),
    }
    mean, step = float(s[:, 0].mean()), 1 / (points + 1)
    panels, claims = [], []
    for name, values in divergences.items():
        away = float(abs(grid[values.argmin()] - mean))
        proper = name in ("L2", "KL")
        words = "is at" if proper else "is not at"
        rule = Claim.below if proper else Claim.above
        claims.append(
            rule(
                step,
                f"The minimum of the expected {name} {words} the mean posterior (distance)",
                "Figure 7",
                away,
            )
        )
        marks = (
            Line(grid, values, role="observed"),
            Points(np.array([mean]), np.array([values.min()]), role="over", name="mean posterior"),
        )
        panels.append(Panel(marks, Axis("q_01", 0, 1), Axis("expected divergence"), title=name))
    picture = Picture(
        tuple(panels),
        "Which divergences are least at the mean?",
        "Expected divergence from a fixed posterior. The minima of L2 and KL are at the mean"
        " posterior, those of L1 are not.",
        f"The point is the mean of the first posterior, {mean:.3f}, at the height of the minimum.",
        columns=2,
    )
    columns = {"q_01": grid} | divergences
    return Outcome((), tuple(claims), {"divergences": StoredDiagram(picture, columns)})
