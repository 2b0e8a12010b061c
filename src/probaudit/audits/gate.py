"""Thresholds of `check`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from ..errors import Argument, InputError, WayOut, nearest
from ..text import listed
from ..version import __version__

if TYPE_CHECKING:
    from .audit_result import Audit

CHECK_SCHEMA = "probaudit.check/1"
GROUPS = "groups."
ENDS = (".low", ".high")  # of intervals
OF_REPAIR = ("calibration_loss", "log_score.calibrated")
REPAIR_WAY_OUT = (
    "leave out `--no-repair`, and pass rows of two classes, at least five of one and two of the "
    "other"
)
# Numbers that are never above 1, so that a bound above 1 always holds or always fails.
SHARES = frozenset(
    name
    for line in (
        "accuracy accuracy_at_80 error_rate predicted observed gap relative",
        "ici e50 e90 emax ece ace smooth_ece rms_error classwise_ece full_ece",
        "brier brier_skill auc average_precision aurc excess_aurc confidence_auroc",
        "coverage_at_risk_5 p_value adjusted q_value",
    )
    for name in line.split()
)
CLOSE = 0.7  # similarity from which a name counts as misspelt
# Names that other packages and papers give to numbers of an audit.
ELSEWHERE = {
    "log_loss logloss nll cross_entropy negative_log_likelihood": "log_score",
    "log_score.normalised log_loss.normalized": "log_score.normalized",
    "brier_loss brier_score_loss": "brier_score",
    "auroc roc_auc roc_auc_score c_statistic": "auc",
    "auprc pr_auc average_precision_score": "average_precision",
    "acc accuracy_score": "accuracy",
    "expected_calibration_error": "ece",
    "adaptive_ece ece.equal_mass equal_mass_ece": "ace",
    "smece smoothece smooth_calibration_error": "smooth_ece",
    "kernel_error kce": "kernel_calibration_error",
    "sce static_calibration_error classwise": "classwise_ece",
    "calibration_slope": "slope",
    "calibration_intercept": "intercept",
    "calibration_in_the_large citl": "in_the_large",
    "o_e oe o/e": "observed_expected",
}


@dataclass(frozen=True)
class Threshold:
    """A bound on one number of an audit, or on all numbers whose names match a pattern.

    A bound on the value of a small group is noisy. One on the end of its interval is not: with a
    largest `groups.*.gap.low`, a group fails only if its interval excludes the bound.

    >>> Threshold.parse("accuracy=90%", "min")
    Threshold(name='accuracy', side='min', bound=0.9)
    >>> Threshold.parse("groups.sex=f.gap.low=5%", "max").name
    'groups.sex=f.gap.low'
    """

    name: str
    side: Literal["max", "min"]
    bound: float

    @classmethod
    def parse(cls, text: str, side: Literal["max", "min"]) -> Threshold:
        name, equals, value = text.rpartition("=")
        number = value.strip()
        try:
            bound = float(number[:-1]) / 100 if number.endswith("%") else float(number)
        except ValueError:
            bound = math.nan
        if not equals or not name.strip() or math.isnan(bound):
            raise InputError(
                side,
                "must have the form NAME=VALUE, such as log_score.normalized=0.5 or accuracy=90%",
                repr(text),
            )
        threshold = cls(name.strip(), side, bound)
        if threshold._of_share and bound > 1:
            raise InputError(
                side,
                "bounds a share, which is at most 1",
                repr(text),
                way_out=(f"write {name}={bound:g}% if it is a percentage",),
            )
        return threshold

    @property
    def _of_share(self) -> bool:
        """Whether the name, without its group and the end of an interval, is that of a share."""
        plain = self.name.removesuffix(".low").removesuffix(".high")
        return plain.rpartition(".")[2] in SHARES

    @property
    def rule(self) -> str:
        return f"at {'most' if self.side == 'max' else 'least'} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound; NaN never is."""
        return value <= self.bound if self.side == "max" else value >= self.bound

    def matches(self, values: Mapping[str, float]) -> list[str]:
        """The names that are bounded: an exact name, or those that match the pattern."""
        if self.name in values:
            return [self.name]
        found = [name for name in values if fnmatchcase(name, self.name)]
        if not found:
            without = self.name.startswith(GROUPS) and not any(n.startswith(GROUPS) for n in values)
            own = usual(self.name, values)
            way_out: WayOut = (f"use {own}",) if own else nearest(self.name, values)
            if without:
                way_out = ("pass ", Argument("groups", "COLUMN"))
            rule = "there are no groups" if without else _known_names(values, self.name)
            if self.name.startswith(OF_REPAIR):
                rule, way_out = "requires a calibrator, and none was tried", (REPAIR_WAY_OUT,)
            raise InputError(self.side, rule, repr(self.name), way_out=way_out)
        return found


@dataclass(frozen=True)
class CheckedThreshold:
    """A threshold with the number furthest beyond it, or nearest to it if it holds.

    failed, matched : how many of the numbers fail, and how many there are.
    """

    threshold: Threshold
    name: str
    value: float
    failed: int
    matched: int

    @classmethod
    def of(cls, threshold: Threshold, values: Mapping[str, float]) -> CheckedThreshold:
        names = threshold.matches(values)
        sign = 1 if threshold.side == "max" else -1
        worst = max(
            names,
            key=lambda name: math.inf if math.isnan(values[name]) else sign * values[name],
        )
        failed = sum(not threshold.holds(values[name]) for name in names)
        return cls(threshold, worst, values[worst], failed, len(names))

    @property
    def passed(self) -> bool:
        return self.failed == 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values. `bound` and `value` are None if they are not finite."""
        bound, value = (x if math.isfinite(x) else None for x in (self.threshold.bound, self.value))
        return {
            "threshold": self.threshold.name,
            "side": self.threshold.side,
            "bound": bound,
            "passed": self.passed,
            "name": self.name,
            "value": value,
            "failed": self.failed,
            "matched": self.matched,
        }

    def __str__(self) -> str:
        several = f", {self.failed:,} of {self.matched:,} fail" if self.matched > 1 else ""
        mark = "ok" if self.passed else "FAIL"
        return f"{mark:5}{self.name} = {self.value:.6g}  ({self.threshold.rule}{several})"


def check_thresholds(
    values: Mapping[str, float], thresholds: Sequence[Threshold]
) -> list[CheckedThreshold]:
    """Each threshold against the numbers of an audit; an unknown name raises."""
    return [CheckedThreshold.of(threshold, values) for threshold in thresholds]


def check_as_dict(checked: Sequence[CheckedThreshold], audit: Audit) -> dict[str, Any]:
    """Thresholds and their result as plain values, with the audit that they bound."""
    return {
        "schema": CHECK_SCHEMA,
        "version": __version__,
        "passed": all(one.passed for one in checked),
        "thresholds": [one.to_dict() for one in checked],
        "audit": audit.to_dict(),
    }


def usual(name: str, values: Mapping[str, float]) -> str | None:
    """The number that other packages and papers call so, if there is one.

    >>> usual("AUROC", {"auc": 0.8}), usual("auroc", {"ece": 0.1})
    ('auc', None)
    """
    own = next((own for words, own in ELSEWHERE.items() if name.lower() in words.split()), None)
    return own if own in values else None


def proposed(name: str, values: Mapping[str, float]) -> str:
    """Which numbers there are, for a name that is none of them: those with a similar or a longer
    name, or all.

    >>> proposed("ECE", {"ece": 0.1, "accuracy": 0.9}), proposed("x", {"ece": 0.1})
    ('did you mean ece?', 'the numbers are ece')
    >>> proposed("auroc", {"aurc": 0.1, "confidence_auroc": 0.8, "confidence_auroc.low": 0.7})
    'did you mean aurc or confidence_auroc?'
    """
    if own := usual(name, values):
        return f"use {own}"
    plain, wanted = [one for one in values if not one.endswith(ENDS)], name.lower()
    near = get_close_matches(wanted, plain, 3, CLOSE)
    if wanted not in near:
        near += [one for one in plain if wanted in one and one not in near]
    return f"did you mean {' or '.join(near[:3])}?" if near else f"the numbers are {listed(plain)}"


def _known_names(values: Mapping[str, float], wanted: str) -> str:
    """The rule that an unknown name breaks. Ends of intervals are not listed, and groups and their
    measures only if the name is that of a group."""
    plain = [name for name in values if not name.endswith(ENDS)]
    of_groups = [name for name in plain if name.startswith(GROUPS)]
    if not of_groups or not wanted.startswith(GROUPS):
        others = [name for name in plain if name not in of_groups]
        rule = f"must name one of {', '.join(others)}; or NAME.low, NAME.high"
        return rule + (f"; or {GROUPS}COLUMN=VALUE.NAME" if of_groups else "")
    groups = dict.fromkeys(name.rpartition(".")[0] for name in of_groups)
    measures = dict.fromkeys(name.rpartition(".")[2] for name in of_groups)
    return (
        f"must match GROUP.NAME, with GROUP {listed(list(groups))} and NAME {', '.join(measures)}"
    )
