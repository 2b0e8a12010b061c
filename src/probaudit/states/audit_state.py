"""Everything that an audit needs of its rows, in mergeable form: exact sums, the grids of events,
and a sample of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..data.predictions import Predictions
from ..errors import InputError
from ..files.writing import write_bytes
from .covered import Covered
from .evidence import Evidence, EvidenceState, sample_size
from .plan import Plan
from .row_sample import RowSample, names_of
from .storing import pack, plan_from_dict, plan_to_dict, unpack

SCHEMA = "probaudit.state/2"
SAMPLE = "sample."


class AuditState:
    """`update` adds rows, `merge` (or +) another state; `finalise` returns the evidence; `save` and
    `load` use a file.

    The bytes do not depend on how rows are split into parts, or on the order in which these arrive
    and are merged. Rows are identified by their numbers, so that none is counted twice: parts that
    are counted separately need distinct numbers.

    >>> from probaudit import Predictions
    >>> rows = Predictions([1, 0, 1, 1], [0.9, 0.2, 0.4, 0.7])
    >>> plan = Plan.of(rows)
    >>> whole = AuditState.empty(plan).update(rows)
    >>> first = AuditState.empty(plan).update(rows.take(slice(0, 3)), start=0)
    >>> last = AuditState.empty(plan).update(rows.take(slice(3, 4)), start=3)
    >>> (first + last).to_bytes() == whole.to_bytes()
    True
    """

    def __init__(self, plan: Plan, *, sample_rows: int | None = None) -> None:
        self.plan = plan
        self.sums = EvidenceState(plan)
        self.covered = Covered()
        self.sample = None if sample_rows is None else RowSample(sample_rows)

    @classmethod
    def empty(cls, plan: Plan, *, sample_rows: int | None = None) -> AuditState:
        """A state without rows. By default, the first rows determine the size of the sample
        (`sample_size`)."""
        return cls(plan, sample_rows=sample_rows)

    @property
    def rows(self) -> int:
        """The number of rows, good and bad."""
        return self.covered.rows

    def update(self, rows: Predictions, *, start: int | None = None) -> AuditState:
        """Add rows, the first of which has the number `start`; by default, the number after the
        last row so far.

        Raises if the rows have other parts (weights, features, columns) than those before them, or
        if one is bad and the plan does not drop bad rows. Then nothing is added.
        """
        start = self.covered.end if start is None else start
        self._check(rows)
        self.covered.check(start, start + len(rows))
        sample = self._sample_like(rows)
        sample.check(rows)
        picked = sample.picked(rows, start)
        self.sums.update(rows.block(0, len(rows), by_column=True)._replace(first_row=start))
        self.sample = sample
        self.note(picked, rows, start)
        return self

    def note(self, picked: dict[str, np.ndarray], rows: Predictions, start: int) -> None:
        """Record rows that the sums contain already: add those that were `picked` to the sample,
        and note all row numbers."""
        self.sample_for(rows).take(picked, names_of(rows))
        self.covered.add(start, start + len(rows))

    def sample_for(self, rows: Predictions) -> RowSample:
        """The sample, which is created for such rows if there is none."""
        self.sample = self._sample_like(rows)
        return self.sample

    def _sample_like(self, rows: Predictions) -> RowSample:
        features = 0 if rows.features is None else int(rows.features.shape[1])
        return (
            RowSample(sample_size(self.plan.n_classes, features))
            if self.sample is None
            else self.sample
        )

    def _check(self, rows: Predictions) -> None:
        plan = self.plan
        if rows.kind != plan.kind:
            raise InputError(
                "rows", f"must be {plan.kind}, which the state is planned for", rows.kind
            )
        if rows.class_order != plan.classes:
            raise InputError(
                "classes",
                f"must be {plan.classes}, which the state is planned for",
                rows.class_order,
            )

    def merge(self, other: AuditState) -> AuditState:
        """Add another state to this one. Raises if the two share a row."""
        if self.plan != other.plan:
            raise InputError("other", "must have the same plan as this state")
        self.covered.check_apart(other.covered)
        if other.sample is not None:
            self.sample = RowSample(other.sample.size) if self.sample is None else self.sample
            self.sample.merge(other.sample)
        self.sums.merge(other.sums)
        for first, end in other.covered:
            self.covered.add(first, end)
        return self

    def __add__(self, other: AuditState) -> AuditState:
        return AuditState(self.plan).merge(self).merge(other)

    def finalise(self) -> Evidence:
        """The evidence for an audit. Raises if there are no good rows."""
        if self.sample is None or not self.rows:
            raise InputError(
                self.plan.names.get("probs", "probs"), "no row is left to judge", "no row was given"
            )
        sample = self.sample.predictions(self.plan)
        return self.sums.evidence(sample, None if len(sample) == self.rows else self.sample.numbers)

    def to_bytes(self) -> bytes:
        """The whole state; equal for equal rows. `from_bytes` restores it."""
        sample = {} if self.sample is None else self.sample.settle()
        header = {
            "schema": SCHEMA,
            "plan": plan_to_dict(self.plan),
            "covered": [list(interval) for interval in self.covered],
            "sample_rows": None if self.sample is None else self.sample.size,
            "feature_names": None if self.sample is None else self.sample.feature_names,
        }
        return pack(
            header | self._about(),
            self.sums.arrays() | {f"{SAMPLE}{name}": array for name, array in sample.items()},
        )

    def _about(self) -> dict[str, Any]:
        """Further entries of the header, for subclasses."""
        return {}

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The state from the bytes that `to_bytes` returned. Raises for anything else."""
        header, arrays = unpack(content, SCHEMA)
        try:
            return cls._restored(header, arrays)
        except InputError as problem:
            raise InputError(
                "state", f"must be a complete file in the format {SCHEMA}", str(problem)
            ) from None
        except Exception as problem:  # whatever a malformed header or array leads to
            words = f"malformed content ({type(problem).__name__})"
            rule = f"must be a complete file in the format {SCHEMA}"
            raise InputError("state", rule, words) from None

    @classmethod
    def _restored(cls, header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        state = cls(plan_from_dict(header["plan"]), sample_rows=header["sample_rows"])
        for name, array in state.sums.arrays().items():
            sparse = name.startswith("sparse.")
            if arrays[name].dtype != array.dtype or (
                not sparse and arrays[name].shape != array.shape
            ):
                raise InputError(
                    "state",
                    "must contain the arrays of its plan",
                    f"{name} has another type or shape",
                )
        state.sums.restore(arrays)
        state.covered = Covered((int(first), int(end)) for first, end in header["covered"])
        rows = {
            name.removeprefix(SAMPLE): array
            for name, array in arrays.items()
            if name.startswith(SAMPLE)
        }
        if rows and state.sample is not None:
            names = header["feature_names"]
            state.sample.restore(rows, None if names is None else tuple(names))
        return state

    def save(self, path: str | Path) -> None:
        """Write the state to a file, atomically."""
        write_bytes(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a state from a file that `save` wrote."""
        try:
            content = Path(path).read_bytes()
        except OSError as problem:
            raise InputError(
                "path", "must be a readable file", f"{path}: {problem.strerror}"
            ) from None
        return cls.from_bytes(content)

    def __repr__(self) -> str:
        kind = self.plan.kind.replace("_", "-")
        return f"AuditState({self.rows:,} rows, {self.plan.n_classes} classes, {kind})"
