"""States: count rows anywhere, merge the counts, audit the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data.arrays import as_array
from ..data.classes import class_list
from ..data.keywords import with_known_keywords
from ..data.predictions import OnBadRows, Predictions
from ..engines.good_rows import good_of_block
from ..errors import InputError
from ..states import AuditState, Plan, weight_exponent
from ..states.covered import Covered
from ..text import counted
from .estimates import named_costs

if TYPE_CHECKING:
    from .audit_result import Audit

# bits for the place of a row within its part, as in Spark's monotonically_increasing_id
PART_BITS = 33


class State(AuditState):
    """A mergeable summary of rows: exact sums, grids and a sample. `statistics` creates one.

    `update` adds rows, `+` adds another state (`merge` in place), and `audit` audits all of them.
    `save`, `load`, `to_bytes` and `from_bytes` store and send it. The sums are identical, bit for
    bit, however rows are split, ordered and merged. So is the sample, if each row keeps its number.
    """

    def __init__(self, plan: Plan, *, sample_rows: int | None = None, part: int = 0) -> None:
        super().__init__(plan, sample_rows=sample_rows)
        self.part = _part(part)

    def update(
        self,
        y_true: Any,
        y_proba: Any = None,
        *,
        start: int | None = None,
        numbers: Any = None,
        sample_weight: Any = None,
        features: Any = None,
        feature_names: Sequence[str] | None = None,
        columns: Any = None,
        clusters: Any = None,
    ) -> State:
        """Add rows: labels and outputs, or `Predictions` alone. An empty block adds nothing.

        An invalid row raises and nothing of the block is added, unless invalid rows are dropped.

        start : the number of the first row; by default, the next after the rows so far.
        numbers : the number of every row, if they are not consecutive. Each run costs a call.
        clusters : one value per row; rows with the same value are dependent, in this state and in
            those it is merged with. All rows of a state need a cluster, or none.

        >>> state = statistics(classes=2).update([1, 0], [0.9, 0.2]).update([], [])
        >>> state.update(Predictions([1], [0.4]))
        State(3 rows, 2 classes, probabilities)
        """
        rows = rows_for(
            self.plan,
            y_true,
            y_proba,
            sample_weight=sample_weight,
            features=features,
            feature_names=feature_names,
            columns=columns,
            clusters=clusters,
        )
        if rows is None:
            return self
        if numbers is not None:
            return self._update_numbered(rows, numbers, start)
        start = (
            (self.covered.end if self.rows else self.part << PART_BITS) if start is None else start
        )
        check_rows(self.plan, rows, start)
        super().update(rows, start=start)
        return self

    def _update_numbered(self, rows: Predictions, numbers: Any, start: int | None) -> State:
        if start is not None:
            raise InputError("numbers", "must not be given together with `start`")
        given = as_array(numbers, "numbers")
        if given.shape != (len(rows),) or given.dtype.kind not in "iu":
            rule = f"must be one whole number for each of {len(rows)} rows"
            raise InputError("numbers", rule, f"shape {given.shape}, {given.dtype}")
        order = np.argsort(given, kind="stable")
        given = given[order].astype(np.int64)
        runs = np.split(order, np.flatnonzero(np.diff(given) != 1) + 1)
        firsts = given[np.cumsum([0, *map(len, runs[:-1])])].tolist()
        self.covered.check_apart(
            Covered((first, first + len(run)) for first, run in zip(firsts, runs, strict=True))
        )
        check_rows(self.plan, rows, 0)
        for first, run in zip(firsts, runs, strict=True):
            super().update(rows.take(run), start=first)
        return self

    def _about(self) -> dict[str, Any]:
        """The part of an empty state. Otherwise the row numbers imply it, and states of the same
        rows have the same bytes."""
        return {"part": self.part} if self.part and not self.rows else {}

    @classmethod
    def _restored(cls, header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        state = super()._restored(header, arrays)
        first = next((first for first, _ in state.covered), 0)
        state.part = _part(header.get("part", first >> PART_BITS))
        return state

    def __add__(self, other: AuditState) -> State:
        if not isinstance(other, AuditState):
            return NotImplemented
        both = State(self.plan)
        both.merge(self).merge(other)
        return both

    def audit(self, *, repair: Any = None, regions: Any = None, title: str = "") -> Audit:
        """Audit the rows, as `audit` does. Fits use the sample.

        >>> state = statistics(classes=2).update([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7])
        >>> round(state.audit(repair=False)["accuracy"], 2)
        0.75
        """
        from .audit import audit_evidence

        return audit_evidence(self.finalise(), repair=repair, regions=regions, title=title)

    def __repr__(self) -> str:
        kind = self.plan.kind.replace("_", "-")
        return f"State({counted(self.rows)}, {self.plan.n_classes} classes, {kind})"


def rows_for(plan: Plan, y_true: Any, y_proba: Any = None, **rest: Any) -> Predictions | None:
    """Labels and outputs as `Predictions` for a plan; None if there are no rows."""
    if isinstance(y_true, Predictions):
        extra = next(
            (name for name, value in {"y_proba": y_proba, **rest}.items() if value is not None),
            None,
        )
        if extra is not None:
            raise InputError(extra, "must not be given with Predictions, which have their own")
        return y_true
    if y_proba is None:
        raise InputError("y_proba", "is required, unless the first argument is Predictions")
    labels, outputs = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    if labels.shape[:1] == outputs.shape[:1] == (0,):
        return None
    rows = Predictions(
        y_true,
        y_proba,
        from_logits=plan.kind == "logits",
        from_log_probs=plan.kind == "log_probabilities",
        pairs=plan.kind == "pairs",
        classes=plan.classes,
        event=plan.event_class,
        on_bad_rows=plan.on_bad_rows,
        tolerance=plan.tolerance,
        ignore_label=plan.ignore_label,
        names={"y": "y_true", "probs": "y_proba"},
        **rest,
    )
    rows.zero_rounding_errors()
    return rows


def check_rows(plan: Plan, rows: Predictions, start: int) -> None:
    """Raise at the first invalid row, before any row is added, unless invalid rows are dropped."""
    if plan.on_bad_rows == "error" and rows.kind == plan.kind and rows.class_order == plan.classes:
        good_of_block(plan, rows.block(0, len(rows))._replace(first_row=start))


@with_known_keywords
def statistics(
    rows: Predictions | None = None,
    *,
    classes: Sequence[Any] | int | None = None,
    event: Any = None,
    from_logits: bool = False,
    from_log_probs: bool = False,
    pairs: bool = False,
    max_weight: float | None = None,
    costs: Any = None,
    reject_cost: float = 0.1,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
    ignore_label: Any = None,
    sample_rows: int | None = None,
    part: int = 0,
) -> State:
    """An empty `State` for rows of the declared format; or, given `Predictions`, a state of them.

    classes : the class of each output column, in order; or their number, if labels are column
        numbers.
    event : the class that is judged as an event; the second of two classes by default.
    from_logits, from_log_probs, pairs : True if outputs are logits, log-probabilities, or pairs of
        a confidence and its correctness.
    max_weight : the largest weight, if rows have weights. States to be merged need the same.
    costs, reject_cost : as in `audit`.
    on_bad_rows : "error" stops at the first invalid row; "drop" leaves invalid rows out.
    tolerance : how far the sum of a row of probabilities may be from 1; 1e-5 by default.
    ignore_label : rows with this label are left out and counted.
    sample_rows : the number of rows kept for fits; by default as many as in an audit.
    part : a number that differs between states to be merged. The rows of part i are numbered from
        i 2^33 on, unless `update` gets their numbers.

    >>> from functools import reduce
    >>> from operator import add
    >>> blocks = [([1, 0], [0.9, 0.2]), ([1, 1], [0.4, 0.7]), ([0], [0.1])]
    >>> def count(i):  # the job of a worker: Ray, Beam, a pool of processes or a loop
    ...     return statistics(classes=2, part=i).update(*blocks[i]).to_bytes()
    >>> reduce(add, map(State.from_bytes, map(count, range(3))))
    State(5 rows, 2 classes, probabilities)
    """
    if rows is None:
        shape = _declared_row(
            classes,
            event=event,
            from_logits=from_logits,
            from_log_probs=from_log_probs,
            pairs=pairs,
            max_weight=max_weight,
            on_bad_rows=on_bad_rows,
            tolerance=tolerance,
            ignore_label=ignore_label,
        )
    elif not isinstance(rows, Predictions):
        way_out = ("pass labels and outputs to `update` of the state",)
        raise InputError("rows", "must be Predictions", type(rows).__name__, way_out=way_out)
    else:
        kinds = {"from_logits": from_logits, "from_log_probs": from_log_probs, "pairs": pairs}
        declared = {
            "classes": classes is not None,
            "event": event is not None,
            "on_bad_rows": on_bad_rows != "error",
            "tolerance": tolerance is not None,
            "ignore_label": ignore_label is not None,
        }
        twice = next((name for name, given in (kinds | declared).items() if given), None)
        if twice is not None:
            raise InputError(twice, "must not be given with Predictions, which declare it")
        shape = rows
    plan = Plan.of(shape, named_costs(costs), reject_cost)
    if max_weight is not None and rows is not None:
        plan = replace(plan, weight_exponent=weight_exponent(np.array([_weight(max_weight)])))
    state = State(plan, sample_rows=sample_rows, part=part)
    return state if rows is None else state.update(rows)


def _declared_row(
    classes: Sequence[Any] | int | None,
    *,
    event: Any,
    from_logits: bool,
    from_log_probs: bool,
    pairs: bool,
    max_weight: float | None,
    on_bad_rows: OnBadRows,
    tolerance: float | None,
    ignore_label: Any,
) -> Predictions:
    """One artificial row, which checks the declared format as real rows do."""
    if classes is None and pairs:
        classes = (False, True)
    if classes is None:
        rule = "is required for an empty state: the class of each output column, or their number"
        raise InputError("classes", rule)
    many = isinstance(classes, int) and not isinstance(classes, bool)
    listed = class_list(tuple(range(classes)) if many else classes, "classes")  # type: ignore[arg-type]
    if len(listed) < 2:
        raise InputError("classes", "must be at least two", repr(classes))
    return Predictions(
        listed[:1],
        np.full(1, 0.5) if pairs else np.full((1, len(listed)), 1 / len(listed)),
        from_logits=from_logits,
        from_log_probs=from_log_probs,
        pairs=pairs,
        classes=listed,
        event=event,
        sample_weight=None if max_weight is None else [_weight(max_weight)],
        on_bad_rows=on_bad_rows,
        tolerance=tolerance,
        ignore_label=ignore_label,
    )


def _part(number: int) -> int:
    if not (isinstance(number, Integral) and 0 <= number < 2 ** (63 - PART_BITS)):
        raise InputError(
            "part", f"must be a whole number from 0, below 2^{63 - PART_BITS}", repr(number)
        )
    return int(number)


def _weight(largest: float) -> float:
    if not (isinstance(largest, (int, float)) and 0 < largest < np.inf):
        raise InputError("max_weight", "must be positive and finite", repr(largest))
    return float(largest)
