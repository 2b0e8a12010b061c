"""Calibration errors within groups of rows: by a column, or by the true label (Kirchenbauer et al.
2022, Section 5.2, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibration.views import PreparedRows
from ..choices.definitions import Definition
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Groups, Lens, error_lens
from ..choices.partitions import EqualWidth, Partition, checked_partition
from ..choices.selections import LabelIs, Mask, Selection
from ..data.arrays import as_array, value_names
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import InputError
from ..text import number
from .diagram import EXPECTED, HIGH, LIMIT, LOW, Diagram
from .label_nulls import label_nulls
from .picture import Axis, Bars, Panel, Picture, Points, Rule


@dataclass(frozen=True, eq=False)
class GroupErrors(Diagram):
    """Calibration errors of groups, the largest excess over the null mean first.

    error, low, high : the error with a 95% interval (see `Estimate.error_bar`).
    null, null_high : mean and 95% limit of the error if calibrated; the limit is corrected for the
        number of groups shown.
    overall : the error of all rows. groups : the number of groups, of which the smallest may not be
        shown.
    """

    name: np.ndarray
    rows: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null: np.ndarray
    null_high: np.ndarray
    overall: float
    groups: int
    by: str
    definition: str

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "group": self.name,
            "rows": self.rows,
            "calibration error": self.error,
            LOW: self.low,
            HIGH: self.high,
            EXPECTED: self.null,
            LIMIT: self.null_high,
        }

    def picture(self) -> Picture:
        at, zero = np.arange(len(self.name)) * 1.0, np.zeros(len(self.name))
        detail = {
            "group": self.name,
            "rows": self.rows,
            "error": self.error,
            "expected if calibrated": self.null,
            "95% limit": self.null_high,
        }
        marks = (
            Bars.lying(at, zero, self.error, thickness=0.6, role="observed", detail=detail),
            Bars.lying(
                at,
                zero,
                self.null_high,
                thickness=0.85,
                faint=True,
                role="null",
                name="95% limit if calibrated",
                detail=detail,
            ),
            Points(self.error, at, self.low, self.high, across=True, role="reference"),
            Rule(x=self.overall, role="reference", name="all rows"),
        )
        names = Axis(
            "",
            categories=tuple(
                f"{name} ({rows:,})" for name, rows in zip(self.name, self.rows, strict=True)
            ),
        )
        panel = Panel(
            marks,
            Axis("calibration error", 0.0),
            names,
            share=min(1.0, 0.25 + 0.07 * len(self.name)),
        )
        some = (
            f" The {len(self.name)} largest of {self.groups} groups."
            if len(self.name) < self.groups
            else ""
        )
        caption = (
            "Error of each group with its 95% interval, and its number of rows in brackets. Grey "
            "bars show the 95% limit if calibrated, corrected for the number of groups "
            f"(Bonferroni).{some}"
        )
        return Picture(
            (panel,), f"Groups the model misjudges, by {self.by}", self._description(), caption
        )

    def _description(self) -> str:
        words = [
            f"{name}: {number(error, 3)} (95% limit {number(high, 3)})"
            for name, error, high in zip(self.name, self.error, self.null_high, strict=True)
        ]
        return (
            f"Calibration errors by {self.by}, {number(self.overall, 3)} for all rows,"
            f" {self.definition}. " + "; ".join(words) + "."
        )


@takes_row_options
def group_errors_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    by: Any = None,
    lens: Lens | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "l1",
    most: int = 20,
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> GroupErrors:
    """The calibration error within each group of rows, with its 95% limit if calibrated.

    by : the group of each row, or the name of a column of the `Predictions`. By default rows are
        grouped by their true label; with `Groups(...)` by a group of labels (Kirchenbauer et al.
        2022, Figure 3, uses `by=families, lens=families`).
    lens, partition, distance : as in `calibration_error`.
    most : how many groups to show, those with the most rows.

    Rows selected by their label need not be calibrated, even if the model is. The null distribution
    is therefore computed by drawing all labels from the forecasts before rows are selected. Labels
    of rows in `clusters` are drawn with the estimated dependence (see `label_nulls.Dependence`).

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 3)
    >>> group_errors_diagram(world.y, world.mcs, by=np.arange(1000) % 2, resamples=20).name.size
    2
    """
    if most < 1 or resamples < 1:
        name, value = ("most", most) if most < 1 else ("resamples", resamples)
        raise InputError(name, "must be at least 1", value)
    given = rows_of(y_true, y_proba, **options)
    selections, words = selections_of(given, by)
    prepared = PreparedRows.of(given, error_lens(given, lens))
    partition = prepared.partition(checked_partition(partition, EqualWidth(15)))
    choices: dict[str, Any] = {"lens": prepared.lens, "partition": partition, "distance": distance}
    drawn: dict[str, Any] = {"resamples": resamples, "seed": seed}
    masks = {name: prepared.mask(where) for name, where in selections.items()}
    counts = {name: int(mask.sum()) for name, mask in masks.items() if mask.any()}
    shown = sorted(counts, key=lambda name: -counts[name])[:most]
    errors = np.array(
        [
            calibration_error(
                prepared.predictions, where=masks[name], interval=True, **choices, **drawn
            ).error_bar
            for name in shown
        ]
    )
    if by is None or isinstance(by, Groups):
        nulls = label_nulls(prepared, [selections[name] for name in shown], **choices, **drawn)
    else:
        places = [np.flatnonzero(masks[name]) for name in shown]
        nulls = _group_nulls(prepared.predictions, places, **choices, **drawn)
    order = np.argsort(np.nan_to_num(nulls[:, 0]) - errors[:, 0], kind="stable")
    error, low, high = errors[order].T
    null, null_high = nulls[order].T
    return GroupErrors(
        name=np.array(shown)[order],
        rows=np.array([counts[name] for name in shown])[order],
        error=error,
        low=low,
        high=high,
        null=null,
        null_high=null + (null_high - null) * _family_factor(len(shown)),
        overall=float(calibration_error(prepared.predictions, **choices)),
        groups=len(counts),
        by=words,
        definition=Definition(prepared.lens, partition, as_distance(distance)).words(
            pairs=given.pairs
        ),
    )


def _family_factor(groups: int) -> float:
    """The 95% limit of the largest of several errors (Bonferroni) as a multiple of that of one.
    A normal approximation: a few hundred resamples do not give such extreme quantiles.

    >>> round(_family_factor(1), 6), round(_family_factor(20), 3)
    (1.0, 1.707)
    """
    normal = NormalDist()
    return normal.inv_cdf(1 - 0.05 / groups) / normal.inv_cdf(0.95)


def selections_of(predictions: Predictions, by: Any) -> tuple[dict[str, Selection], str]:
    """The selection of each group by name, and the name of the grouping."""
    if by is None:
        return {
            str(name): LabelIs(k) for k, name in enumerate(predictions.class_order)
        }, "true class"
    if isinstance(by, Groups):
        member = by.membership(predictions.n_classes)
        names = _group_names(by, int(member.max()) + 1)
        return {
            name: LabelIs(tuple(np.flatnonzero(member == g).tolist()))
            for g, name in enumerate(names)
        }, "group of true classes"
    if isinstance(by, str):
        columns = predictions.columns or {}
        if by not in columns:
            raise InputError(
                "by", "must be a column of the Predictions, or one value per row", repr(by)
            )
        values, words = columns[by], by
    else:
        predictions.check_index("by", by)
        values, words = as_array(by, "by"), "group"
    if values.shape != (len(predictions),):
        raise InputError(
            "by", f"must have one value per row ({len(predictions)})", f"has shape {values.shape}"
        )
    text = value_names(values)
    return {str(name): Mask(text == name) for name in np.unique(text)}, words


def _group_names(groups: Groups, count: int) -> list[str]:
    """The names of the groups, in the order of their numbers."""
    given = groups.groups
    if isinstance(given, Mapping):
        return [str(name) for name in given]
    if all(isinstance(name, str) for name in given):
        return np.unique(np.array(given)).tolist()
    return [f"group {g}" for g in range(count)]


def _group_nulls(
    predictions: Predictions,
    groups: list[np.ndarray],
    *,
    lens: Lens,
    partition: Partition,
    distance: str | Distance,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """Mean and 95% limit of the error of each group if the model is calibrated, [groups, 2].

    groups : the row numbers of each group.
    """
    tests = [
        calibration_test(
            predictions.take(rows),
            lens=lens,
            partition=partition.select(rows, len(predictions)),
            distance=distance,
            resamples=resamples,
            seed=seed,
        )
        for rows in groups
    ]
    return np.array([(test.null_mean, test.null_high) for test in tests])
