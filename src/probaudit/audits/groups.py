"""The calibration of each group of rows: those that share a value of a column, or of several
columns crossed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..calibration.label_measures import OVERCONFIDENT, UNDERCONFIDENT
from ..calibration.resampling import FEWER_RESAMPLES
from ..calibration.significance import SMALLEST, false_discovery, holm
from ..calibration.validation import (
    TOO_HIGH,
    TOO_LOW,
    agreement,
    brier_of,
    large_p_value,
    risk_measures,
    with_interval,
)
from ..calibration.views import single_event
from ..choices.lenses import Lens, TopLabel, View, judged_lens
from ..data.arrays import data_frame
from ..data.populations import RANGES, Crossing, Grouping, Population, grouping_of
from ..data.predictions import Predictions
from ..estimate import Estimate
from ..scoring.events import EventTable
from ..scoring.risk_coverage import risk_coverage_of
from ..states.evidence import Evidence
from ..text import aligned_columns, p_value
from .errors_by_lens import event_words
from .lens_error import (
    LEVEL,
    WIDTH,
    LensError,
    NullModel,
    binned_error,
    definition_of,
    tested_together,
)

COVERAGE = 0.8  # at which the accuracy of the most confident rows is reported


def verdict_of(error: LensError, gap: Estimate, *, risk: bool) -> str:
    """In which direction a group or class is misjudged; "" if its calibration error is not
    significant after Holm's correction for their number.

    The tests of calibration decide, as in the finding `miscalibrated_group`. The interval
    of the gap gives the direction: "predicted too high" or "predicted too low" for an event, else
    "overconfident" or "underconfident"; "miscalibrated" if it contains 0.
    """
    if not error.miscalibrated:
        return ""
    if gap.low <= 0 <= gap.high:
        return "miscalibrated"
    if gap > 0:
        return TOO_HIGH if risk else OVERCONFIDENT
    return TOO_LOW if risk else UNDERCONFIDENT


@dataclass(frozen=True)
class Group:
    """The rows of a group.

    population : their values of columns. rows : their number.
    estimates : measures by name, each with a 95% interval. `predicted`, `observed` and `gap`
        (predicted less observed) are those of the event, if one is judged, with the measures of
        `validation_table` that need no simulation; otherwise of the most probable class, or of the
        stated confidence. `aurc`, `accuracy_at_80` and `confidence_auroc` are those of
        `risk_coverage`.
    error : the calibration error (ECE) of the same event. Its p-value is that of `p_value`.
    risk : whether an event is judged.
    q_value : of the test of the error, among all groups (Benjamini & Hochberg 1995).
    """

    population: Population
    rows: int
    estimates: Mapping[str, Estimate]
    error: LensError
    risk: bool = False
    q_value: float = math.nan

    @property
    def column(self) -> str:
        """The column, or "a*b" if several are crossed."""
        return self.population.column

    @property
    def value(self) -> str:
        return self.population.value

    @property
    def predicted(self) -> Estimate:
        return self.estimates["predicted"]

    @property
    def observed(self) -> Estimate:
        return self.estimates["observed"]

    @property
    def gap(self) -> Estimate:
        return self.estimates["gap"]

    @property
    def p_value(self) -> float:
        """Of calibration: twice the smaller p-value of two tests, of the calibration error and of
        calibration in the large, which detects more if all predictions are off in one direction."""
        return self.error.p_value

    @property
    def adjusted(self) -> float:
        """The p-value after Holm's correction for the number of groups."""
        return self.error.adjusted

    @property
    def verdict(self) -> str:
        """In which direction the group is misjudged, see `verdict_of`."""
        return verdict_of(self.error, self.gap, risk=self.risk)

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            raise KeyError(f"{name!r}; the estimates are {', '.join(self.estimates)}")
        return self.estimates[name]

    @property
    def named(self) -> dict[str, Estimate]:
        """The estimates by their names in `Audit.flat`. The gap is its absolute value."""
        named = dict(self.estimates) | {"gap": _absolute(self.gap), "ece": self.error.estimate}
        return {f"{self._prefix}.{name}": x for name, x in named.items()}

    @property
    def _prefix(self) -> str:
        return f"groups.{self.population.key}"

    def flat(self) -> dict[str, float]:
        """The numbers of the group by name, as in `Audit.flat`: its estimates with the ends of
        their intervals, the number of its rows, and its tests."""
        values: dict[str, float] = {f"{self._prefix}.rows": self.rows}
        for name, x in self.named.items():
            values |= {name: float(x), f"{name}.low": x.low, f"{name}.high": x.high}
        tests = ("p_value", "adjusted", "q_value")
        return values | {f"{self._prefix}.{name}": getattr(self, name) for name in tests}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        who = {
            "name": str(self.population),
            "column": self.column,
            "value": self.value,
            "rows": self.rows,
            "verdict": self.verdict,
            "q_value": self.q_value,
            "error": self.error.to_dict(),
        }
        return who | {name: estimate.to_dict() for name, estimate in self.estimates.items()}


def with_bounds(name: str, x: Estimate) -> dict[str, float]:
    """An estimate by name, with `.low` and `.high` if it has an interval.

    >>> with_bounds("ece", Estimate(0.5, low=0.25, high=0.75))
    {'ece': 0.5, 'ece.low': 0.25, 'ece.high': 0.75}
    """
    bounds = {f"{name}.low": x.low, f"{name}.high": x.high} if math.isfinite(x.low) else {}
    return {name: float(x)} | bounds


def _absolute(x: Estimate) -> Estimate:
    ends = sorted((abs(x.low), abs(x.high)))
    low = 0.0 if x.low <= 0 <= x.high else ends[0]
    return Estimate(abs(x), low=low, high=ends[1], n=x.n, definition=x.definition)


@dataclass(frozen=True)
class GroupTable:
    """The groups of an audit, in the order of columns and values.

    left_out : columns that have no groups, and why.
    cut : numeric columns that were cut into ranges with equally many rows.
    """

    groups: tuple[Group, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    cut: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    @overload
    def __getitem__(self, place: int) -> Group: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Group, ...]: ...
    def __getitem__(self, place: int | slice) -> Group | tuple[Group, ...]:
        return self.groups[place]

    def worst(self) -> list[Group]:
        """Miscalibrated groups first, and those with the largest gap first."""
        return sorted(self, key=lambda one: (not one.error.miscalibrated, -abs(one.gap)))

    @property
    def cut_words(self) -> str:
        """Which numeric columns were cut into ranges; empty if none was."""
        if not self.cut:
            return ""
        return f"{', '.join(self.cut)} cut into {RANGES} ranges with equally many rows"

    @property
    def settings(self) -> dict[str, str]:
        """How the groups were made and tested, for the report."""
        if not self.groups:
            return {}
        test = "ECE and mean of each group against a calibrated model, twice the smaller p-value, "
        test += f"Holm's correction, level {LEVEL:.0%}"
        return {"groups": "; ".join(filter(None, [test, self.cut_words]))}

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each group, and the ends of each interval in columns
        of their own."""
        names = ("column", "value", "rows", "verdict", "p_value", "adjusted", "q_value")
        columns: dict[str, list[Any]] = {
            name: [getattr(one, name) for one in self] for name in names
        }
        for name in self.groups[0].estimates if self.groups else ():
            columns |= _interval_columns(name, [one[name] for one in self])
        columns |= _interval_columns("ece", [one.error.estimate for one in self])
        return data_frame(columns)

    def __repr__(self) -> str:
        names = ("predicted", "observed", "gap", "aurc")
        rows = [
            [
                str(one.population),
                f"{one.rows:,}",
                *(with_interval(one[name]) for name in names),
                with_interval(one.error.estimate),
                p_value(one.q_value),
                one.verdict,
            ]
            for one in self.worst()
        ]
        return "\n".join(aligned_columns([["group", "rows", *names, "ece", "q", ""], *rows]))

    def _repr_html_(self) -> str:
        from ..report.audit_page import group_summary
        from ..report.page import as_summary

        return as_summary(group_summary(self))


def _interval_columns(name: str, each: list[Estimate]) -> dict[str, list[float]]:
    return {
        name: [float(x) for x in each],
        f"{name}_low": [x.low for x in each],
        f"{name}_high": [x.high for x in each],
    }


def group_errors(evidence: Evidence, cross: Crossing = False) -> GroupTable:
    """The measures and the calibration error of each group of the sample's columns, and of the
    crossings (see `crossings`)."""
    rows, found = _GroupedRows.of(evidence), []
    grouping = rows.grouping(cross)
    for column in grouping.columns:
        for number, population in enumerate(column.populations):
            found.append(rows.group(population, column.rows(number)))
    groups, nulls, on_average = zip(*found, strict=True) if found else ((), (), ())
    errors, p_values = tested_together([group.error for group in groups], nulls)
    both = np.clip(2 * np.minimum(p_values, on_average), SMALLEST, 1.0)
    tests = zip(both.tolist(), holm(both).tolist(), false_discovery(both).tolist(), strict=True)
    tested = tuple(
        replace(group, error=replace(error.with_p_value(p), adjusted=adjusted), q_value=q)
        for group, error, (p, adjusted, q) in zip(groups, errors, tests, strict=True)
    )
    return GroupTable(tested, grouping.left_out, grouping.cut)


@dataclass(frozen=True, eq=False)
class _GroupedRows:
    """The rows that groups are taken from.

    judged, top : the judged event, and whether the most probable class is the true one, as rows of
        two classes; the same if no event is judged.
    lens, event : the judged event.
    """

    judged: Predictions
    top: Predictions
    lens: Lens
    event: str
    sample_words: str

    @classmethod
    def of(cls, evidence: Evidence) -> _GroupedRows:
        sample, plan = evidence.sample, evidence.summary.plan
        lens = judged_lens(plan.event, plan.n_classes)
        top = single_event(sample, TopLabel())
        return cls(
            judged=top if plan.event is None else single_event(sample, lens),
            top=top,
            lens=lens,
            event=event_words(evidence) if plan.event is None else f"class {plan.event_class}",
            sample_words=evidence.sample_words,
        )

    @property
    def risk(self) -> bool:
        return self.judged is not self.top

    def grouping(self, cross: Crossing) -> Grouping:
        return grouping_of(self.judged.columns or {}, cross)

    def group(self, population: Population, inside: np.ndarray) -> tuple[Group, NullModel, float]:
        """The group of the rows `inside`, the null model of its calibration error, and the p-value
        of calibration in the large."""
        rows = self.judged.take(inside)
        event = EventTable.of(rows)
        error, null = self._error(event, population)
        measures = risk_measures(event, brier_of(rows)) if self.risk else agreement(event)
        confident = EventTable.of(self.top.take(inside)) if self.risk else event
        words = f" ({self.event}, {population}{self.sample_words})"
        estimates = {
            name: Estimate(x, **vars(x) | {"definition": x.definition + words})
            for name, x in (measures | _selective_measures(confident)).items()
        }
        group = Group(population, event.n, estimates, error, self.risk)
        return group, null, large_p_value(event)

    def _error(self, event: EventTable, population: Population) -> tuple[LensError, NullModel]:
        members = event.rows
        assert members is not None
        view = View(event.p[members.place], members.happened)
        grid = FineGrid.of_view(view, members.weight / members.weight.max())
        dependent = None if members.clusters is None else DependentEvent(view, members.clusters)
        words = definition_of(self.lens) + f", where {population}{self.sample_words}"
        error = binned_error("ece", grid, WIDTH, words, resamples=FEWER_RESAMPLES, event=dependent)
        return replace(error, event=self.event), NullModel.of_coarse_grid(grid, dependent)


def _selective_measures(event: EventTable) -> dict[str, Estimate]:
    """Selective prediction in a group: whether an answer of given confidence is right."""
    found = risk_coverage_of(event, points=1)
    accuracy = found.accuracy_at(COVERAGE)
    return {"aurc": found.aurc, "accuracy_at_80": accuracy, "confidence_auroc": found.auroc}
