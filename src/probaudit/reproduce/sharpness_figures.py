"""Chidambaram & Ge 2024, Figures 1, 2, 6 and 7: calibration-sharpness diagrams of recalibrated
networks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..calibration.paired import KERNEL_WIDTH, ResampledError, Resamples, smoothed_errors
from ..choices.lenses import TopLabel
from ..choices.scores import Brier
from ..data.predictions import Predictions
from ..diagrams.reliability import reliability_diagram
from ..diagrams.sharpness import calibration_sharpness_diagram
from ..estimate import Estimate
from .outcome import Claim, Outcome, Row
from .sharpness_aligned import AlignedSharpness
from .sharpness_tables import WORDS, recalibrated


def diagrams(rows: Predictions, name: str, share: float, resamples: int) -> Outcome:
    """The original network, temperature scaling and mean replacement (Figure 1); histogram binning
    and isotonic regression beside reliability diagrams (Figure 2)."""
    y, found = recalibrated(rows, share)
    drawn = {method: calibration_sharpness_diagram(y, p) for method, p in found.items()}
    bins = {
        WORDS[method]: reliability_diagram(y, found[method], bins=15) for method in ("HB", "IR")
    }
    figures = {
        "figure-1": AlignedSharpness(
            {WORDS[method]: drawn[method] for method in ("baseline", "TS", "MRR")},
            {},
            f"{name}: as Figure 1",
        ),
        "figure-2": AlignedSharpness(
            {WORDS[method]: drawn[method] for method in ("HB", "IR")},
            bins,
            f"{name}: as Figure 2",
        ),
    }
    numbers = tuple(
        Row(f"{name}, {method}", column, 100 * value, decimals=3)
        for method, one in drawn.items()
        for column, value in (
            ("CAL", one.calibration),
            ("TOT", one.total),
            ("sharpness gap", one.total - one.calibration),
        )
    )
    gaps = _sharpness_gaps(y, found, resamples)
    second = max((m for m in gaps if m != "MRR"), key=lambda method: gaps[method].value)

    def difference(method: str, other: str) -> Estimate:
        value, low, high = gaps[method].minus(gaps[other])
        return Estimate(100 * value, low=100 * low, high=100 * high, n=len(y))

    claims = (
        Claim.above(
            0.0,
            f"{name}: histogram binning has a larger sharpness gap than isotonic regression"
            " (difference x 100)",
            "Section 5.2",
            difference("HB", "IR"),
        ),
        Claim.above(
            0.0,
            f"{name}: mean replacement has the largest sharpness gap (difference from the next"
            " x 100)",
            "Section 5.1",
            difference("MRR", second),
        ),
    )
    return Outcome(numbers, claims, figures)


def _sharpness_gaps(
    y: np.ndarray, found: Mapping[str, np.ndarray], resamples: int
) -> dict[str, ResampledError]:
    """The Brier score less the calibration error by kernel regression, in resamples that all
    methods share."""
    sample = Resamples.draw(np.ones(len(y)), None, resamples, seed=0)
    gaps = {}
    for method, p in found.items():
        smoothed = smoothed_errors(TopLabel().view(p, y), sample, KERNEL_WIDTH)
        total = sample.means(Brier().score(p, y))
        drawn = total - smoothed["kernel_calibration_error"][0]
        gaps[method] = ResampledError.of(float(drawn[0]), drawn, None)
    return gaps
