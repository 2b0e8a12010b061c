"""Calibration errors within groups of rows: by a column, or by the true label (Kirchenbauer et al.
2022, Section 5.2, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Unpack

import numpy as np

from ..calibration.cells import gather_cells, mean_gap
from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibration.views import PreparedRows
from ..choices.definitions import Definition
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Groups, Lens, TopLabel, View
from ..choices.partitions import EqualWidth, Partition
from ..choices.selections import LabelIs, Mask, Selection
from ..data.arrays import as_array, value_names
from ..data.inputs import RowOptions, documents_row_options, rows_of
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from .diagram import Diagram
from .picture import Axis, Bars, Panel, Picture, Points, Rule

# Probabilities read to draw labels. With many rows the null distribution is narrow, and fewer draws
# suffice.
MOST_WORK = 2 * 10**8
FEWEST_DRAWS = 20
PIECE = 2**16  # cumulative probabilities in memory at a time
PAIR_DRAWS = 20  # for the covariance within clusters under full dependence


@dataclass(frozen=True, eq=False)
class GroupErrors(Diagram):
    """Calibration errors of groups, the largest excess over the null mean first.

    error, low, high : the error with a 95% interval (see `error_interval`).
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
        names = ("name", "rows", "error", "low", "high", "null", "null_high")
        return {"group" if name == "name" else name: getattr(self, name) for name in names}

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
                role="chance",
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
            "Grey: 95% limit if calibrated, corrected for the number of groups (Bonferroni). "
            f"Lines: 95% intervals. In brackets: rows.{some}"
        )
        return Picture(
            (panel,), f"Groups the model misjudges, by {self.by}", self._description(), caption
        )

    def _description(self) -> str:
        words = [
            f"{name}: {error:.3g} (95% limit {high:.3g})"
            for name, error, high in zip(self.name, self.error, self.null_high, strict=True)
        ]
        return (
            f"Calibration errors by {self.by}, {self.overall:.3g} for all rows, {self.definition}. "
            + "; ".join(words)
            + "."
        )


@documents_row_options
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
    of rows in `clusters` are drawn with the estimated dependence (see `Dependence`).

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
    prepared = PreparedRows.of(given, TopLabel() if lens is None else lens)
    partition = prepared.partition(EqualWidth(15) if partition is None else partition)
    choices: dict[str, Any] = {"lens": prepared.lens, "partition": partition, "distance": distance}
    drawn: dict[str, Any] = {"resamples": resamples, "seed": seed}
    masks = {name: prepared.mask(where) for name, where in selections.items()}
    counts = {name: int(mask.sum()) for name, mask in masks.items() if mask.any()}
    shown = sorted(counts, key=lambda name: -counts[name])[:most]
    errors = [
        calibration_error(
            prepared.predictions, where=masks[name], interval=True, **choices, **drawn
        )
        for name in shown
    ]
    if by is None or isinstance(by, Groups):
        nulls = _label_nulls(prepared, [selections[name] for name in shown], **choices, **drawn)
    else:
        nulls = np.array(
            [
                _group_null(prepared.predictions, np.flatnonzero(masks[name]), **choices, **drawn)
                for name in shown
            ]
        )
    order = np.argsort(
        np.nan_to_num(nulls[:, 0]) - [float(error) for error in errors], kind="stable"
    )
    error, low, high = np.array([error_interval(found) for found in errors])[order].T
    null, null_high = nulls[order].T
    null_high = null + (null_high - null) * _family_factor(len(shown))
    return GroupErrors(
        name=np.array(shown)[order],
        rows=np.array([counts[name] for name in shown])[order],
        error=error,
        low=low,
        high=high,
        null=null,
        null_high=null_high,
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


def error_interval(error: Estimate) -> tuple[float, float, float]:
    """An error, and the 95% interval of the error of the population, extended to include the
    estimate, which is biased upwards (see `calibration.population`).

    >>> error_interval(Estimate(0.5, low=0.1, high=0.4))
    (0.5, 0.1, 0.5)
    """
    value = float(error)
    return value, float(np.minimum(value, error.low)), float(np.maximum(value, error.high))


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


def _group_null(
    predictions: Predictions,
    places: np.ndarray,
    *,
    lens: Lens,
    partition: Partition,
    distance: str | Distance,
    resamples: int,
    seed: int,
) -> tuple[float, float]:
    """Mean and 95% limit of the error of some rows, if the model is calibrated."""
    chosen: dict[str, Any] = {
        "lens": lens,
        "distance": distance,
        "resamples": resamples,
        "seed": seed,
    }
    found = calibration_test(
        predictions.take(places), partition=partition.select(places, len(predictions)), **chosen
    )
    return found.null_mean, found.null_high


def _label_nulls(
    prepared: PreparedRows,
    selections: list[Selection],
    *,
    lens: Lens,
    partition: Partition,
    distance: str | Distance,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """The same for rows selected by label, [selections, 2]: labels are drawn for all rows, then
    rows are selected. A label that is never drawn gives NaN."""
    rows, clusters = prepared.rows, prepared.predictions.cluster_numbers
    metric, rng, total = as_distance(distance), np.random.default_rng(seed), len(rows.labels)
    draws = min(resamples, max(FEWEST_DRAWS, MOST_WORK // rows.probs.size))
    drawn = np.full((draws, len(selections)), np.nan)
    together = None if clusters is None else Dependence.of(rng, rows, clusters, draws)
    for labels, found in zip(draw_labels(rng, rows.probs, draws, together), drawn, strict=True):
        labels = labels.astype(np.int64)
        for s, selection in enumerate(selections):
            those = np.flatnonzero(selection.mask(View(rows.probs, labels)) & (rows.weights > 0))
            if len(those):
                own = partition.select(those, total)
                views = lens.views(rows.probs[those], labels[those])
                cells = [
                    gather_cells(view, own.cells(view.outputs), rows.weights[those])
                    for view in views
                ]
                found[s] = np.mean([mean_gap(cell, metric) for cell in cells])
    ever = np.isfinite(drawn).any(axis=0)
    some = np.where(ever, drawn, 0.0)
    return np.where(
        ever[:, None],
        np.stack([np.nanmean(some, axis=0), np.nanquantile(some, 0.95, axis=0)], axis=1),
        np.nan,
    )


@dataclass(frozen=True, eq=False)
class Dependence:
    """How labels of dependent rows are drawn: with probability `share` from a uniform number that
    the cluster shares, else from a number of the row alone. Each label follows its forecast.

    common : the numbers of the clusters, [draws, clusters]. clusters : the cluster of each row.
    """

    common: np.ndarray
    clusters: np.ndarray
    share: float = 1.0

    @classmethod
    def of(
        cls,
        rng: np.random.Generator,
        rows: GoodRows,
        clusters: np.ndarray,
        draws: int,
    ) -> Dependence:
        """Choose the share that reproduces the covariance of the given labels within clusters. Its
        square is the sum of products of residuals over pairs, divided by that of labels drawn
        from one number per cluster. With a single cluster the share is 1.
        """
        count = int(clusters.max()) + 1
        found = cls(rng.random((draws, count), np.float32), clusters)
        if count < 2:
            return found
        first = replace(found, common=found.common[:PAIR_DRAWS])
        drawn = draw_labels(rng, rows.probs, len(first.common), first).astype(np.int64)
        most = float(np.mean([_pair_products(rows, labels, clusters) for labels in drawn]))
        if not most > 0:
            return replace(found, share=0.0)
        part = np.clip(_pair_products(rows, rows.labels, clusters) / most, 0, 1)
        return replace(found, share=float(np.sqrt(part)))

    def mixed(self, rng: np.random.Generator, own: np.ndarray, first: int) -> np.ndarray:
        """The uniform numbers of rows from `first` on, given their own numbers [draws, rows]."""
        those = self.common[:, self.clusters[first : first + own.shape[1]]]
        return np.where(rng.random(own.shape) < self.share, those, own)


def _pair_products(rows: GoodRows, labels: np.ndarray, clusters: np.ndarray) -> float:
    """The sum of products of residuals over pairs of rows of a cluster and over classes."""
    from scipy.sparse import csr_array

    at, weights = np.arange(len(labels)), rows.weights / rows.weights.max()
    residuals = -weights[:, None] * rows.probs
    residuals[at, labels] += weights
    sums = csr_array((np.ones(len(at)), (clusters, at))) @ residuals
    return float((sums**2).sum() - (residuals**2).sum())


def draw_labels(
    rng: np.random.Generator,
    probs: np.ndarray,
    draws: int,
    together: Dependence | None = None,
) -> np.ndarray:
    """Labels [draws, n] drawn from forecasts [n, K], independent unless `together` is given.

    The cumulative forecasts of several rows, each shifted by its row number, form one increasing
    sequence, in which one binary search finds all draws.

    >>> probs = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> draw_labels(np.random.default_rng(0), probs, 2).tolist()
    [[1, 0], [1, 0]]
    """
    n, K = probs.shape
    labels, step = np.empty((draws, n), np.min_scalar_type(K - 1)), max(1, PIECE // K)
    for first in range(0, n, step):
        edges = np.cumsum(probs[first : first + step], axis=1, dtype=np.float64)
        edges /= edges[:, -1:]
        row = np.arange(len(edges))
        edges += row[:, None]
        numbers = rng.random((draws, len(edges)))
        numbers = numbers if together is None else together.mixed(rng, numbers, first)
        place = np.searchsorted(edges.ravel(), numbers + row, side="right") - K * row
        labels[:, first : first + step] = np.minimum(place, K - 1)
    return labels
