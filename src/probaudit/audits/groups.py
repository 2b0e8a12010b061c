"""The calibration of each group of rows that share a value of a column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import FEWER_RESAMPLES
from ..calibration.views import lens_rows
from ..choices.lenses import Binary, TopLabel, View
from ..data.arrays import value_names
from ..estimate import Estimate
from ..scoring.intervals import wilson
from ..states.evidence import Evidence
from .dependence import clustered_rows
from .lens_errors import (
    WIDTH,
    LensError,
    NullModel,
    binned_error,
    definition_of,
    event_words,
    holm_adjusted,
)

MOST_GROUPS = 50  # values of a column beyond which it does not split the rows into groups


@dataclass(frozen=True)
class Group:
    """Rows that share a value of a column: mean confidence (`stated`), accuracy (`observed`), and
    the calibration error."""

    column: str
    value: str
    rows: int
    stated: float
    observed: Estimate
    error: LensError

    @property
    def verdict(self) -> str:
        """ "overconfident", "underconfident" or "miscalibrated" if the calibration error is
        significant after Holm's correction for the number of groups, else "". The finding
        `miscalibrated_group` makes the same decision."""
        if not self.error.miscalibrated:
            return ""
        if self.stated > self.observed.high:
            return "overconfident"
        return "underconfident" if self.stated < self.observed.low else "miscalibrated"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        who = {
            "column": self.column,
            "value": self.value,
            "rows": self.rows,
            "stated": self.stated,
            "verdict": self.verdict,
        }
        return who | {"observed": self.observed.to_dict(), "error": self.error.to_dict()}


def group_errors(evidence: Evidence) -> tuple[Group, ...]:
    """Predicted and observed accuracy and the calibration error of each group, for each column of
    at most 50 values. With two classes the error is that of the second class: in the most probable
    class, errors of both classes can cancel."""
    (shown,), found, nulls = lens_rows(evidence.sample, TopLabel()), [], []
    two = evidence.sample.n_classes == 2 and not evidence.sample.pairs
    (judged,) = lens_rows(evidence.sample, Binary()) if two else (shown,)
    event = f"class {evidence.summary.plan.classes[1]}" if two else event_words(evidence)
    rows = clustered_rows(evidence)
    for name, column in (evidence.sample.columns or {}).items():
        values, of_row = _column_groups(column[shown.rows])
        for number, value in enumerate(values if len(values) <= MOST_GROUPS else ()):
            inside = np.flatnonzero(of_row == number)
            weights, where = shown.weights[inside], f"where {name} = {value}{evidence.sample_words}"
            share = weights / weights.sum()
            observed, stated = (
                float(share @ shown.view.labels[inside]),
                float(share @ shown.view.outputs[inside]),
            )
            clusters = None if rows is None else rows.clusters.part(inside)
            wider = (
                1.0 if clusters is None else clusters.widening(shown.view.labels[inside] - observed)
            )
            low, high = wilson(observed, 1 / float(share @ share) / wider**2)
            right = "whose most probable class is the true one"
            right = "stated correct" if evidence.sample.pairs else right
            words = f"share of rows {right}, {where}"
            view = View(judged.view.outputs[inside], judged.view.labels[inside])
            grid, dependent = FineGrid.of_view(view, weights), None
            if clusters is not None:
                words, dependent = (
                    f"{words}, {clusters.count:,} clusters",
                    DependentEvent(view, clusters),
                )
            definition = definition_of(Binary() if two else TopLabel()) + f", {where}"
            nulls.append(NullModel.of_coarse_grid(grid, dependent))
            error = binned_error(
                "ece", grid, WIDTH, definition, resamples=FEWER_RESAMPLES, event=dependent
            )
            error = replace(error, event=event)
            rate = Estimate(observed, low=low, high=high, n=len(inside), definition=words)
            found.append(Group(name, value, len(inside), stated, rate, error))
    errors = holm_adjusted([group.error for group in found], nulls)
    return tuple(replace(group, error=error) for group, error in zip(found, errors, strict=True))


def ungrouped_columns(evidence: Evidence) -> dict[str, str]:
    """The columns that `group_errors` leaves out, and why: more than 50 groups, or several values
    in each row."""
    found = {}
    for name, column in (evidence.sample.columns or {}).items():
        if column.ndim != 1:
            found[name] = (
                f"has {' x '.join(f'{size:,}' for size in column.shape[1:])} values in each row"
            )
        elif (count := len(_column_groups(column)[0])) > MOST_GROUPS:
            found[name] = f"has {count:,} values"
    return found


def _column_groups(column: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The values of a column as text, and the group of each row. Columns of several values in each
    row have none."""
    if column.ndim != 1:
        return [], np.empty(0, np.int64)
    values, of_row = np.unique(value_names(column), return_inverse=True)
    return values.tolist(), of_row.reshape(-1)
