"""The metrics of a comparison in the order of its tables: their labels, and which way is better."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """An estimate by its name, with its label.

    lower : whether lower values are better; None if neither direction is.
    """

    name: str
    label: str
    lower: bool | None = True

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        return {True: "lower is better", False: "higher is better", None: ""}[self.lower]


def _by_name(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


SCORES = _by_name(
    Metric("accuracy", "accuracy", lower=False),
    Metric("log_score", "log loss"),
    Metric("log_score.calibrated", "log loss after recalibration"),
    Metric("brier_score", "Brier score"),
    Metric("ece", "ECE"),
    Metric("classwise_ece", "classwise ECE"),
)
ERRORS = _by_name(
    Metric("mce", "MCE"),
    Metric("ace", "ACE"),
    Metric("smooth_ece", "SmoothECE"),
    Metric("top_label.ece", "top-label ECE"),
    Metric("overconfidence", "overconfidence"),
    Metric("underconfidence", "underconfidence"),
    Metric("risk_too_high", "predicted too high"),
    Metric("risk_too_low", "predicted too low"),
    Metric("average_calibration_error", "ACE, unweighted"),
)
MORE = _by_name(
    Metric("entropy", "entropy", lower=None),
    Metric("log_score.normalized", "relative log loss"),
    Metric("calibration_loss", "calibration loss"),
    Metric("calibration_loss.relative", "calibration loss, share"),
    Metric("sharpness_gap", "sharpness gap"),
    Metric("grouping_loss", "hidden groups (at least)"),
    Metric("cost_risk", "your costs"),
)
MOST_COLUMNS = 6  # of a table
METRICS = SCORES | ERRORS | MORE
LABELS = {name: metric.label for name, metric in METRICS.items()}
# the table for a paper, and the differences of the forest plot
PUBLISHED = (
    *(name for name in SCORES if name != "log_score.calibrated"),
    "mce",
    "ace",
    "smooth_ece",
)
MAIN = ("log_score", "brier_score", "ece", "accuracy")
DIFFERENCES = (
    "log_score",
    "log_score.calibrated",
    "brier_score",
    "cost_risk",
    "accuracy",
    "ece",
    "classwise_ece",
    *ERRORS,
    "entropy",
    "calibration_loss",
    "sharpness_gap",
)


def tables(known: Collection[str]) -> tuple[dict[str, Metric], ...]:
    """The metrics of the tables on the page and in the terminal: scores, further errors, and losses
    with their causes. The table of scores has the first errors too, if there is room.

    >>> [list(table) for table in tables({"accuracy", "ece", "ace", "entropy"})]
    [['accuracy', 'ece', 'ace'], [], ['entropy']]
    """
    scores, errors, more = (
        {name: metric for name, metric in part.items() if name in known}
        for part in (SCORES, ERRORS, MORE)
    )
    moved = list(errors)[: max(0, MOST_COLUMNS - len(scores))]
    return scores | {name: errors.pop(name) for name in moved}, errors, more
