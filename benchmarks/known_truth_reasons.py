"""Why coverage or false alarms of a case leave their range. One sentence each, by patterns of item, world and n."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Reason:
    """item, world, n : patterns as in file names. side : coverage "below" or "above" its range, too many "alarms", or any.

    text : one sentence. The first reason that matches is taken.
    """

    item: str
    world: str
    text: str
    side: str = "*"
    n: str = "*"

    def matches(self, item: str, world: str, n: int, side: str) -> bool:
        pairs = ((item, self.item), (world, self.world), (str(n), self.n), (side, self.side))
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


IGNORED = "Rows of a cluster are dependent, and this line treats them as independent, for contrast."
SAME = "Both models take the same decisions, so that the difference and its interval are exactly 0 in every run."
BASE_RATE = "The outputs are the base rate, so that the ratio is 1 but for the noise of the base rate itself."
REJECTED = "Every row is rejected, so that the risk is exactly the reject cost in every run."
ONE_SIDED = (
    "The true error is 0 and the interval cannot start below it, so that only an interval that excludes 0 misses:"
    " the interval is one-sided, at 97.5% or more."
)
SMOOTHING = (
    "A bandwidth of 0.05 smooths the curve where it bends; the estimate tends to the smoothed truth, which has a line"
    " of its own."
)
FEW_POSITIVES = "With 3 (n = 300) or 10 (n = 1,000) positives on average, the mean is skewed and its normal interval short."
CAUTIOUS = (
    "What chance adds to an error near 0 is only known to lie between two estimates, and the interval of a difference"
    " allows for both: it is cautious."
)
FIXED_FITS = "The interval holds the fitted calibrators fixed and leaves out how they vary with the rows."

REASONS: tuple[Reason, ...] = (
    Reason("*clusters ignored", "clustered*", IGNORED),
    Reason("compare, accuracy", "calibrated*", SAME, "above"),
    Reason("bayes_risk, reject*", "calibrated, K = 100", REJECTED, "above"),
    Reason("*normalised", "constant, K = 2", BASE_RATE, "above"),
    Reason("kernel error, Brier", "*", SMOOTHING, "below"),
    Reason("*", "rare positives", FEW_POSITIVES, "below"),
    Reason("compare, *", "*", CAUTIOUS, "above"),
    Reason("calibration_loss*", "*", FIXED_FITS, "below"),
    *(
        Reason(item, world, ONE_SIDED, "above")
        for item in ("*ECE*", "*ACE*", "*RMS error*", "*kernel error*")
        for world in ("calibrated*", "constant*", "Gaussian cal", "rare*", "clustered", "no hidden groups", "hidden direction")
    ),
)


def reason_for(item: str, world: str, n: int, side: str) -> str:
    """The sentence for a marked cell; empty if none was written."""
    return next((reason.text for reason in REASONS if reason.matches(item, world, n, side)), "")
