"""Ferrer & Ramos 2025, Figure 8: bootstrap intervals, of independent rows and by group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..calibration.resampling import draw_units, percentile
from ..calibrators.calibration_loss import calibration_loss
from ..choices.scores import Brier
from ..estimate import Estimate
from ..scoring.proper_scores import brier_score
from .outcome import Claim, Outcome, Row
from .proper_scores_simulated import SAME, SAME_POINTS, SYSTEMS, beside, methods
from .proper_scores_world import PublishedWorld, published_world


def figure_8(n: int, metrics: Sequence[str], resamples: int) -> Outcome:
    """Bootstrap intervals of NBS or of relative calibration losses, in percent. Calibrators are
    refitted to each resample, and copies of a row stay in one fold (Appendix E)."""
    world = published_world(n)
    draws, rows = draw_units(len(world.sample.y), resamples, 0), []
    for system in SYSTEMS:
        for metric in metrics:
            if metric == "NBS":
                value, scale = _nbs(world, system, draws), 1
            else:
                value, scale = _relative_loss(world, system, metric, draws), 100
            rows.append(
                beside(
                    "Figure 5",
                    system,
                    metric,
                    Estimate(scale * float(value), low=scale * value.low, high=scale * value.high),
                    tolerance=SAME if scale == 1 else SAME_POINTS,
                    source="Figures 5 and 8, their code",
                    decimals=3 if scale == 1 else 1,
                )
            )
    return Outcome(tuple(rows))


def figure_8_by_group(n: int, copies: int, resamples: int) -> Outcome:
    """The intervals of Figure 8 for dependent rows, as of one speaker: each row is copied, and the
    copies are a group. Resampling groups gives the interval of the original rows; resampling rows
    gives one that is too narrow by the square root of the number of copies."""
    world = published_world(n)
    groups = np.repeat(np.arange(len(world.sample.y)), copies)
    y, rows, ratios = world.sample.y[groups], [], []
    for system in SYSTEMS:
        p = world.system(system)[groups]
        widths = {}
        for name, clusters in (("by group", groups), ("by row", None)):
            found = calibration_loss(
                y,
                p,
                score="brier",
                cv=world.folds[system, "D"][groups],
                interval="bootstrap",
                resamples=resamples,
                clusters=clusters,
            )
            for column, value in (("BS", found.raw), ("RCL-BS-Dxv", found.relative)):
                scale = 1 if column == "BS" else 100
                rows.append(
                    Row(
                        f"{system}, {name}",
                        column,
                        scale * float(value),
                        low=scale * value.low,
                        high=scale * value.high,
                        decimals=3,
                    )
                )
            widths[name] = found.raw.high - found.raw.low
        ratios.append(widths["by group"] / widths["by row"])
    claim = Claim.above(
        1.5,
        f"With {copies} copies of each row, intervals by group are wider than intervals by row"
        " (smallest ratio of widths of the Brier score)",
        "Appendix E: sample by whatever introduces correlation",
        min(ratios),
    )
    return Outcome(tuple(rows), (claim,))


def _nbs(world: PublishedWorld, system: str, draws: np.ndarray) -> Estimate:
    y, p = world.sample.y, world.system(system)
    value = brier_score(y, p, normalize=True)
    resampled = [float(brier_score(y, p, normalize=True, sample_weight=w)) for w in draws]
    low, high = percentile(np.array(resampled))
    return Estimate(float(value), low=low, high=high)


def _relative_loss(world: PublishedWorld, system: str, metric: str, draws: np.ndarray) -> Estimate:
    """The relative loss with a bootstrap interval. `calibration_loss` refits cross-validated
    calibrators to resamples; those trained on the test rows are refitted here."""
    how = metric.split("-")[2]
    y, p, calibrator = world.sample.y, world.system(system), methods()[how[0]]
    if how.endswith("xv"):
        return calibration_loss(
            y,
            p,
            calibrator=calibrator,
            score="brier",
            cv=world.folds[system, how[0]],
            interval="bootstrap",
            resamples=len(draws),
        ).relative
    before = Brier().score(p, y)

    def relative(weights: np.ndarray) -> float:
        after = Brier().score(calibrator.fit(p, y, sample_weight=weights).predict_proba(p), y)
        return 1 - float(weights @ after) / float(weights @ before)

    low, high = percentile(np.array([relative(weights) for weights in draws]))
    return Estimate(relative(np.ones(len(y))), low=low, high=high)
