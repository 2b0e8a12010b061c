"""Monitor a stream: compare its last rows with a reference, and raise an alarm if the model changed
significantly."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..audits.state import State, check_rows, rows_for, statistics
from ..data.extras import needed
from ..data.predictions import Predictions
from ..errors import InputError
from ..files.writing import write_bytes
from ..states import AuditState, Plan
from ..states.storing import pack, unpack
from ..text import counted, number, significant, whole_percent
from .alarm import Alarm, Check, direction
from .drift import Change, Reference, bad_rows_change, changes

SCHEMA = "probaudit.monitor/2"
SAMPLE_ROWS = 10_000  # of each state in the window


class Monitor:
    """Rolling windows over a stream of rows, each compared with a reference.

    reference : `Predictions`, or a state of them (`statistics`), from a time when the model worked
        well.
    window, every : after each `every` rows the monitor checks the last `window` rows; `every`
        divides `window`.
    by : the unit of both: "rows", or "blocks" (calls of `update`, for example one per day).
    alpha, horizon : in any `horizon` consecutive checks, the probability of a false alarm by any
        measure is at most alpha. Each test has level alpha / (horizon x measures) (Bonferroni), so
        that windows may overlap and measures may be correlated. Rows must be independent.
    ignore : by measure, the largest difference that does not matter. An alarm then needs evidence
        of a larger change (the tolerance of Podkopaev & Ramdas 2022). For `priors`, it is a change
        of the frequency of one class.
    history : the number of checks and alarms to keep.

    Memory is bounded: window / every states, and the history. A measure raises an alarm when its
    change becomes significant, and not again before it has been insignificant.

    >>> from probaudit import simulate
    >>> world = simulate.gaussian_posteriors(4000, 2, seed=1)
    >>> monitor = Monitor(Predictions(world.y, world.cal), window=1000, every=500)
    >>> monitor.update(world.y, world.cal)
    []
    >>> alarms = monitor.update(1 - world.y[:1000], world.cal[:1000])
    >>> print(*[alarm.measure for alarm in alarms][:3])
    log_score brier_score accuracy
    """

    def __init__(
        self,
        reference: Predictions | AuditState,
        *,
        window: int = 10_000,
        every: int = 1_000,
        by: Literal["rows", "blocks"] = "rows",
        alpha: float = 0.05,
        horizon: int = 1_000,
        ignore: Mapping[str, float] | None = None,
        history: int = 1_000,
    ) -> None:
        if by not in ("rows", "blocks"):
            raise InputError("by", 'must be "rows" or "blocks"', repr(by))
        counts = {"window": window, "every": every, "horizon": horizon, "history": history}
        for name, count in counts.items():
            if not (isinstance(count, int) and count >= 1):
                raise InputError(name, "must be a whole number, at least 1", repr(count))
        if window % every:
            raise InputError("every", f"must divide the window of {window}", every)
        if not 0 < alpha < 1:
            raise InputError("alpha", "must lie inside (0, 1)", alpha)
        if not isinstance(reference, (Predictions, AuditState)):
            raise InputError(
                "reference", "must be `Predictions` or a state", type(reference).__name__
            )
        self._reference_state = (
            reference if isinstance(reference, AuditState) else statistics(reference)
        )
        self.reference = Reference(self._reference_state.finalise())
        _refuse_clusters(self.reference.evidence.sample)
        self.ignore = _valid_ignore(ignore, self.reference.measures)
        self.window_size, self.every, self.by = window, every, by
        self.alpha, self.horizon = float(alpha), horizon
        self.rows, self.checks_made = 0, 0
        self.checks: deque[Check] = deque(maxlen=history)
        self.alarms: deque[Alarm] = deque(maxlen=history)
        self._panes: deque[AuditState] = deque(maxlen=window // every)
        self._open, self._filled = self._pane(), 0

    def _pane(self) -> AuditState:
        return AuditState(self.plan, sample_rows=SAMPLE_ROWS)

    @property
    def plan(self) -> Plan:
        """The plan of the reference, which the stream must share."""
        return self._reference_state.plan

    @property
    def level(self) -> float:
        """The significance level of each test: an alarm needs a p-value below it."""
        return self.alpha / (self.horizon * len(self.reference.measures))

    @property
    def window(self) -> State | None:
        """The state of the last full window, which can be audited; None before there is one."""
        if len(self._panes) < (self._panes.maxlen or 0):
            return None
        whole = State(self.plan)
        for pane in self._panes:
            whole.merge(pane)
        return whole

    def update(
        self,
        y_true: Any,
        y_proba: Any = None,
        *,
        sample_weight: Any = None,
        features: Any = None,
        feature_names: Sequence[str] | None = None,
        columns: Any = None,
    ) -> list[Alarm]:
        """Add rows, as labels and outputs or as `Predictions`, and return the alarms they raise.

        With `by="rows"`, alarms do not depend on how the stream is split into blocks. A block with
        an invalid row raises an error and adds nothing, unless the reference drops invalid rows.
        """
        rest = {
            "sample_weight": sample_weight,
            "features": features,
            "feature_names": feature_names,
            "columns": columns,
        }
        rows = rows_for(self.plan, y_true, y_proba, **rest)
        if rows is not None:
            _refuse_clusters(rows)
            check_rows(self.plan, rows, self.rows)
            for pane in (*self._panes, self._open):
                if pane.sample is not None:
                    pane.sample.check(rows)
        if self.by == "blocks":
            return self._add(rows, 1)
        raised, first = [], 0
        while rows is not None and first < len(rows):
            part = rows.take(slice(first, first + self.every - self._filled))
            raised += self._add(part, len(part))
            first += len(part)
        return raised

    def _add(self, rows: Predictions | None, units: int) -> list[Alarm]:
        if rows is not None:
            self._open.update(rows, start=self.rows)
            self.rows += len(rows)
        self._filled += units
        return self._close() if self._filled == self.every else []

    def _close(self) -> list[Alarm]:
        self._panes.append(self._open)
        self._open, self._filled = self._pane(), 0
        window = self.window
        return [] if window is None else self._check(window)

    def _check(self, window: State) -> list[Alarm]:
        summary = window.sums.statistics.finalise()
        if summary.rows:
            compared = changes(self.reference, window.finalise(), self.ignore)
        elif summary.dropped:  # no valid row, so that no other measure is known
            then = self.reference.evidence.summary
            compared = (bad_rows_change(summary, then, self.ignore.get("bad_rows", 0.0)),)
        else:
            return []
        before = self.checks[-1].alarming if self.checks else ()
        alarming = tuple(change.measure for change in compared if change.p_value < self.level)
        self.checks_made += 1
        check = Check(
            number=self.checks_made,
            first_row=next(iter(window.covered))[0],
            last_row=window.covered.end - 1,
            changes=compared,
            alarming=alarming,
        )
        self.checks.append(check)
        raised = [
            Alarm.of(check, change)
            for change in compared
            if change.measure in set(alarming) - set(before)
        ]
        self.alarms.extend(raised)
        return raised

    def report(self) -> str:
        """The last check as a table, and the alarms so far as text."""
        several = f"{self.window_size:,} {self.by}"
        last = several if self.window_size > 1 else self.by.removesuffix("s")
        lines = [
            f"{counted(self.rows)}, {_count_of_checks(self.checks_made)} of the last {last}, "
            f"against a reference of {counted(self.reference.evidence.summary.rows)}.",
            f"In {self.horizon:,} checks the probability of any false alarm is at most "
            f"{whole_percent(self.alpha)} (each of {len(self.reference.measures)} tests: "
            f"p < {significant(self.level, 1)}).",
        ]
        if not self.checks:
            return "\n".join([*lines, "No window is full yet."])
        lines += ["", *_table(self.checks[-1]), ""]
        return "\n".join([*lines, *([str(alarm) for alarm in self.alarms] or ["No alarm so far."])])

    def to_frame(self) -> Any:
        """The last checks as a pandas DataFrame, with a row for each check and measure."""
        rows = [
            {"check": check.number, "first_row": check.first_row, "last_row": check.last_row}
            | asdict(change)
            | {"alarm": change.measure in check.alarming}
            for check in self.checks
            for change in check.changes
        ]
        names = ["check", "first_row", "last_row", *(f.name for f in fields(Change)), "alarm"]
        return needed("pandas", "A data frame").DataFrame(rows, columns=names)

    def save(self, path: str | Path) -> None:
        """Write the monitor to a file, atomically. `load` restores it."""
        header = {
            "schema": SCHEMA,
            "choices": {
                "window": self.window_size,
                "every": self.every,
                "by": self.by,
                "alpha": self.alpha,
                "horizon": self.horizon,
                "ignore": self.ignore,
                "history": self.checks.maxlen,
            },
            "rows": self.rows,
            "checks_made": self.checks_made,
            "filled": self._filled,
            "checks": [_plain(asdict(check)) for check in self.checks],
            "alarms": [_plain(asdict(alarm)) for alarm in self.alarms],
        }
        states = {"reference": self._reference_state, "open": self._open}
        states |= {f"pane.{i}": pane for i, pane in enumerate(self._panes)}
        write_bytes(
            Path(path),
            pack(
                header, {name: np.frombuffer(s.to_bytes(), np.uint8) for name, s in states.items()}
            ),
        )

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """Read a monitor that `save` wrote."""
        try:
            content = Path(path).read_bytes()
        except OSError as problem:
            rule = "must be a file that can be read"
            raise InputError("path", rule, f"{path}: {problem.strerror}") from None
        header, arrays = unpack(content, SCHEMA)
        try:
            states = {
                name: AuditState.from_bytes(array.tobytes()) for name, array in arrays.items()
            }
            monitor = cls(states["reference"], **header["choices"])
            monitor.rows, monitor.checks_made = int(header["rows"]), int(header["checks_made"])
            monitor._open, monitor._filled = states["open"], int(header["filled"])
            monitor._panes.extend(states[f"pane.{i}"] for i in range(len(states) - 2))
            monitor.checks.extend(_stored_check(stored) for stored in header["checks"])
            monitor.alarms.extend(
                Alarm(**(stored | {"change": _change(stored["change"])}))
                for stored in header["alarms"]
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(
                "path", f"must be a complete file of the form {SCHEMA}", str(problem)
            ) from None
        return monitor

    def __repr__(self) -> str:
        checks = _count_of_checks(self.checks_made)
        return f"Monitor({self.rows:,} rows, {checks}, {len(self.alarms)} alarms)"


def _table(check: Check) -> Iterator[str]:
    """The changes of a check, one line per measure."""
    yield f"{'measure':16}{'reference':>11}{'window':>11}{'change':>11}   95% interval"
    for change in check.changes:
        mark = f"  ALARM ({direction(change)})" if change.measure in check.alarming else ""
        numbers = "".join(
            f"{number(x):>11}" for x in (change.reference, change.recent, change.difference)
        )
        yield f"{change.measure:16}{numbers}   {number(change.low)} to {number(change.high)}{mark}"


def _count_of_checks(count: int) -> str:
    return "1 check" if count == 1 else f"{count:,} checks"


def _refuse_clusters(rows: Predictions) -> None:
    if rows.clusters is not None:
        raise InputError(
            "clusters",
            "must be omitted: the tests of a monitor assume independent rows",
            way_out=("pass one row of each cluster",),
        )


def _valid_ignore(ignore: Mapping[str, float] | None, measures: Sequence[str]) -> dict[str, float]:
    found = dict(ignore or {})
    for name, least in found.items():
        if name not in measures:
            raise InputError("ignore", f"must name measures: {', '.join(measures)}", repr(name))
        if not (isinstance(least, (int, float)) and 0 <= least < math.inf):
            rule = "differences must be finite and not negative"
            raise InputError("ignore", rule, f"{name}: {least!r}")
    return found


def _plain(value: Any) -> Any:
    """A copy in which numbers that JSON does not have (infinite, NaN) are text."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _change(stored: Mapping[str, Any]) -> Change:
    numbers = {
        name: float(value) for name, value in stored.items() if name not in ("measure", "detail")
    }
    return Change(measure=stored["measure"], detail=stored["detail"], **numbers)


def _stored_check(stored: Mapping[str, Any]) -> Check:
    found = tuple(_change(change) for change in stored["changes"])
    return Check(**{**stored, "changes": found, "alarming": tuple(stored["alarming"])})
