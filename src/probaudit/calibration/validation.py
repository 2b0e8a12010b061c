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
from typing import Any, ClassVar, Unpack

import numpy as np

from ..choices.lenses import Binary, View, event_lens
from ..choices.scores import Brier
from ..data.arrays import as_array, data_frame, named_columns
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.populations import Crossing, Population, grouping_of
from ..data.predictions import Predictions
from ..engines.memory import summary
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.discrimination import auc, average_precision
from ..scoring.events import EventTable, bounded_estimate, normal_estimate
from ..scoring.expected_scores import estimate_score
from ..scoring.intervals import wilson
from ..scoring.proper_scores import clustered_sample
from ..states import Plan
from ..text import MISSING, TextTable, short_number
from .dependent_event import DependentEvent
from .event_measures import CalibrationIndices, CalibrationLine, indices_of, line_of
from .fine_grid import FineGrid
from .significance import holm
from .views import dependent_events, single_event

LEVEL = 0.05
ROUNDING = 1e-9
POISSON = 1e-12  # probabilities below which a binomial is Poisson
ALL_ROWS = Population()
MOST_ERROR = 1e3  # of a slope; beyond, the outputs separate the outcomes and no line exists
BRIER_WORDS = "mean of (p - y)^2"
SKILL_WORDS = f"1 - ({BRIER_WORDS}) / (that of the base-rate forecast)"
TOO_HIGH, TOO_LOW = "predicted too high", "predicted too low"
NAMES = {
    "observed": "observed rate",
    "predicted": "mean predicted probability",
    "gap": "predicted − observed",
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
SHOWN = ("column", "value", "rows", "events", "verdict")
SHOWN_OF_GROUPS = ("predicted", "observed", "observed_expected", "slope", "auc")


class Measured:
    """A row of a table: estimates, and the fields `PLAIN` besides them."""

    PLAIN: ClassVar[tuple[str, ...]] = ()

    def estimates(self) -> Iterator[tuple[str, Estimate]]:
        """Each measure by its name in Python."""
        for field in fields(self):  # type: ignore[arg-type]
            if isinstance(estimate := getattr(self, field.name), Estimate):
                yield field.name, estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {name: _plain(getattr(self, name)) for name in self.PLAIN}
        return found | {name: estimate.to_dict() for name, estimate in self.estimates()}


def frame_of(rows: Sequence[Measured], names: Sequence[str]) -> Any:
    """A pandas DataFrame with these columns, each estimate, and the ends of its interval."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in names}
    for name, _ in rows[0].estimates():
        columns[name] = [float(getattr(row, name)) for row in rows]
        columns[f"{name}_low"] = [getattr(row, name).low for row in rows]
        columns[f"{name}_high"] = [getattr(row, name).high for row in rows]
    return data_frame(columns)


@dataclass(frozen=True)
class Validation(Measured):
    """The measures of one population: all rows, or those of a group.

    population : which rows, by their values of columns.
    rows, events : how many rows there are, and in how many the event happened.
    p_value : of calibration in the large, two-sided; `adjusted` for the number of groups (Holm
        1979).
    left_out : rows with a probability of exactly 0 or 1, which do not enter slope and intercept.

    Measures that these rows do not determine, such as the AUC without an event, are NaN.
    """

    PLAIN = (*SHOWN, "p_value", "adjusted", "left_out")

    population: Population
    rows: int
    events: int
    observed: Estimate
    predicted: Estimate
    gap: Estimate
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
    def column(self) -> str:
        """The column of the group, "a*b" if several are crossed; empty for all rows."""
        return self.population.column

    @property
    def value(self) -> str:
        """The value of the group."""
        return self.population.value

    @property
    def verdict(self) -> str:
        """ "predicted too high" or "predicted too low" if calibration in the large is significantly
        off after Holm's correction for the number of groups, else ""."""
        if not self.adjusted <= LEVEL:
            return ""
        return TOO_HIGH if self.predicted > self.observed else TOO_LOW


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
        return frame_of(tuple(self), (*SHOWN, "adjusted"))

    def _text_tables(self) -> list[TextTable]:
        one = self.overall
        measures = [[words, with_interval(getattr(one, name))] for name, words in NAMES.items()]
        head = f"Probability of {self.event}: {one.rows:,} rows, {one.events:,} events"
        head += f" ({one.verdict})" if one.verdict else ""
        tables = [TextTable(head, ("", "value (95% interval)"), measures)]
        if self.groups:
            names = ("group", "rows", "events", *(NAMES[name] for name in SHOWN_OF_GROUPS), "")
            rows = [
                [
                    str(group.population),
                    f"{group.rows:,}",
                    f"{group.events:,}",
                    *(with_interval(getattr(group, name)) for name in SHOWN_OF_GROUPS),
                    group.verdict,
                ]
                for group in self.groups
            ]
            tables.append(TextTable("", names, rows))
        return tables

    def __repr__(self) -> str:
        return "\n\n".join(table.text() for table in self._text_tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self._text_tables())


@takes_row_options
def validation_table(
    y_true: Any,
    y_proba: Any = None,
    groups: Any = None,
    *,
    cross: Crossing = False,
    **options: Unpack[RowOptions],
) -> ValidationTable:
    """Validate the probability of an event in all rows and in each group.

    y_true, y_proba : labels and probabilities, as in `log_score`. The second of two classes is the
        event, unless `event` names another class. With `Predictions`, its columns are the groups
        unless `groups` is given.
    groups : one value per row, or a frame or mapping of such columns. Numeric columns with more
        than 20 values are cut into five ranges with equally many rows. Other columns with more than
        50 values are left out.
    cross : adds a group for each combination of values: of all columns (True), or of each of the
        given crossings, such as ["sex*race", "sex*age"].

    Group labels ("predicted too high", "predicted too low") are corrected for the number of groups.

    >>> table = validation_table([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(table.overall.auc), table.overall.events
    (0.75, 2)
    >>> round(table.overall.observed_expected, 3)
    1.212
    """
    rows = rows_of(y_true, y_proba, **options)
    return validate(rows, _columns(rows, groups), cross=cross)


def _columns(rows: Predictions, groups: Any) -> dict[str, np.ndarray]:
    if groups is None:
        return dict(rows.columns or {})
    if isinstance(groups, str):
        raise InputError("groups", "must be one value per row, or columns", repr(groups))
    columns = named_columns(groups, "groups")
    columns = {"group": as_array(groups, "groups")} if columns is None else columns
    rows.check_index("groups", groups)
    for column in columns.values():
        if column.ndim != 1:
            raise InputError("groups", "must have one value per row", f"has shape {column.shape}")
        if len(column) != len(rows):
            raise InputError("groups", f"must have one value per row ({len(rows):,})", len(column))
    return columns


def validate(
    rows: Predictions, columns: dict[str, np.ndarray], *, cross: Crossing = False
) -> ValidationTable:
    """The table of rows in memory."""
    judged = single_event(replace(rows, columns=columns), event_lens(rows))
    found: list[Validation] = []
    for one in grouping_of(judged.columns or {}, cross).columns:
        for number, population in enumerate(one.populations):
            found.append(_validation(judged.take(one.rows(number)), population))
    overall = _validation(judged)
    overall = replace(overall, adjusted=overall.p_value)
    event = "a right answer" if rows.pairs else rows.event_class
    return ValidationTable(event, overall, _adjusted(found))


def _adjusted(found: Sequence[Validation]) -> tuple[Validation, ...]:
    p = np.array([1.0 if math.isnan(one.p_value) else one.p_value for one in found])
    return tuple(replace(one, adjusted=q) for one, q in zip(found, holm(p).tolist(), strict=True))


def _validation(rows: Predictions, population: Population = ALL_ROWS) -> Validation:
    event = EventTable.of(rows)
    return validation_of(event, _indices(rows, event), brier_of(rows), population)


def validation_of(
    event: EventTable,
    indices: CalibrationIndices,
    brier: tuple[Estimate, Estimate],
    population: Population = ALL_ROWS,
) -> Validation:
    """The measures of an event, given its calibration indices, Brier score and skill score."""
    line = known_line(event)
    measures: dict[str, Any] = risk_measures(event, brier, line)
    return Validation(
        population=population,
        rows=event.n,
        events=int(event.count[:, 1].sum()),
        **measures,
        ici=indices.ici,
        e50=indices.e50,
        e90=indices.e90,
        emax=indices.emax,
        p_value=large_p_value(event),
        adjusted=math.nan,
        left_out=line.left_out,
    )


def risk_measures(
    event: EventTable, brier: tuple[Estimate, Estimate], line: CalibrationLine | None = None
) -> dict[str, Estimate]:
    """The measures of an event that need no simulation, by name. `brier` : score and skill."""
    line = line or known_line(event)
    return agreement(event) | {
        "observed_expected": observed_expected(event),
        "in_the_large": line.offset,
        "slope": line.slope,
        "intercept": line.intercept,
        "brier": brier[0],
        "brier_skill": brier[1],
        "auc": auc(event),
        "average_precision": average_precision(event),
    }


def agreement(event: EventTable) -> dict[str, Estimate]:
    """The mean probability of an event, how often it happened, and the difference."""
    return {
        "predicted": mean_predicted(event),
        "observed": observed_rate(event),
        "gap": _gap(event),
    }


def known_line(event: EventTable) -> CalibrationLine:
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
    separated = not line.converged or not line.slope_error < MOST_ERROR
    return replace(line, slope=none, intercept=none) if separated else line


def _indices(rows: Predictions, event: EventTable) -> CalibrationIndices:
    grid, dependent = event_grid(rows, event)
    enough = dependent is None or dependent.clusters.count > 1
    return indices_of(grid, interval=enough, event=dependent)


def event_grid(rows: Predictions, event: EventTable) -> tuple[FineGrid, DependentEvent | None]:
    """The fine grid of the second of two classes, and its rows if they are in clusters."""
    members = event.rows
    assert members is not None
    view = View(event.p[members.place], members.happened)
    dependent = dependent_events(rows, Binary())
    grid = FineGrid.of_view(view, members.weight / members.weight.max())
    return grid, None if dependent is None else dependent[0]


def brier_of(rows: Predictions) -> tuple[Estimate, Estimate]:
    """Brier score and skill score of two classes."""
    found = summary(rows, Plan.of(rows))
    clustered = clustered_sample(rows, found)
    score, ratio = (
        estimate_score(found, Brier(), normalize=normalize, clustered=clustered)
        for normalize in (False, True)
    )
    return halved_brier(score, ratio)


def halved_brier(score: Estimate, ratio: Estimate) -> tuple[Estimate, Estimate]:
    """Half of `brier_score`, which sums over both classes; and 1 less the normalised score."""
    return halved(score), Estimate(
        1 - ratio, low=1 - ratio.high, high=1 - ratio.low, n=ratio.n, definition=SKILL_WORDS
    )


def halved(score: Estimate) -> Estimate:
    """A Brier score of two classes on the scale from 0 to 1."""
    return Estimate(
        score / 2,
        low=score.low / 2,
        high=min(score.high / 2, 1.0),
        n=score.n,
        definition=BRIER_WORDS,
    )


def event_brier(event: EventTable) -> tuple[Estimate, Estimate]:
    """Brier score and skill score of one of several classes. The base rate is the best
    constant, so its own change with the rows has no first-order effect."""
    loss = np.column_stack([event.p**2, (1 - event.p) ** 2])
    naive_loss = np.array([event.rate**2, (1 - event.rate) ** 2])
    value, naive = float((event.share * loss).sum()), event.rate * (1 - event.rate)
    rows = event.effective_rows
    score = bounded_estimate(event, value, loss - value, BRIER_WORDS, rows=rows)
    if naive == 0:
        return score, Estimate(math.nan, n=event.n, definition=SKILL_WORDS)
    ratio = value / naive
    return score, normal_estimate(
        event, 1 - ratio, (ratio * naive_loss - loss) / naive, SKILL_WORDS
    )


def observed_rate(event: EventTable) -> Estimate:
    happened = np.broadcast_to(np.array([0.0, 1.0]), event.share.shape)
    rows = event.effective_rows / event.widening(happened - event.rate) ** 2
    low, high = wilson(event.rate, rows)
    words = "share of rows in which the event happened" + event.words
    return Estimate(event.rate, low=low, high=high, n=event.n, definition=words)


def mean_predicted(event: EventTable) -> Estimate:
    centred = np.broadcast_to((event.p - event.predicted)[:, None], event.share.shape)
    words, rows = "mean probability of the event", event.effective_rows
    if event.constant:  # no sampling error
        p = event.predicted
        return Estimate(p, low=p, high=p, n=event.n, definition=words)
    return bounded_estimate(event, event.predicted, centred, words, rows=rows)


def _gap(event: EventTable) -> Estimate:
    """Predicted less observed. Where nothing is known about the rate, as in a single cluster, it
    lies between 0 and 1."""
    influence = event.p[:, None] - np.array([0.0, 1.0])
    low, high = _rate_interval(event, influence - (event.predicted - event.rate))
    return Estimate(
        event.predicted - event.rate,
        low=event.predicted - (1.0 if math.isnan(high) else high),
        high=event.predicted - (0.0 if math.isnan(low) else low),
        n=event.n,
        definition="mean probability of the event less its rate" + event.words,
    )


def observed_expected(event: EventTable) -> Estimate:
    """Observed / expected events, O / E."""
    words = "observed / expected events" + event.words
    if not event.predicted > 0:
        return Estimate(math.nan, n=event.n, definition=words)
    ratio = event.rate / event.predicted
    low, high = _rate_interval(event, np.array([0.0, 1.0]) - ratio * event.p[:, None])
    return Estimate(
        ratio,
        low=low / event.predicted,
        high=high / event.predicted,
        n=event.n,
        definition=words,
    )


def _rate_interval(event: EventTable, influence: np.ndarray) -> tuple[float, float]:
    """Wilson's interval for the rate of an event, of as many rows as make its variance that of an
    estimate with the given influence function: where predictions explain the outcomes, more than
    there are. NaN for a single cluster."""
    error, spread = event.standard_error(influence), event.rate * (1 - event.rate)
    if math.isnan(error) and event.n > 1:
        return math.nan, math.nan
    rows = event.effective_rows / (event.widening(influence) ** 2 if event.n > 1 else 1.0)
    low, high = wilson(event.rate, spread / error**2 if error > 0 and spread > 0 else rows)
    return float(low), float(high)


def large_p_value(event: EventTable) -> float:
    """Two-sided p-value of observed against expected events, twice the smaller tail.

    The sum of events of a calibrated model is approximately binomial with the same mean and
    variance (Ehm 1991), also for rare events. For weighted or dependent rows it is taken as normal.
    """
    from scipy.special import betainc, gammainc, gammaincc

    residual = np.array([0.0, 1.0]) - event.p[:, None]
    variance = float((event.squared.sum(axis=1) * event.p * (1 - event.p)).sum())
    apart = float((event.weight * residual).sum())
    wider = event.widening(residual)
    if variance <= 0:  # all probabilities are 0 or 1
        return float(abs(apart) < ROUNDING)
    if event.weighted or wider != 1:
        return math.erfc(abs(apart) / math.sqrt(2 * variance) / wider)
    happened, expected = float(event.count[:, 1].sum()), float(event.count.sum(axis=1) @ event.p)
    # as 1 - variance / expected, which would lose small probabilities
    chance = float(event.count.sum(axis=1) @ event.p**2) / expected
    if chance < POISSON:
        at_least = gammainc(happened, expected) if happened > 0 else 1.0
        return float(min(1.0, 2 * min(at_least, gammaincc(happened + 1, expected))))
    trials = expected / chance
    at_least = betainc(happened, trials - happened + 1, chance) if 0 < happened <= trials else 1.0
    if happened > trials:  # more than the binomial allows: count the rows without the event
        absent, unexpected = event.n - happened, event.n - expected
        chance = float(event.count.sum(axis=1) @ (1 - event.p) ** 2) / unexpected
        at_least = 1 - betainc(absent + 1, unexpected / chance - absent, chance)
    at_most = 1 - betainc(happened + 1, trials - happened, chance) if happened < trials else 1.0
    return float(min(1.0, 2 * min(at_least, at_most)))


def with_interval(x: Estimate) -> str:
    """An estimate in a table of text, with its interval if there is one."""
    if math.isnan(x):
        return MISSING
    if math.isnan(x.low):
        return short_number(x)
    return f"{short_number(x)} ({short_number(x.low)} to {short_number(x.high)})"


def _plain(x: Any) -> Any:
    return None if isinstance(x, float) and not math.isfinite(x) else x
