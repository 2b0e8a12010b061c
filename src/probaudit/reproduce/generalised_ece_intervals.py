"""Kirchenbauer et al. 2022, Section 5.3 on networks trained here: errors by interval of the output,
for a problem of two classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..choices.distances import InterInterval
from ..choices.lenses import Binary, Full
from ..choices.selections import OutputIn
from .generalised_ece_figures import BarsByMethod
from .generalised_ece_lenses import (
    INTERVENTIONS,
    NOISE,
    NULL_RESAMPLES,
    TREE,
    USUAL,
    accuracy,
    error,
    usual_ece,
)
from .generalised_ece_trials import Measured, trials
from .outcome import Claim, Outcome
from .trained import Networks

# The event: garments that open in front. Both classes are often confused with others.
EVENT = {"others": (0, 1, 2, 3, 5, 7, 8, 9), "coats and shirts": (4, 6)}
INTERVALS = {"low": (0.0, 0.33), "medium": (0.33, 0.66), "high": (0.66, 1.0)}
OUTSIDE = "outside, all rows"


def interval_wise(networks: Networks, name: str, **training: Any) -> Outcome:
    """Figures 5, 6 and 13, and the accuracies of Table 6. Post hoc methods are fitted to the two
    classes."""
    found = Measured.of(trials(networks, **training, groups=EVENT), interval_measures)
    kinds = {
        "outside": ("distance of observed rates from the interval, as Figure 5", "distance"),
        "TVD": ("calibration error by interval, as Figure 13", "calibration error"),
        "share": ("rows by interval, as Figure 6", "share of rows"),
    }
    figures = {
        kind.lower(): BarsByMethod.of(
            found, {f"{one}, {kind}": one for one in INTERVALS}, f"{name}: {title}", axis
        )
        for kind, (title, axis) in kinds.items()
    }
    claims = [
        claim
        for method in INTERVENTIONS
        for claim in (
            Claim.above(
                0.0,
                f"{name}, {method}: more rows in the medium interval",
                "Section 5.3",
                found.change(method, "medium, share"),
            ),
            Claim.below(
                0.0,
                f"{name}, {method}: observed rates lie less outside the intervals",
                "Section 5.3",
                found.change(method, OUTSIDE),
            ),
            Claim.below(
                1e-9,
                f"{name}, {method}: none outside the medium interval",
                "Section 5.3",
                found.mean(method, "medium, outside"),
            ),
        )
    ]
    return Outcome(found.rows(name, "Table 6", "CrisisMMD"), tuple(claims), figures)


def interval_measures(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Errors of each interval, and the distance from it that is expected if calibrated: cells of a
    few rows have observed rates outside the interval by noise."""
    found = {
        "accuracy": accuracy(y, p),
        USUAL: usual_ece(y, p),
        "full ECE": error(y, p, Full()),
        OUTSIDE: 0.0,
    }
    for name, (low, high) in INTERVALS.items():
        kept = OutputIn(low, high).mask(Binary().view(p, y))
        errors = _interval_errors(y[kept], p[kept], InterInterval(low, high))
        found |= {f"{name}, share": float(kept.mean())}
        found |= {f"{name}, {kind}": value for kind, value in errors.items()}
        found[OUTSIDE] += float(kept.mean()) * errors["outside"] if kept.any() else 0.0
    return found


def _interval_errors(y: np.ndarray, p: np.ndarray, distance: InterInterval) -> dict[str, float]:
    """The errors of the rows of an interval; NaN if there are none."""
    if not len(y):
        return dict.fromkeys(("outside", f"outside {NOISE}", "TVD"), math.nan)
    choices: dict[str, Any] = {"lens": Binary(), "partition": TREE, "distance": distance}
    return {
        "outside": float(calibration_error(y, p, **choices)),
        f"outside {NOISE}": calibration_test(y, p, resamples=NULL_RESAMPLES, **choices).null_mean,
        "TVD": error(y, p, Binary()),
    }
