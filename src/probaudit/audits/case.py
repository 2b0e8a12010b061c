"""The evidence that the rules of an audit read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..calibration.significance import holm
from ..calibration.validation import Validation
from ..data.calibrator_fit import CalibratorFit
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..states import Summary
from ..states.evidence import Evidence
from .groups import GroupTable
from .lens_error import LensError
from .repairs import Repair, group_columns_of

SHOWN_ROWS = 5
FEW_ROWS = 100
# if the 95% limit of a calibrated model's error is larger, the rows are too few for a claim
UNDETECTED_ERROR = 0.05
MATERIAL = 0.01
CLEAR = 0.05  # level of the tests that give a direction
# the errors whose tests decide; the other errors judge the same events
DECIDING = frozenset({"ece", "ace", "classwise_ece", "topk_ece", "full_ece"})


@dataclass(frozen=True)
class InfiniteRows:
    """Rows whose true class has probability 0: their count, and the numbers of some."""

    count: int
    numbers: tuple[int, ...] = ()
    sampled: bool = False

    @property
    def words(self) -> str:
        """The row numbers in parentheses, if there are any."""
        if not self.numbers:
            return ""
        some = "the first of the sample: " if self.sampled else "the first: "
        first = "" if len(self.numbers) == self.count else some
        rows = "row" if len(self.numbers) == 1 else "rows"
        return f" ({first}{rows} {', '.join(map(str, self.numbers))}, counted from 0)"


@dataclass(frozen=True, eq=False)
class Case:
    """The evidence that the rules of an audit read.

    calibrator_fit : the fit of the calibrator that made the outputs, if it is known.
    effective_rows : how many independent rows of equal weight have the same information.
    material : the share of the log loss from which a gain matters.
    """

    evidence: Evidence
    estimates: Mapping[str, Estimate]
    errors: tuple[LensError, ...]
    class_errors: tuple[LensError, ...] = ()
    groups: GroupTable = field(default_factory=GroupTable)
    repairs: tuple[Repair, ...] = ()
    budget: Budget | None = None
    calibrator_fit: CalibratorFit | None = None
    validation: Validation | None = None
    effective_rows: float = math.nan
    material: float = MATERIAL

    @property
    def summary(self) -> Summary:
        return self.evidence.summary

    @property
    def rows(self) -> int:
        return self.summary.rows

    @property
    def pairs(self) -> bool:
        """Whether confidences and their correctness are judged, not class probabilities."""
        return self.summary.plan.kind == "pairs"

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The columns whose groups a calibrator can use."""
        columns = group_columns_of(self.evidence.sample)
        return (columns,) if isinstance(columns, str) else columns or ()

    @property
    def event(self) -> Any:
        """The class whose probability is judged; None if it is the most probable class."""
        return self.summary.plan.event_class

    @property
    def dropped_rows(self) -> int:
        return self.summary.dropped

    @property
    def dropped(self) -> Mapping[str, Mapping[str, int]]:
        """Invalid rows by model (an audit has one, "") and rule."""
        return {"": self.summary.bad}

    @property
    def own_fits(self) -> Mapping[str, CalibratorFit]:
        """The fit of the calibrator, if it was on these rows."""
        fit = self.calibrator_fit
        own = fit is not None and fit.was_on(self.rows, float(self.estimates["log_score"]))
        return {"": fit} if own and fit is not None else {}

    @property
    def infinite_rows(self) -> Mapping[str, InfiniteRows]:
        """Rows with an infinite log loss, by model."""
        count = int(self.summary.log.infinite.sum())
        if not count:
            return {}
        shown = impossible_rows(self.evidence.sample)[:SHOWN_ROWS]
        numbers = self.evidence.row_numbers(shown)
        return {"": InfiniteRows(count, numbers, sampled=self.evidence.sampled)}

    @property
    def error_limit(self) -> float:
        """The 95% limit of the ECE of a calibrated model on these rows."""
        return self.ece.null_high

    @property
    def ece(self) -> LensError:
        """The calibration error of the event, or of the most probable class."""
        return self.errors[0]

    @property
    def selected(self) -> Repair | None:
        """The calibrator that the verdict recommends if it is to recalibrate."""
        return next((repair for repair in self.repairs if repair.selected), None)

    @property
    def repair_of_groups(self) -> Repair | None:
        """The selected calibrator, if it corrects groups."""
        best = self.selected
        return best if best is not None and best.corrects_groups else None

    @property
    def compared(self) -> bool:
        """Whether more than the default calibrator was tried."""
        return len(self.repairs) > 2

    @property
    def largest_gain(self) -> Estimate | None:
        """The gain of the selected calibrator; if that is to change nothing, of the best."""
        best = self.selected
        if best is not None and best.name == "identity":
            others = [one for one in self.repairs if not one.control and one.name != "identity"]
            best = min(others, key=lambda one: float(one.log_score), default=None)
        return None if best is None else best.gain

    @property
    def immaterial(self) -> bool:
        """Whether the rows rule out that recalibration removes a material share of the log loss."""
        gain = self.largest_gain
        return gain is not None and gain.high < self.material

    @property
    def too_few(self) -> bool:
        """Whether the rows are too few to detect an error of five percentage points."""
        return self.rows < FEW_ROWS or self.error_limit > UNDETECTED_ERROR

    @property
    def constant(self) -> bool:
        """Whether all rows have the same output."""
        return int((self.evidence.judged.rows > 0).sum()) == 1

    @property
    def one_outcome(self) -> bool:
        return int((self.summary.log.rows > 0).sum()) <= 1

    def repair(self, name: str) -> Repair | None:
        return next((repair for repair in self.repairs if repair.name == name), None)

    @cached_property
    def tests(self) -> tuple[AdjustedTest, ...]:
        """The tests of calibration that decide: one for each event (two for the judged one, with
        equal bins and with bins of equal mass), the mean over classes, all classes together, the
        worst class and the worst group. p-values are adjusted for all of them (Holm 1979)."""
        # with two classes, these judge the event again
        again = ("classwise_ece", "top_label") if self.summary.plan.n_classes == 2 else ()
        tested = [
            (error, error.p_value)
            for error in self.errors
            if error.name.removeprefix("top_label.").partition(".")[0] in DECIDING
            and not error.name.startswith(again)
        ]
        for family in (self.class_errors, tuple(group.error for group in self.groups)):
            if family:
                worst = min(family, key=lambda error: (error.adjusted, -error.excess))
                tested.append((worst, worst.adjusted))
        p_values = np.array([p if error.excess > 0 else 1.0 for error, p in tested])
        return tuple(
            AdjustedTest(error, p)
            for (error, _), p in zip(tested, holm(p_values).tolist(), strict=True)
        )


@dataclass(frozen=True)
class AdjustedTest:
    """A calibration error, with its p-value adjusted for all tests of the audit."""

    error: LensError
    p_value: float


def off_on_average(case: Case) -> bool:
    """Whether the mean prediction is significantly different from what happened."""
    if case.validation is not None and not case.pairs:
        return case.validation.adjusted <= CLEAR
    gap = case.estimates["gap"]
    return not gap.low <= 0 <= gap.high


def impossible_rows(sample: Predictions) -> np.ndarray:
    """The rows whose true class has probability 0, in order."""
    good = survey(sample).good
    values, codes = sample.block(0, len(sample)).values[good], sample.codes[good]
    if values.shape[1] == 1:
        values = np.column_stack(
            [np.zeros(len(values)) if sample.from_logits else 1 - values[:, 0], values[:, 0]]
        )
    true = values[np.arange(len(codes)), codes]
    return good[true == (-np.inf if sample.kind in ("logits", "log_probabilities") else 0)]
