"""The valid rows of predictions in the form that calibrators take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.predictions import Predictions, numbered
from ..engines.good_rows import calibrator_outputs, survey, weights_of
from ..errors import Argument, InputError

if TYPE_CHECKING:
    from .base import Calibrator

USERS = {
    "features": "GroupCalibration or MultiCalibration",
    "groups": "PerGroup or MultiCalibration",
}


@dataclass(frozen=True)
class Outputs:
    """The valid rows in the form that calibrators take: values [n, K], whether they are logits,
    true columns, weights.

    Calibrators do not accept logits of minus infinity: if there are any, all outputs become
    probabilities. Rows accepted by a wide `tolerance` are scaled to sum to 1.

    features, groups : for calibrators that use them (`Calibrator.takes`). Groups are [n], or
        [n, columns] if they may overlap. clusters : the number of each row's cluster.
    """

    values: np.ndarray
    from_logits: bool
    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    classes: tuple[Any, ...]
    features: np.ndarray | None = None
    groups: np.ndarray | None = None
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, predictions: Predictions, groups: Any = None) -> Outputs:
        """groups : one value per row, [n, columns], the name of a column of the rows, or a tuple of
        names."""
        rows = survey(predictions).good
        values, from_logits = calibrator_outputs(predictions, rows)
        features, clusters = predictions.features, predictions.cluster_numbers
        return cls(
            values=np.ascontiguousarray(values),
            from_logits=from_logits,
            codes=predictions.codes[rows],
            weights=weights_of(predictions, rows),
            rows=rows,
            classes=predictions.class_order,
            features=None if features is None else features[rows],
            groups=None if groups is None else _groups_of(predictions, groups)[rows],
            clusters=None if clusters is None else numbered(clusters[rows]),
        )

    @property
    def n_classes(self) -> int:
        return int(self.values.shape[1])

    def probabilities(self) -> np.ndarray:
        if not self.from_logits:
            return self.values.astype(np.float64)
        z = self.values.astype(np.float64)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def fitted(
        self,
        calibrator: Calibrator,
        rows: Any = slice(None),
        weights: np.ndarray | None = None,
        *,
        named: bool = False,
    ) -> Calibrator:
        """A new copy of a calibrator, fitted to some rows, for all columns.

        named : whether its classes are the class names, as in a calibrator for users; otherwise
            they are column numbers.
        """
        from sklearn.base import clone

        classes = list(self.classes) if named else list(range(self.n_classes))
        labels = np.array(classes)[self.codes[rows]] if named else self.codes[rows]
        copy: Calibrator = clone(calibrator)
        copy.set_params(from_logits=self.from_logits, classes=classes)
        weight = (self.weights if weights is None else weights)[rows]
        besides = self._side_data(calibrator, rows)
        if calibrator.takes_clusters and self.clusters is not None:
            besides["clusters"] = self.clusters[rows]
        return copy.fit(self.values[rows], labels, weight, **besides)

    def calibrated(self, fitted: Calibrator, rows: Any = slice(None)) -> np.ndarray:
        """The probabilities of some rows after calibration."""
        return fitted.predict_proba(self.values[rows], **self._side_data(fitted, rows))

    def _side_data(self, calibrator: Calibrator, rows: Any) -> dict[str, np.ndarray]:
        """The features and groups of some rows, if a calibrator takes them."""
        tables = {"features": self.features, "groups": self.groups}
        return {
            name: table[rows]
            for name, table in tables.items()
            if name in calibrator.takes and table is not None
        }

    def check_use(self, calibrator: Calibrator, **given: Any) -> None:
        """Raise if a calibrator needs groups that are missing, or does not use what the caller
        passed."""
        name = type(calibrator).__name__
        if calibrator.takes == ("groups",) and self.groups is None:
            raise InputError("groups", f"{name} needs the group of each row", "none")
        if calibrator.takes == ("groups",) and self.groups is not None and self.groups.ndim > 1:
            raise InputError(
                "groups",
                f"must be one column: {name} fits a calibrator in each of its groups",
                self.groups.shape[1],
                way_out=("for groups that overlap, use MultiCalibration",),
            )
        if any(member.takes == ("groups",) for member in _members(calibrator)):
            rule = "must not contain PerGroup: only the outer calibrator receives groups"
            raise InputError("calibrator", rule, name)
        for argument, value in given.items():
            if value is not None and argument not in calibrator.takes:
                raise InputError(
                    argument,
                    "must be used by the calibrator",
                    name,
                    way_out=(f"pass {USERS[argument]}, or leave out ", Argument(argument)),
                )


def _members(calibrator: Calibrator) -> Iterator[Calibrator]:
    """The calibrators inside a calibrator: the steps of a chain, or the one fitted in each
    group."""
    from .base import checked_calibrator

    for member in (*getattr(calibrator, "steps", ()), getattr(calibrator, "base", None)):
        if member is not None:
            checked = checked_calibrator(member, "calibrator")
            yield checked
            yield from _members(checked)


def _groups_of(predictions: Predictions, groups: Any) -> np.ndarray:
    from .combining import group_table

    if isinstance(groups, str):
        groups = _column_named(predictions, groups)
    elif isinstance(groups, tuple) and all(isinstance(name, str) for name in groups):
        columns = [_column_named(predictions, name) for name in groups]
        groups = np.column_stack([column.astype(object) for column in columns])
    predictions.check_index("groups", groups)
    table = group_table(groups, len(predictions))
    if len(table) == 1:
        return table[0]
    return np.column_stack([column.astype(object) for column in table])


def _column_named(predictions: Predictions, name: str) -> np.ndarray:
    columns = predictions.columns or {}
    if name not in columns:
        known = ", ".join(columns) or "there are none"
        rule = f"must be one value per row, or one of the columns ({known})"
        raise InputError("groups", rule, repr(name))
    return columns[name]


def shares(weights: np.ndarray) -> np.ndarray:
    """Weights scaled to sum to 1, without overflow."""
    scaled = weights / weights.max()
    return np.asarray(scaled / scaled.sum())
