"""The composition of learned groups: classes, temperature, predicted and observed rates (Yang et
al. 2023, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.views import event_rows
from ..calibrators.outputs import Outputs, shares
from ..choices.lenses import TopLabel
from ..choices.partitions import Column
from ..data.arrays import as_array, value_names
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..grouping.loss import GroupingLoss
from ..scoring.clusters import Clusters
from ..scoring.intervals import clopper_pearson
from ..text import counted, percent, significant, whole_percent
from .diagram import HIGH, LOW, SHARE, Diagram
from .picture import Axis, Bars, Mark, Panel, Picture, Points

if TYPE_CHECKING:
    from ..calibrators.group_calibration import GroupCalibration

LONGEST = 20  # characters of a name beside a bar
SHARE_OF_CLASS = "share of the class in the group"
SHOWN = 7  # classes with a colour of their own


@dataclass(frozen=True, eq=False)
class PartitionComposition(Diagram):
    """Groups of rows, their classes and their calibration.

    share : [groups, K], the share of each true class in the weight of a group. rows, weight :
        number of rows, and share of the total weight.
    temperature : of the calibrator of a group, NaN if it has none; above 1 the model is
        overconfident in the group.
    stated, observed : mean confidence and accuracy of the most probable class, with the 95%
        interval of the accuracy (Clopper-Pearson).
    groups : the number of groups, of which the smallest may not be shown.
    """

    percents = (SHARE, SHARE_OF_CLASS)

    name: np.ndarray
    classes: tuple[str, ...]
    share: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    temperature: np.ndarray
    stated: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    groups: int

    def columns(self) -> dict[str, np.ndarray]:
        """A row for each group and class."""
        K = len(self.classes)
        groups = {
            "group": self.name,
            "rows": self.rows,
            SHARE: self.weight,
            "temperature": self.temperature,
            "predicted": self.stated,
            "observed": self.observed,
            LOW: self.low,
            HIGH: self.high,
        }
        if np.isnan(self.temperature).all():  # groups without a calibrator
            del groups["temperature"]
        return {name: np.repeat(column, K) for name, column in groups.items()} | {
            "true class": np.tile(self.classes, len(self.name)),
            SHARE_OF_CLASS: self.share.ravel(),
        }

    def picture(self) -> Picture:
        names = Axis("", categories=tuple(self._labels()))
        size = 0.18 + 0.06 * len(self.name)
        classes = Panel(
            self._class_bars(),
            Axis("share of rows", 0.0, 1.0, percent=True),
            names,
            title="true classes",
            share=size,
        )
        rates = Panel(
            self._rate_points(),
            Axis("probability of the most probable class"),
            names,
            title="predicted and observed",
            share=size,
        )
        caption = "Group calibration gains most where groups differ in their classes and in how far"
        caption += " the model is over- or underconfident."
        if len(self.name) < self.groups:
            caption += f" Shown: {len(self.name)} of {self.groups} groups."
        title = "Composition of the learned groups"
        alone = "a composition, whose stacked bars fill the whole width"
        return Picture((classes, rates), title, self._description(), caption, alone=alone)

    def _labels(self) -> Iterator[str]:
        """Names of groups, shortened, each with its temperature."""
        for g, (name, t) in enumerate(zip(self.name, self.temperature, strict=True)):
            short = name if len(name) <= LONGEST else f"{g + 1}. {name[: LONGEST - 5]} …"
            yield f"{short}, T = {t:.2f}" if np.isfinite(t) else short

    def _rate_points(self) -> tuple[Mark, ...]:
        at = np.arange(len(self.name)) * 1.0
        detail = {
            "group": self.name,
            "rows": self.rows,
            "predicted": self.stated,
            "observed": self.observed,
        }
        observed: dict[str, Any] = {"role": "observed", "name": "observed", "detail": detail}
        return (
            Points(self.observed, at, self.low, self.high, across=True, **observed),
            Points(self.stated, at, role="model", name="predicted", detail=detail),
        )

    def _class_bars(self) -> tuple[Mark, ...]:
        """Stacked bars. With many classes, those that differ most between groups have a bar."""
        K = len(self.classes)
        spread = np.ptp(self.share, axis=0)
        order = (
            np.arange(K)
            if K <= SHOWN + 1
            else np.sort(np.lexsort((-self.share.sum(axis=0), -spread))[:SHOWN])
        )
        values = [(self.classes[k], self.share[:, k]) for k in order]
        if len(order) < K:
            others = np.maximum(0.0, 1 - sum(share for _, share in values))
            values.append((f"{K - len(order)} others", others))
        marks: list[Mark] = []
        start, at = np.zeros(len(self.name)), np.arange(len(self.name)) * 1.0
        for k, (name, length) in enumerate(values):
            role = "rest" if k == len(order) else f"series {k if k < 6 else 7}"
            detail = {"group": self.name, "class": [name] * len(length), "share": length}
            marks.append(Bars.lying(at, start, start + length, role=role, name=name, detail=detail))
            start = start + length
        return tuple(marks)

    def _description(self) -> str:
        words = []
        for g, name in enumerate(self.name):
            most = ", ".join(
                f"{self.classes[k]} {whole_percent(self.share[g, k])}"
                for k in np.argsort(-self.share[g], kind="stable")[:3]
            )
            rates = f"predicted {percent(self.stated[g])}, observed {percent(self.observed[g])}"
            t = self.temperature[g]
            if np.isfinite(t):
                rates += f", temperature {significant(t)}"
            words.append(f"{name}: {counted(self.rows[g])}, mostly {most}; {rates}")
        return "Composition of groups. " + ". ".join(words) + "."


@takes_row_options
def partition_composition_diagram(
    y_true: Any,
    y_proba: Any = None,
    groups: Any = None,
    *,
    features: Any = None,
    partition: int = 0,
    most: int = 8,
    **options: Unpack[RowOptions],
) -> PartitionComposition:
    """The classes and the calibration of each group of rows.

    groups : a fitted `GroupCalibration`; a `GroupingLoss`, whose regions with the largest share of
        the loss are shown; or the group of each row, as an array or `Column`.
    features : for a `GroupCalibration` fitted to features; by default those of the `Predictions`.
    partition : the number of one of the partitions of a `GroupCalibration`.
    most : how many groups to show, those with the largest loss if known, else the most rows.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 3)
    >>> partition_composition_diagram(world.y, world.mcs, world.y == 0).share.shape
    (2, 3)
    """
    if groups is None:
        raise InputError(
            "groups", "must be a GroupCalibration, a GroupingLoss, or the group of each row"
        )
    if most < 1:
        raise InputError("most", "must be at least 1", most)
    predictions = rows_of(y_true, y_proba, **options)
    group, names, temperature = _groups_of_rows(predictions, groups, features, partition)
    members = _Members.of(predictions, group, len(names))
    counts = members.counts
    if not counts.any():
        raise InputError("groups", "must contain at least one row with positive weight")
    ranked = np.flatnonzero(counts > 0)
    if not isinstance(groups, GroupingLoss):  # whose regions are sorted by loss
        ranked = ranked[np.argsort(-counts[ranked], kind="stable")]
    shown = np.sort(ranked[:most])
    stated, observed, low, high = members.rates(shown)
    return PartitionComposition(
        name=np.array([names[g] for g in shown]),
        classes=tuple(str(name) for name in predictions.class_order),
        share=members.class_shares(shown),
        rows=counts[shown],
        weight=members.weight[shown],
        temperature=temperature[shown],
        stated=stated,
        observed=observed,
        low=low,
        high=high,
        groups=len(ranked),
    )


@dataclass(frozen=True, eq=False)
class _Members:
    """The rows of numbered groups. `group` is the group of each valid row, -1 for none."""

    predictions: Predictions
    rows: GoodRows
    group: np.ndarray
    count: int

    @classmethod
    def of(cls, predictions: Predictions, group: np.ndarray, count: int) -> _Members:
        rows = GoodRows.of(predictions)
        return cls(predictions, rows, group[rows.places], count)

    @cached_property
    def weights(self) -> np.ndarray:
        return shares(self.rows.weights)

    @cached_property
    def kept(self) -> np.ndarray:
        return (self.group >= 0) & (self.weights > 0)

    @cached_property
    def counts(self) -> np.ndarray:
        return np.bincount(self.group[self.kept], minlength=self.count)

    @cached_property
    def weight(self) -> np.ndarray:
        return self._sums(self.weights)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Sums of a value of each row, by group."""
        return np.bincount(self.group[self.kept], values[self.kept], self.count)

    def class_shares(self, shown: np.ndarray) -> np.ndarray:
        """The share of each true class in the weight of each group shown."""
        K = self.predictions.n_classes
        cell = (self.group * K + self.rows.labels)[self.kept]
        sums = np.bincount(cell, self.weights[self.kept], self.count * K).reshape(-1, K)
        return sums[shown] / self.weight[shown, None]

    def rates(self, shown: np.ndarray) -> tuple[np.ndarray, ...]:
        """Mean confidence, and accuracy with its interval, of each group shown."""
        view = event_rows(self.predictions, TopLabel()).view
        weight = self.weight[shown]
        stated = self._sums(self.weights * view.outputs)[shown] / weight
        observed = np.clip(self._sums(self.weights * view.labels)[shown] / weight, 0, 1)
        size = (self.weight**2)[shown] / self._sums(self.weights**2)[shown]
        clusters = self.predictions.cluster_numbers
        if clusters is not None:
            own = Clusters(clusters[self.rows.places], self.weights)
            members = [np.flatnonzero(self.kept & (self.group == g)) for g in shown]
            size /= _design_effects(own, view.labels, members, observed)
        return stated, observed, *clopper_pearson(observed, size)


def _design_effects(
    clusters: Clusters, hits: np.ndarray, members: list[np.ndarray], rates: np.ndarray
) -> np.ndarray:
    """The design effect of each group, given its rows and its rate."""
    wider = [
        clusters.part(inside).widening(hits[inside] - rate)
        for inside, rate in zip(members, rates, strict=True)
    ]
    return np.array(wider) ** 2


def _groups_of_rows(
    predictions: Predictions, groups: Any, features: Any, partition: int
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """The group of each row (-1 for none), and the name and the temperature of each group."""
    if isinstance(groups, GroupingLoss):
        table, region_of = groups.regions, groups.region_of
        if region_of.ndim != 1 or len(region_of) != len(predictions):
            raise InputError(
                "groups",
                "must be the grouping loss of a single event of these rows",
                f"of shape {region_of.shape}",
            )
        place = np.argsort(table.number)  # the place of each region in the table
        found = np.where(region_of >= 0, place[np.maximum(region_of, 0)], -1)
        names = [f"{region.rule}  {region.outputs}".rstrip() for region in table]
        return found, names, np.full(len(names), np.nan)
    if hasattr(groups, "member_of_"):
        return _groups_of_calibrator(predictions, groups, features, partition)
    predictions.check_index("groups", groups)
    values = as_array(groups.values if isinstance(groups, Column) else groups, "groups")
    if values.shape != (len(predictions),):
        raise InputError(
            "groups",
            f"must have one value per row ({len(predictions)})",
            f"has shape {values.shape}",
        )
    known, found = np.unique(value_names(values), return_inverse=True)
    return found.reshape(-1), [str(name) for name in known], np.full(len(known), np.nan)


def _groups_of_calibrator(
    predictions: Predictions, calibrator: GroupCalibration, features: Any, partition: int
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """One partition of a group calibration. The temperature of a group is that of its calibrator,
    or of the calibrator used in its place."""
    count, size = calibrator.member_of_.shape
    if not 0 <= partition < count:
        raise InputError(
            "partition", f"must be one of the {count} partitions, 0 to {count - 1}", partition
        )
    found = np.full(len(predictions), -1)
    if calibrator.grouped_by_ == "outputs":
        from ..calibrators.base import Sample

        outputs = Outputs.of(predictions)
        sample = Sample(outputs.values, outputs.from_logits, outputs.codes, outputs.weights)
        found[outputs.rows] = calibrator.partitions(sample.log_probs)[partition].values
    else:
        features = predictions.features if features is None else features
        if features is None:
            raise InputError("features", "must be given: the groups were learned from features")
        predictions.check_index("features", features)
        groups = calibrator.partitions(features)[partition].values
        if len(groups) != len(predictions):
            raise InputError(
                "features", f"must have one row per prediction ({len(predictions)})", len(groups)
            )
        found[:] = groups
    temperature = np.array(calibrator.spare_temperatures_[partition], np.float64)
    for g, member in enumerate(calibrator.member_of_[partition]):
        if member >= 0:
            temperature[g] = getattr(calibrator.members_[member], "temperature_", np.nan)
    return found, [f"group {g + 1}" for g in range(size)], temperature
