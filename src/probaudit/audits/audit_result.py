"""The result of an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..calibration.fine_grid import FineGrid
from ..calibration.significance import CalibrationTest
from ..calibration.validation import Validation
from ..choices.scores import Cost
from ..data.arrays import estimate_frame
from ..estimate import Estimate
from ..grouping.budget import Budget
from ..scoring.decision_curve import DecisionCurve
from ..scoring.risk_coverage import RiskCoverage
from ..states import Summary
from ..states.evidence import Evidence
from ..version import __version__
from .decision import Decision, Grade
from .dependence import clustered_rows
from .finding import Calls, Finding, Spelling, as_call
from .gate import proposed
from .groups import GroupTable, with_bounds
from .lens_error import BINS, LensError
from .main_table import as_latex, as_markdown, main_rows
from .pitfalls import PITFALLS
from .repairs import Repair
from .result import Result, plain, plain_columns

if TYPE_CHECKING:
    from ..report.page import Page

SCHEMA = "probaudit.audit/6"
SHOWN_REGIONS = 20
SHOWN_CLASSES = 50


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """The result of an audit.

    estimates : scores and losses by name, with 95% intervals.
    errors, class_errors : the calibration error under each lens, and of each class, each with its
        test against a calibrated model.
    groups : predicted and observed rate, calibration error and other measures of each group, for
        each value of each column; see `Group`.
    repairs : the calibrators that were tried: the default one, or many with `repair="compare"`; one
        is selected, and recommended if the verdict advises it.
    budget : the loss budget relative to the base-rate forecast, if there are features or groups: of
        the log loss, or of the Brier score if the log loss is infinite. Its total, `removed` and
        the total after recalibration are the numbers of the summary.
    validation, decision_curve : observed / expected ratio, slope, AUC and so on of the event, and
        the net benefit of acting on it, if there is an event (see `event`).
    risk_coverage : the error rate among the most confident rows.
    decision : the grade, the headline, one sentence in numbers, and the most important findings.
    findings : all findings, the most serious first.
    evidence : the sums over all rows, and the sample that fits use.
    settings, choices : how the numbers were made; `regions`, if they were given.

    spelling : writes the actions of advice, as calls in Python or as commands.

    `audit["ece"]` is a number by name, with its interval; `flat` has the names of all.
    `print(audit)` shows the verdict and a summary, `to_text` all of it; `to_dict`, `to_json`,
    `to_frame` and `flat` return the numbers; `to_html` writes the report.
    """

    estimates: Mapping[str, Estimate]
    errors: tuple[LensError, ...]
    findings: tuple[Finding, ...]
    decision: Decision
    evidence: Evidence
    settings: Mapping[str, Any]
    risk_coverage: RiskCoverage
    validation: Validation | None = None
    decision_curve: DecisionCurve | None = None
    class_errors: tuple[LensError, ...] = ()
    groups: GroupTable = field(default_factory=GroupTable)
    repairs: tuple[Repair, ...] = ()
    budget: Budget | None = None
    title: str = ""
    choices: Mapping[str, Any] = field(default_factory=dict)
    spelling: Spelling = as_call

    @property
    def summary(self) -> Summary:
        return self.evidence.summary

    @property
    def fingerprint(self) -> str:
        return self.evidence.fingerprint

    @property
    def costs(self) -> Cost | None:
        return self.summary.plan.costs.get("costs")

    @property
    def clusters(self) -> int | None:
        """The number of clusters (of the sample, if there is one); None if rows are
        independent."""
        rows = clustered_rows(self.evidence)
        return None if rows is None else rows.clusters.count

    @property
    def event(self) -> Any:
        """The class whose probability is judged; None if it is the most probable class."""
        return self.summary.plan.event_class

    @property
    def calibration(self) -> CalibrationTest:
        """The ECE of the event, or of the most probable class, over 15 bins of equal width."""
        return self.errors[0].test

    @property
    def grade(self) -> Grade:
        """What to do: "use", "recalibrate", "do_not_use" or "cannot_tell" (see `decision`)."""
        return self.decision.grade

    @property
    def verdict(self) -> str:
        """The headline, the sentence in numbers, and all findings, as text."""
        first = (self.headline, self.decision.sentence)
        return "\n".join([*first, *(finding.text for finding in self.findings)])

    @property
    def headline(self) -> str:
        """The verdict in one imperative sentence."""
        return self.decision.headline

    @property
    def recommended(self) -> Repair | None:
        """The repair that the verdict advises: a calibrator, or to change nothing ("identity").
        None if these rows cannot tell, the probabilities are useless, or none was tried."""
        return next((repair for repair in self.repairs if repair.recommended), None)

    @property
    def selected(self) -> Repair | None:
        """The best calibrator on these rows, by the rule of `select_calibrator`, whether or not the
        verdict advises it."""
        return next((repair for repair in self.repairs if repair.selected), None)

    @property
    def pitfall_rules(self) -> dict[str, str]:
        """What each rule for a pitfall looks for, by the name of the rule."""
        return {rule.name: rule.looks_for for rule in PITFALLS}

    def __getitem__(self, name: str) -> Estimate:
        """A number by any of its names in `flat`, which are those of thresholds of `check`.

        Ends of intervals, p-values and counts have no interval of their own.
        """
        named = self._named()
        for group in self.groups:
            named |= group.named
        if name in named:
            return named[name]
        values = self.flat()
        if name not in values:
            raise KeyError(f"an audit has no number {name!r}; {proposed(name, values)}")
        return Estimate(values[name], n=self.summary.rows, definition=name)

    def _named(self) -> dict[str, Estimate]:
        """Every estimate and calibration error by name."""
        return dict(self.estimates) | {error.name: error.estimate for error in self.errors}

    def __repr__(self) -> str:
        from ..report.terminal import as_text

        return as_text(self)

    def to_text(self) -> str:
        """All of the audit as plain text. `print(audit)` shows its first part."""
        from ..report.terminal import as_text

        return as_text(self, full=True)

    def flat(self) -> dict[str, float]:
        """Every estimate and calibration error by name, with the ends of its interval (`.low` and
        `.high`), counts of rows, and the numbers of each group, for `check` or an experiment
        tracker."""
        values: dict[str, float] = {}
        for name, estimate in self.estimates.items():
            values |= with_bounds(name, estimate)
        for error in self.errors:
            values |= with_bounds(error.name, error.estimate)
            values[f"{error.name}.p_value"] = error.p_value
        values |= {
            "rows": self.summary.rows,
            "dropped_rows": self.summary.dropped,
            "infinite_rows": int(self.summary.log.infinite.sum()),
        }
        for group in self.groups:
            values |= group.flat()
        return values

    def to_frame(self) -> Any:
        """Every estimate and calibration error as a pandas DataFrame, one row each."""
        return estimate_frame(self._named())

    def to_markdown(self) -> str:
        """The scores and calibration errors as a table in Markdown, with 95% intervals."""
        return as_markdown(main_rows(self.estimates, self.errors), self.summary.rows)

    def to_latex(self, *, caption: str = "") -> str:
        """The same table in LaTeX, for the package booktabs; the caption ends with the number of
        rows."""
        return as_latex(main_rows(self.estimates, self.errors), self.summary.rows, caption)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain values (schema `probaudit.audit/6`, see docs/audit-json.md)."""
        plan, sample = self.summary.plan, self.evidence.sample
        worst = sorted(self.class_errors, key=lambda error: -error.excess)[:SHOWN_CLASSES]
        # calls name the rows as in memory, so that files and clusters give the same JSON
        spelling = as_call if isinstance(self.spelling, Calls) else self.spelling
        return {
            "schema": SCHEMA,
            "version": __version__,
            "headline": self.headline,
            "decision": self.decision.to_dict(),
            "rows": self.summary.rows,
            "dropped_rows": {rule: count for rule, count in self.summary.bad.items() if count},
            "sample_rows": len(sample),
            "clusters": self.clusters,
            "classes": [plain(c) for c in plan.classes],
            "class_rows": self.summary.log.rows.tolist(),
            "event": None if self.event is None else plain(self.event),
            "kind": plan.kind,
            "weighted": plan.weighted,
            "calibration": {
                name: _number(getattr(self.calibration, name))
                for name in ("value", "null_mean", "null_high", "p_value")
            }
            | {"bins": BINS},
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "errors": [error.to_dict() for error in self.errors],
            "class_errors": [error.to_dict() for error in worst],
            "groups": [group.to_dict() for group in self.groups],
            "curves": self._curves(),
            "budget": None
            if self.budget is None
            else self.budget.to_dict() | {"regions": _regions(self.budget)},
            "repairs": [repair.to_dict() for repair in self.repairs],
            "findings": [finding.to_dict(spelling) for finding in self.findings],
            "settings": dict(self.settings),
            "fingerprint": self.fingerprint,
        }

    def _curves(self) -> dict[str, Any]:
        """The risk-coverage curve and, if there is an event, the decision curve."""
        found = {"risk_coverage": plain_columns(self.risk_coverage.curve._asdict())}
        if self.decision_curve is not None:
            found["net_benefit"] = plain_columns(self.decision_curve.columns())
        return found

    def _page(self, title: str) -> Page:
        from ..report.audit_page import audit_page

        return audit_page(self, title)

    def _short_page(self) -> Page:
        from ..report.audit_page import audit_summary

        return audit_summary(self)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """The reliability diagram of the event, or of the most probable class, drawn by matplotlib,
        with `save(path)`. `style` : name, color and others, as in the displays. See `diagrams` for
        other diagrams."""
        from ..diagrams.reliability import Reliability, event_name

        event = event_name(self.evidence.sample, self.summary.plan.lens)
        grid = FineGrid.of_event(self.evidence.judged)
        return Reliability.of_grid(grid, BINS, event=event).plot(ax, **style)


def _regions(budget: Budget) -> list[dict[str, Any]]:
    """The regions with the largest loss, as plain values."""
    table = budget.found.regions
    return [table[i]._asdict() for i in range(min(len(table), SHOWN_REGIONS))]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
