"""Validation of a risk model: how well the probability of an event fits what happened, in all rows
and in each group.

The measures are those that clinical and credit validation report (TRIPOD; Steyerberg et al. 2010):
observed / expected ratio, calibration in the large, slope and intercept, ICI / E50 / E90 / Emax,
Brier score on the 0-1 scale with its skill, AUC and average precision, each with a 95% interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Unpack

import numpy as np

from ..choices.lenses import Binary, View
from ..choices.scores import Brier
from ..data.arrays import as_array, named_columns
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.populations import group_columns
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..engines.memory import summary
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.discrimination import auc, average_precision
from ..scoring.events import EventTable, bounded_estimate
from ..scoring.expected_scores import estimate_score
from ..scoring.intervals import wilson
from ..scoring.proper_scores import clustered_sample
from ..states import Plan
from .event_measures import CalibrationIndices, CalibrationLine, indices_of, line_of
from .fine_grid import FineGrid
from .significance import holm
from .views import dependent_events

LEVEL = 0.05
ROUNDING = 1e-9
MOST_ERROR = 1e3  # of a slope; beyond, the outputs separate the outcomes and no line exists
TOO_HIGH, TOO_LOW = "risk too high", "risk too low"
NAMES = {
    "observed": "observed rate",
    "predicted": "mean predicted risk",
    "observed_expected": "observed / expected",
    "in_the_large": "calibration in the large",
    "slope": "calibration slope",
    "intercept": "calibration intercept",
    "ici": "ICI",
    "e50": "E50",
    "e90": "E90",
    "emax": "Emax",
    "brier": "Brier score (0 to 1)",
    "brier_skill": "Brier skill score",
    "auc": "AUC (c-statistic)",
    "average_precision": "average precision",
}
SHOWN_OF_GROUPS = ("predicted", "observed", "observed_expected", "slope", "auc")


@dataclass(frozen=True)
class Validation:
    """The measures of one population: all rows, or those of a group.

    column, value : which rows; both are empty for all rows.
    rows, events : how many rows there are, and in how many the event happened.
    p_value : of calibration in the large, two-sided; `adjusted` for the number of groups (Holm
        1979).
    left_out : rows with a probability of exactly 0 or 1, which do not enter slope and intercept.

    Measures that these rows do not determine, such as the AUC without an event, are NaN.
    """

    column: str
    value: str
    rows: int
    events: int
    observed: Estimate
    predicted: Estimate
    observed_expected: Estimate
    in_the_large: Estimate
    slope: Estimate
    intercept: Estimate
    ici: Estimate
    e50: Estimate
    e90: Estimate
    emax: Estimate
    brier: Estimate
    brier_skill: Estimate
    auc: Estimate
    average_precision: Estimate
    p_value: float
    adjusted: float
    left_out: int

    @property
    def verdict(self) -> str:
        """ "risk too high" or "risk too low" if calibration in the large is significantly off after
        Holm's correction for the number of groups, else ""."""
        if not self.adjusted <= LEVEL:
            return ""
        return TOO_HIGH if self.predicted > self.observed else TOO_LOW

    def estimates(self) -> Iterator[tuple[str, Estimate]]:
        """Each measure by its name in Python."""
        for field in fields(self):
            if isinstance(estimate := getattr(self, field.name), Estimate):
                yield field.name, estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {
            "column": self.column,
            "value": self.value,
            "rows": self.rows,
            "events": self.events,
            "verdict": self.verdict,
            "p_value": _finite(self.p_value),
            "adjusted": _finite(self.adjusted),
            "left_out": self.left_out,
        }
        return found | {name: estimate.to_dict() for name, estimate in self.estimates()}


@dataclass(frozen=True)
class ValidationTable:
    """Validations of all rows (`overall`) and of each group. `event` is the class whose probability
    is judged."""

    event: Any
    overall: Validation
    groups: tuple[Validation, ...] = ()

    def __iter__(self) -> Iterator[Validation]:
        yield self.overall
        yield from self.groups

    def __getitem__(self, place: int) -> Validation:
        return tuple(self)[place]

    def __len__(self) -> int:
        return 1 + len(self.groups)

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row for each population, and the ends of each interval in
        columns of their own."""
        import narwhals as nw

        each = tuple(self)
        columns: dict[str, list[Any]] = {
            name: [getattr(one, name) for one in each]
            for name in ("column", "value", "rows", "events", "verdict", "adjusted")
        }
        for name, _ in self.overall.estimates():
            columns[name] = [float(getattr(one, name)) for one in each]
            columns[f"{name}_low"] = [getattr(one, name).low for one in each]
            columns[f"{name}_high"] = [getattr(one, name).high for one in each]
        return nw.from_dict(columns, backend="pandas").to_native()

    def __repr__(self) -> str:
        one = self.overall
        measures = [[words, _shown(getattr(one, name))] for name, words in NAMES.items()]
        head = f"Probability of {self.event}: {one.rows:,} rows, {one.events:,} events"
        lines = [head + (f" ({one.verdict})" if one.verdict else ""), *_aligned_columns(measures)]
        if self.groups:
            names = ("rows", "events", *(NAMES[name] for name in SHOWN_OF_GROUPS), "")
            rows = [
                [
                    f"{group.column} = {group.value}",
                    f"{group.rows:,}",
                    f"{group.events:,}",
                    *(_shown(getattr(group, name)) for name in SHOWN_OF_GROUPS),
                    group.verdict,
                ]
                for group in self.groups
            ]
            lines += ["", *_aligned_columns([["group", *names], *rows])]
        return "\n".join(lines)


def _aligned_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width; the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if k else text.ljust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


@documents_row_options
def validation_table(
    y_true: Any,
    y_proba: Any = None,
    groups: Any = None,
    *,
    cross: bool = False,
    **options: Unpack[RowOptions],
) -> ValidationTable:
    """Validate the probability of an event in all rows and in each group.

    y_true, y_proba : labels and probabilities of two classes; the second class is the event. With
        `Predictions`, its columns are the groups unless `groups` is given.
    groups : one value per row, or a frame or mapping of such columns. Numeric columns with more
        than 20 values are cut into five ranges with equally many rows. Other columns with more than
        50 values are left out.
    cross : adds a group for each combination of values of the columns.

    Group labels ("risk too high", "risk too low") are corrected for the number of groups.

    >>> table = validation_table([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(table.overall.auc), table.overall.events
    (0.75, 2)
    >>> round(table.overall.observed_expected, 3)
    1.212
    """
    rows = rows_of(y_true, y_proba, **options)
    if rows.n_classes != 2:
        raise InputError(rows.name("probs"), "must have two classes", f"{rows.n_classes} classes")
    columns = _columns(rows, groups)
    return validate(rows, columns, cross=cross)


def _columns(rows: Predictions, groups: Any) -> dict[str, np.ndarray]:
    if groups is None:
        return dict(rows.columns or {})
    if isinstance(groups, str):
        raise InputError("groups", "must be one value per row, or columns", repr(groups))
    columns = named_columns(groups, "groups")
    columns = {"group": as_array(groups, "groups")} if columns is None else columns
    for column in columns.values():
        if column.ndim != 1:
            raise InputError("groups", "must have one value per row", f"has shape {column.shape}")
        if len(column) != len(rows):
            raise InputError("groups", f"must have one value per row ({len(rows):,})", len(column))
    return columns


def validate(
    rows: Predictions, columns: dict[str, np.ndarray], *, cross: bool = False
) -> ValidationTable:
    """The table of rows in memory."""
    good = survey(rows).good
    names = [name for name, values in columns.items() if values.ndim == 1]
    found: list[Validation] = []
    for one in group_columns(
        {name: columns[name][good] for name in names}, names if cross and len(names) > 1 else ()
    ):
        for number, value in enumerate(one.values):
            inside = good[one.rows(number)]
            if len(inside):
                found.append(_validation(rows.take(inside), one.column, value))
    overall = _validation(rows)
    overall = replace(overall, adjusted=overall.p_value)
    return ValidationTable(rows.class_order[1], overall, _adjusted(found))


def _adjusted(found: Sequence[Validation]) -> tuple[Validation, ...]:
    p = np.array([1.0 if math.isnan(one.p_value) else one.p_value for one in found])
    return tuple(replace(one, adjusted=q) for one, q in zip(found, holm(p).tolist(), strict=True))


def _validation(rows: Predictions, column: str = "", value: str = "") -> Validation:
    event = EventTable.of(rows)
    line, indices, brier = _line(event), _indices(rows, event), _brier(rows)
    return Validation(
        column=column,
        value=value,
        rows=event.n,
        events=int(event.count[:, 1].sum()),
        observed=_observed(event),
        predicted=_predicted(event),
        observed_expected=_ratio(event),
        in_the_large=line.offset,
        slope=line.slope,
        intercept=line.intercept,
        ici=indices.ici,
        e50=indices.e50,
        e90=indices.e90,
        emax=indices.emax,
        brier=brier[0],
        brier_skill=brier[1],
        auc=auc(event),
        average_precision=average_precision(event),
        p_value=_large_p_value(event),
        adjusted=math.nan,
        left_out=line.left_out,
    )


def _line(event: EventTable) -> CalibrationLine:
    """The calibration line; coefficients that these rows do not determine are NaN."""
    none = Estimate(math.nan, n=event.n, definition="these rows determine no calibration line")
    try:
        line = line_of(event)
    except InputError:
        return CalibrationLine(
            slope=none,
            intercept=none,
            offset=none,
            slope_error=math.nan,
            intercept_error=math.nan,
            offset_error=math.nan,
            converged=False,
            left_out=0,
            n=event.n,
        )
    separated = not line.converged or line.slope_error >= MOST_ERROR
    return replace(line, slope=none, intercept=none) if separated else line


def _indices(rows: Predictions, event: EventTable) -> CalibrationIndices:
    members = event.rows
    assert members is not None
    view = View(event.p[members.place], members.happened)
    grid = FineGrid.of_view(view, members.weight / members.weight.max())
    dependent = dependent_events(rows, Binary())
    enough = dependent is None or dependent[0].clusters.count > 1
    return indices_of(grid, interval=enough, event=None if dependent is None else dependent[0])


def _brier(rows: Predictions) -> tuple[Estimate, Estimate]:
    """Half of `brier_score`, which sums over both classes; and 1 less the normalised score."""
    found = summary(rows, Plan.of(rows))
    clustered = clustered_sample(rows, found)
    score, ratio = (
        estimate_score(found, Brier(), normalize=normalize, clustered=clustered)
        for normalize in (False, True)
    )
    words = "mean of (p - y)^2"
    halved = Estimate(
        score / 2, low=score.low / 2, high=min(score.high / 2, 1.0), n=score.n, definition=words
    )
    return halved, Estimate(
        1 - ratio,
        low=1 - ratio.high,
        high=1 - ratio.low,
        n=ratio.n,
        definition=f"1 - ({words}) / (that of the base-rate forecast)",
    )


def _observed(event: EventTable) -> Estimate:
    happened = np.broadcast_to(np.array([0.0, 1.0]), event.share.shape)
    rows = event.effective_rows / event.widening(happened - event.rate) ** 2
    low, high = wilson(event.rate, rows)
    words = "share of rows in which the event happened" + event.words
    return Estimate(event.rate, low=low, high=high, n=event.n, definition=words)


def _predicted(event: EventTable) -> Estimate:
    centred = np.broadcast_to((event.p - event.predicted)[:, None], event.share.shape)
    words, rows = "mean probability of the event", event.effective_rows
    return bounded_estimate(event, event.predicted, centred, words, rows=rows)


def _ratio(event: EventTable) -> Estimate:
    """Observed / expected events, O / E. Its interval is Wilson's for the rate, of as many rows as
    make its variance that of the ratio: where predictions explain the outcomes, more than there
    are."""
    words = "observed / expected events" + event.words
    if not event.predicted > 0:
        return Estimate(math.nan, n=event.n, definition=words)
    ratio = event.rate / event.predicted
    influence = np.array([0.0, 1.0]) - ratio * event.p[:, None]
    error, spread = event.standard_error(influence), event.rate * (1 - event.rate)
    if math.isnan(error):
        return Estimate(ratio, n=event.n, definition=words)
    rows = spread / error**2 if error > 0 and spread > 0 else event.effective_rows
    low, high = wilson(event.rate, rows)
    return Estimate(
        ratio,
        low=low / event.predicted,
        high=high / event.predicted,
        n=event.n,
        definition=words,
    )


def _large_p_value(event: EventTable) -> float:
    """Two-sided p-value of observed against expected events, twice the smaller tail.

    The sum of events of a calibrated model is approximately binomial with the same mean and
    variance (Ehm 1991), also for rare events. For weighted or dependent rows it is taken as normal.
    """
    from scipy.special import betainc

    residual = np.array([0.0, 1.0]) - event.p[:, None]
    variance = float((event.squared.sum(axis=1) * event.p * (1 - event.p)).sum())
    apart = float((event.weight * residual).sum())
    wider = event.widening(residual)
    if variance <= 0:  # all probabilities are 0 or 1
        return float(abs(apart) < ROUNDING)
    if event.weighted or wider != 1:
        return math.erfc(abs(apart) / math.sqrt(2 * variance) / wider)
    happened, expected = float(event.count[:, 1].sum()), float(event.count.sum(axis=1) @ event.p)
    chance = 1 - variance / expected
    trials = expected / chance
    at_least = betainc(happened, trials - happened + 1, chance) if happened > 0 else 1.0
    at_most = 1 - betainc(happened + 1, trials - happened, chance) if happened < trials else 1.0
    return float(min(1.0, 2 * min(at_least, at_most)))


def _shown(x: Estimate) -> str:
    if math.isnan(x):
        return "–"
    if math.isnan(x.low):
        return f"{x:.3f}"
    return f"{x:.3f} ({x.low:.3f} to {x.high:.3f})".replace("-", "−")


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
