"""The evidence that the rules of an audit read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..calibration.significance import holm
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..states import Summary
from ..states.evidence import Evidence
from .groups import Group
from .lens_errors import LensError
from .repairs import Repair
from .row_rules import SHOWN_ROWS, InfiniteRows, impossible_rows

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

# errors whose tests decide; the others judge the same events
DECIDING = ("ece", "ace", "classwise_ece", "topk_ece", "full_ece")


@dataclass(frozen=True, eq=False)
class Case:
    """The evidence that the rules of an audit read."""

    evidence: Evidence
    estimates: Mapping[str, Estimate]
    errors: tuple[LensError, ...]
    class_errors: tuple[LensError, ...] = ()
    groups: tuple[Group, ...] = ()
    repairs: tuple[Repair, ...] = ()
    budget: Budget | None = None
    calibrator: Calibrator | None = None

    @property
    def summary(self) -> Summary:
        return self.evidence.summary

    @property
    def rows(self) -> int:
        return self.summary.rows

    @property
    def pairs(self) -> bool:
        """Whether a confidence and its correctness are judged, in place of class probabilities."""
        return self.summary.plan.kind == "pairs"

    @property
    def dropped_rows(self) -> int:
        return self.summary.dropped

    @property
    def dropped(self) -> Mapping[str, Mapping[str, int]]:
        """Invalid rows by model, here the only one, and rule."""
        return {"": self.summary.bad}

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
        """The calibration error of the most probable class."""
        return self.errors[0]

    @property
    def recommended(self) -> Repair | None:
        return next((repair for repair in self.repairs if repair.recommended), None)

    def repair(self, name: str) -> Repair | None:
        return next((repair for repair in self.repairs if repair.name == name), None)

    @cached_property
    def tests(self) -> tuple[AdjustedTest, ...]:
        """The tests of calibration that decide: one for each event (ECE over equal bins and over
        bins of equal mass stand for the most probable class), the mean over classes, all classes
        together, the worst class and the worst group. p-values are adjusted for all of them (Holm
        1979)."""
        found = [
            (error, error.p_value)
            for error in self.errors
            if error.name.partition(".")[0] in DECIDING
        ]
        two = len(self.class_errors) == 2  # which mirror each other
        families = [
            self.class_errors[1:] if two else self.class_errors,
            tuple(group.error for group in self.groups),
        ]
        for family in filter(None, families):
            worst = min(family, key=lambda error: (error.adjusted, -error.excess))
            found.append(
                (worst, worst.p_value if two and family is families[0] else worst.adjusted)
            )
        p_values = np.array([p if error.excess > 0 else 1.0 for error, p in found])
        return tuple(
            AdjustedTest(error, p)
            for (error, _), p in zip(found, holm(p_values).tolist(), strict=True)
        )


@dataclass(frozen=True)
class AdjustedTest:
    """A calibration error, and its p-value adjusted for all tests of the audit."""

    error: LensError
    p_value: float
