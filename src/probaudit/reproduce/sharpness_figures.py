"""Chidambaram & Ge 2024, Figures 1, 2, 6 and 7: calibration-sharpness diagrams of recalibrated
networks."""

from __future__ import annotations

from ..data.predictions import Predictions
from ..diagrams.reliability import reliability_diagram
from ..diagrams.sharpness import calibration_sharpness_diagram
from .outcome import Claim, Outcome, Row
from .sharpness_aligned import AlignedSharpness
from .sharpness_tables import WORDS, recalibrated


def diagrams(rows: Predictions, name: str, share: float) -> Outcome:
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
    gap = {method: one.total - one.calibration for method, one in drawn.items()}
    claims = (
        Claim.above(
            0.0,
            f"{name}: histogram binning has a larger sharpness gap than isotonic regression"
            " (difference x 100)",
            "Section 5.2",
            100 * (gap["HB"] - gap["IR"]),
        ),
        Claim.above(
            0.0,
            f"{name}: mean replacement has the largest sharpness gap (difference from the next"
            " x 100)",
            "Section 5.1",
            100 * (gap["MRR"] - max(gap[method] for method in gap if method != "MRR")),
        ),
    )
    return Outcome(numbers, claims, figures)
