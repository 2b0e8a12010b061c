"""Reasons why the coverage or false alarms of some cases leave their range.

Patterns of item, world, n and side select the cases. A reason states a cause that holds by
construction or was verified separately. Cells without such a cause stay unexplained, and the test
of the page fails. Keep patterns narrow: a pattern as wide as "*" could hide a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Reason:
    """One reason. The first reason that matches a cell is used.

    item, world, n : patterns as for file names.
    text : the explanation on the page.
    side : coverage "below" or "above" its range, too many "alarms", or "*" for any.
    """

    item: str
    world: str
    text: str
    side: str = "*"
    n: str = "*"

    def matches(self, item: str, world: str, n: int, side: str) -> bool:
        pairs = ((item, self.item), (world, self.world), (str(n), self.n), (side, self.side))
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


IGNORED = "Rows of a cluster are dependent. For contrast, this line treats them as independent."
SAME = (
    "Both models make the same decisions, so the difference and its interval are exactly 0 in every"
    " run."
)
BASE_RATE = (
    "The outputs are the base rate. There the ratio has its minimum of 1, and its first-order"
    " standard error is 0. The estimate differs from 1 only by a second-order term, which a"
    " linearised interval cannot describe."
)
MANY_CLASSES = (
    "With 100 classes in 1,000 rows, the score of the observed class frequencies is too low by"
    " about (K - 1) / 2n, so the ratio to it is too high. The lower limit of the interval allows"
    " for this, which makes the interval wider than necessary."
)
FEW_PER_CLASS = (
    "Each of the 100 classes has ten rows, nearly all of them misclassified. The lower limit of"
    " each class is then far from the estimate and the upper limit near it: the interval reaches"
    " further down than necessary."
)
UNSEEN = (
    "Nearly all rows are rejected or get the same decision, so the risk hardly varies. The limits"
    " also allow for errors that do not occur in the sample."
)
CONSTANT = (
    "Every row gets the best constant decision or is rejected, so the result hardly varies between"
    " runs."
)
REJECTED = "Every row is rejected, so the risk equals the reject cost in every run."
ONE_SIDED = (
    "The true error is 0, and no interval starts below 0. Only an interval that excludes 0 misses"
    " the truth, so the interval is one-sided, with a coverage of 97.5% or more."
)
SMOOTHING = (
    "A bandwidth of 0.05 smooths the curve where it bends. The estimate converges to the smoothed"
    " truth, which has its own rows in the table."
)
SMOOTHED = (
    "The kernel smooths the curve where it bends, more for one model than for the other. Estimate"
    " and interval are for the smoothed difference."
)
TWICE = (
    "The interval subtracts the largest bias that sampling noise can add to a mean of squares. Near"
    " an error of 0 this is conservative."
)
INFINITE = (
    "Some outcomes have a predicted probability of 0 in floating point. The true error is infinite,"
    " and no finite interval contains it."
)
FIXED_FITS = (
    "The interval treats the fitted calibrators as fixed and ignores that they would differ on"
    " other rows. This matters where the gain is small or rows are few."
    ' `interval="bootstrap"` refits them.'
)
FEW_POSITIVES = (
    "With about ten positives in 1,000 rows, two or three large losses determine the difference."
    " Its distribution is far from normal."
)
CHOSEN = (
    "The correction repeats the selection on resamples and evaluates it on the rows they leave out."
    " A resample has fewer distinct rows than the data, so the corrected gain is too low. The"
    " interval is for the selected calibrator and ignores that the selection may vary."
)
USELESS = (
    "Warnings of any kind count. In this world the outputs are little better than the base-rate"
    " forecast. With ten positives, the audit warns that they are not clearly better."
)
AROUND_RATES = (
    "Sampling noise is simulated around the observed rates. A bin without a misclassified row then"
    " has no noise. With confident outputs and about 20 rows in a bin, the simulated errors are too"
    " small near 0, and the interval starts too high."
)
CAUTIOUS = (
    "The bias that sampling noise adds to an error near 0 is only known to lie between two limits."
    " The interval of a difference allows for both, so it is conservative."
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
        # The worlds in which the two truths differ by more than a tenth.
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
    """The explanation of a marked cell; empty if there is none."""
    return next((reason.text for reason in REASONS if reason.matches(item, world, n, side)), "")
