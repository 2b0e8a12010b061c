"""The calibration of each group of rows that share a value of a column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import FEWER_RESAMPLES
from ..calibration.views import LensRows, lens_rows
from ..choices.lenses import Binary, Lens, TopLabel, View
from ..data.arrays import value_names
from ..estimate import Estimate
from ..scoring.clusters import Clusters
from ..scoring.intervals import wilson
from ..states.evidence import Evidence
from .dependence import clustered_rows
from .errors_by_lens import event_words
from .lens_error import (
    WIDTH,
    LensError,
    NullModel,
    binned_error,
    definition_of,
    holm_adjusted,
)

MOST_GROUPS = 50  # a column with more values does not split the rows into groups


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
    at most 50 values. With two classes the error is that of the second class, because the errors of
    both classes can cancel in the most probable class."""
    groups, nulls, rows = [], [], _GroupedRows.of(evidence)
    for name, column in (evidence.sample.columns or {}).items():
        values, of_row = _column_groups(column[rows.shown.rows])
        for number, value in enumerate(values if len(values) <= MOST_GROUPS else ()):
            group, null = rows.group(name, value, np.flatnonzero(of_row == number))
            groups.append(group)
            nulls.append(null)
    errors = holm_adjusted([group.error for group in groups], nulls)
    return tuple(replace(group, error=error) for group, error in zip(groups, errors, strict=True))


@dataclass(frozen=True, eq=False)
class _GroupedRows:
    """The rows that groups are taken from.

    shown : the event of the most probable class, for accuracy and confidence.
    judged : the event of the calibration error; `lens` and `event` describe it.
    clusters : of the rows, if they are dependent.
    """

    evidence: Evidence
    shown: LensRows
    judged: LensRows
    lens: Lens
    event: str
    clusters: Clusters | None

    @classmethod
    def of(cls, evidence: Evidence) -> _GroupedRows:
        sample, clustered = evidence.sample, clustered_rows(evidence)
        two = sample.n_classes == 2 and not sample.pairs
        (shown,) = lens_rows(sample, TopLabel())
        (judged,) = lens_rows(sample, Binary()) if two else (shown,)
        return cls(
            evidence=evidence,
            shown=shown,
            judged=judged,
            lens=Binary() if two else TopLabel(),
            event=f"class {evidence.summary.plan.classes[1]}" if two else event_words(evidence),
            clusters=None if clustered is None else clustered.clusters,
        )

    def group(self, name: str, value: str, inside: np.ndarray) -> tuple[Group, NullModel]:
        """The group of the rows `inside`, and the null model of its calibration error."""
        where = f"where {name} = {value}{self.evidence.sample_words}"
        clusters = None if self.clusters is None else self.clusters.part(inside)
        view = View(self.judged.view.outputs[inside], self.judged.view.labels[inside])
        event = None if clusters is None else DependentEvent(view, clusters)
        grid = FineGrid.of_view(view, self.shown.weights[inside])
        error = binned_error(
            "ece",
            grid,
            WIDTH,
            definition_of(self.lens) + f", {where}",
            resamples=FEWER_RESAMPLES,
            event=event,
        )
        group = Group(
            column=name,
            value=value,
            rows=len(inside),
            stated=float(self._share(inside) @ self.shown.view.outputs[inside]),
            observed=self._accuracy(inside, clusters, where),
            error=replace(error, event=self.event),
        )
        return group, NullModel.of_coarse_grid(grid, event)

    def _share(self, inside: np.ndarray) -> np.ndarray:
        weights = self.shown.weights[inside]
        return np.asarray(weights / weights.sum())

    def _accuracy(self, inside: np.ndarray, clusters: Clusters | None, where: str) -> Estimate:
        share, right = self._share(inside), self.shown.view.labels[inside]
        value = float(share @ right)
        widening = 1.0 if clusters is None else clusters.widening(right - value)
        low, high = wilson(value, 1 / float(share @ share) / widening**2)
        what = "whose most probable class is the true one"
        what = "stated correct" if self.evidence.sample.pairs else what
        words = f"share of rows {what}, {where}"
        words += "" if clusters is None else f", {clusters.count:,} clusters"
        return Estimate(value, low=low, high=high, n=len(inside), definition=words)


def ungrouped_columns(evidence: Evidence) -> dict[str, str]:
    """The columns that `group_errors` leaves out, and why: more than 50 groups, or several values
    in each row."""
    left_out = {}
    for name, column in (evidence.sample.columns or {}).items():
        if column.ndim != 1:
            left_out[name] = (
                f"has {' x '.join(f'{size:,}' for size in column.shape[1:])} values in each row"
            )
        elif (count := len(_column_groups(column)[0])) > MOST_GROUPS:
            left_out[name] = f"has {count:,} values"
    return left_out


def _column_groups(column: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The values of a column as text, and the group of each row. A column with several values in
    each row has no groups."""
    if column.ndim != 1:
        return [], np.empty(0, np.int64)
    values, of_row = np.unique(value_names(column), return_inverse=True)
    return values.tolist(), of_row.reshape(-1)
