"""Why coverage or false alarms of a case leave their range. One sentence each, by patterns of item,
world and n.

A reason states a cause that holds by construction or was checked by itself. What has no such cause
stays unexplained, and the tests of the page fail: a pattern as wide as "*" would explain away a
defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Reason:
    """item, world, n : patterns as in file names. side : coverage "below" or "above" its range, too
    many "alarms", or any.

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
SAME = (
    "Both models take the same decisions, so that the difference and its interval are exactly 0 in"
    " every run."
)
BASE_RATE = (
    "The outputs are the base rate, where the ratio has its minimum of 1 and a first-order standard"
    " error of 0; the estimate differs from 1 only by a second-order term, which no linearised"
    " interval describes."
)
MANY_CLASSES = (
    "With 100 classes in 1,000 rows, the score of the observed class frequencies is too low by"
    " about (K - 1) / 2n, and so the ratio to it too high; the interval reaches down by that much,"
    " and is wider than it need be."
)
FEW_PER_CLASS = (
    "With ten rows of each of 100 classes, nearly all of them wrong, the lower limit of each class"
    " is far and the upper one near: the interval is wider than it need be, below."
)
UNSEEN = (
    "Nearly all rows are rejected, or get the same decision, so that the risk hardly varies; the"
    " limits also allow for errors that these rows do not show."
)
CONSTANT = (
    "Every row gets the best constant decision, or is rejected, so that the result hardly varies"
    " between runs."
)
REJECTED = "Every row is rejected, so that the risk is exactly the reject cost in every run."
ONE_SIDED = (
    "The true error is 0 and the interval cannot start below it, so that only an interval that"
    " excludes 0 misses: the interval is one-sided, at 97.5% or more."
)
SMOOTHING = (
    "A bandwidth of 0.05 smooths the curve where it bends; the estimate tends to the smoothed"
    " truth, which has a line of its own."
)
SMOOTHED = (
    "The kernel smooths the curve where it bends, more for the one model than for the other;"
    " estimate and interval are of the smoothed difference."
)
TWICE = (
    "What chance adds to a mean of squares is taken off both ends of the interval at its largest"
    " possible size; near an error of 0 that is cautious."
)
INFINITE = (
    "Some outcomes had an output of 0 in floating point: the true error is infinite, and no finite"
    " interval holds it."
)
FIXED_FITS = (
    "The interval holds the fitted calibrators fixed. How they would differ on other rows is left"
    ' out, which matters where the gain is small or rows are few; `interval="bootstrap"` fits them'
    " again."
)
FEW_POSITIVES = (
    "Of about ten positives in 1,000 rows, two or three large losses decide the difference: its"
    " distribution is far from normal."
)
CHOSEN = (
    "Judged on the rows that a resample leaves out, the choice is made by fewer rows than in use,"
    " and the corrected gain is too low; the interval is that of the chosen calibrator and leaves"
    " out how the choice may vary."
)
USELESS = (
    "Counted are warnings of any kind. In this world the outputs are little better than the base"
    " rate, and with ten positives the audit says that it cannot show them to be better."
)
AROUND_RATES = (
    "The noise of a sample is simulated around the rates of the rows, and a bin whose rows are all"
    " right has none: with confident outputs and about 20 rows in a bin the simulated errors are"
    " too small near 0, and the interval begins too high."
)
CAUTIOUS = (
    "What chance adds to an error near 0 is only known to lie between two estimates, and the"
    " interval of a difference allows for both: it is cautious."
)

REASONS: tuple[Reason, ...] = (
    Reason("*clusters ignored", "clustered*", IGNORED),
    Reason("compare, accuracy", "calibrated*", SAME, "above"),
    Reason("bayes_risk, reject*", "calibrated, K = 100", REJECTED, "above"),
    Reason("*_score, normalised", "constant, K = 2", BASE_RATE),
    Reason("bayes_risk, *", "constant, K = 2", CONSTANT, "above"),
    Reason("*_score, normalised", "calibrated, K = 100", MANY_CLASSES),
    Reason("bayes_risk, 0-1 costs, normalised", "calibrated, K = 100", MANY_CLASSES),
    Reason("bayes_risk, 0-1 costs", "calibrated, K = 100", FEW_PER_CLASS, "above"),
    Reason("bayes_risk, reject*", "calibrated, K = 10", UNSEEN, "above"),
    Reason("bayes_risk, *", "rare positives", UNSEEN, "above"),
    Reason("audit: reject risk, normalised", "*", UNSEEN, "above"),
    Reason("audit: any warning", "rare positives", USELESS, "alarms"),
    Reason("calibration_loss, *", "rare positives", FEW_POSITIVES, "below"),
    Reason("calibration_loss, *", "*", FIXED_FITS, "below"),
    Reason("select_calibrator, gain", "logits x*", CHOSEN, "below"),
    Reason("kernel error, log", "Gaussian mcs", INFINITE),
    Reason("kernel error, log", "Gaussian mcps", INFINITE),
    *(
        Reason(item, world, AROUND_RATES, "below")
        for item in (
            "ACE",
            "ACE, debiased",
            "classwise RMS error",
            "squared error, debiased",
            "RMS error",
        )
        for world in ("calibrated, K = *", "logits x 1.15, K = *")
    ),
    Reason("compare, kernel_calibration_error", "*", SMOOTHED, "below"),
    Reason("compare, sharpness_gap", "*", SMOOTHED, "below"),
    Reason("kernel error, Brier, clusters", "clustered, logits x 1.7", SMOOTHING, "below"),
    Reason("kernel error, Brier", "calibrated, K = 2", SMOOTHING, "below", "5000"),
    *(
        Reason("kernel error, Brier", world, SMOOTHING, "below")
        # where the two truths differ by more than a tenth
        for world in ("Gaussian mc*", "logits x 1.7, K = 2")
    ),
    *(
        Reason(f"kernel error, Brier{more}", "logits x*", TWICE, "above")
        for more in ("", ", smoothed truth")
    ),
    *(Reason(f"compare, {name}", "*", CAUTIOUS, "above") for name in ("ece", "ace", "smooth_ece")),
    *(
        Reason(item, world, ONE_SIDED, "above")
        for item in (
            "ECE",
            "ACE",
            "RMS error",
            "classwise ECE",
            "top-2 ECE",
            "SmoothECE",
            "kernel error, *",
        )
        for world in ("calibrated*", "constant*", "Gaussian cal")
    ),
)


def reason_for(item: str, world: str, n: int, side: str) -> str:
    """The sentence for a marked cell; empty if none was written."""
    return next((reason.text for reason in REASONS if reason.matches(item, world, n, side)), "")
