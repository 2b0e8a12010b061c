"""Multicalibration: boosting that removes the miscalibration of groups that may overlap, and of
regions of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from ..data.row_index import common_index
from ..errors import InputError
from .base import Calibrator, Sample, fit_report
from .combining import (
    base_of,
    fit_member,
    group_column,
    group_table,
    group_values,
    known_places,
    positive_weight,
    range_edges,
)
from .feature_rows import distinct, feature_table
from .folds import FOLDS, fold_numbers
from .one_standard_error import one_standard_error_rule
from .outputs import shares
from .region_boosting import Booster, CellStep, Learning, RegionRows, Step, TreeStep

MOST_CELLS = 10_000  # of a crossing of two columns
PATIENCE = 5  # rounds without a lower held-out loss before the search stops


class MultiCalibration(Calibrator):
    """Removes the miscalibration of groups that may overlap, and of regions that it finds in
    features (Hébert-Johnson et al. 2018; as boosting, Globus-Harris et al. 2023).

    1. `base` is fitted to all rows.
    2. Each round takes the violated region with the largest gain in log-likelihood: the groups of
       a column, the crossing of two columns, or the leaves of a shallow tree over the features and
       the level of the output. It takes a Newton step in the bias of each class and in the slope
       of the log-probabilities (see `region_boosting`).
    3. The number of rounds has the lowest log loss on inner folds. It is 0 unless it lowers the
       loss by more than one standard error: where nothing can be improved, `base` remains.

    Violations count from two standard errors. A later round may take the same region again.

    base : the calibrator shared by all rows; TemperatureScaling unless given.
    rounds : the number of rounds, without inner folds; chosen by them unless given.
    max_rounds : the largest number of rounds that inner folds try.
    rate : the share of a step that a round takes. Small shares, as in other boosting, leave a bias
        that no longer stands out from noise (benchmarks/multicalibration.py).
    depth : of trees; a tree of depth 2 has four leaves.
    min_rows : a smaller region gets no step. Rows of weight 2 count twice.
    seed : of the inner folds, which depend on the values of rows and not on their order.

    Groups may be given in several columns, [n, columns]. Numbers with more than 20 different values
    are cut into five ranges with equally many rows. A group that `fit` did not see gets no
    step of its column: without features, it keeps the outputs of `base`. Without features and
    groups, regions are ranges of the log odds (two classes) or of the confidence.

    >>> rng = np.random.default_rng(0)
    >>> old, rural = rng.integers(0, 2, (2, 20000)).astype(bool)
    >>> x = rng.normal(size=20000)
    >>> y = (rng.random(20000) < 1 / (1 + np.exp(-x - old + rural))).astype(int)
    >>> groups = np.column_stack([old, rural])
    >>> model = MultiCalibration(from_logits=True).fit(x, y, groups=groups)
    >>> p = model.predict_proba(np.zeros(4), groups=[[0, 0], [0, 1], [1, 0], [1, 1]])[:, 1]
    >>> p.round(1)  # in truth 0.5, 0.27, 0.73, 0.5
    array([0.5, 0.3, 0.7, 0.5])
    """

    takes = ("features", "groups")
    takes_clusters = True
    _fitted: ClassVar[Mapping[str, Any]] = {
        "whole_": Calibrator,
        "rounds_": int,
        "feature_columns_": int,
        "groups_": [(None,)],
        "edges_": [(None,)],
        "tables_": [(None, "T")],
        "split_columns_": ("R", "L"),
        "thresholds_": ("R", "L"),
        "leaves_": ("R", "S", "T"),
    }

    whole_: Calibrator
    rounds_: int
    feature_columns_: int  # 0 without features
    groups_: list[np.ndarray]  # the known groups of each column
    edges_: list[np.ndarray]  # of the ranges of each column; empty if its groups are values
    tables_: list[np.ndarray]  # [cells + 1, K + 1]: the sum of the steps of each partition
    split_columns_: np.ndarray  # [trees, depth]
    thresholds_: np.ndarray  # [trees, depth]
    leaves_: np.ndarray  # [trees, 2^depth, K + 1]

    def __init__(
        self,
        base: Calibrator | None = None,
        *,
        rounds: int | None = None,
        max_rounds: int = 100,
        rate: float = 1.0,
        depth: int = 2,
        min_rows: int = 20,
        seed: int = 0,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.base = base
        self.rounds = rounds
        self.max_rounds = max_rounds
        self.rate = rate
        self.depth = depth
        self.min_rows = min_rows
        self.seed = seed
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "multicalibration"

    @property
    def fitted_with(self) -> tuple[str, ...]:
        given = {"features": self.feature_columns_, "groups": self.groups_}
        return tuple(name for name, value in given.items() if value)

    @property
    def feature_columns(self) -> int:  # type: ignore[override]
        return self.feature_columns_

    @property
    def group_columns(self) -> int:  # type: ignore[override]
        return len(self.groups_)

    def fit(
        self,
        P: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        features: Any = None,
        groups: Any = None,
        clusters: Any = None,
    ) -> Self:
        """Learn from outputs, true classes, and features or groups or both.

        features : [n, d] numbers. groups : [n], or [n, columns].
        clusters : one value per row; rows of a cluster are dependent and share an inner fold.
        """
        common_index({"P": P, "features": features, "groups": groups, "clusters": clusters})
        sample = self._learning_sample(P, y, sample_weight)
        points, columns = None, []
        if features is not None:
            points = feature_table(features, len(y), None)
            points = points[positive_weight(sample_weight, len(y))]
        if groups is not None:
            kept = positive_weight(sample_weight, len(y))
            columns = [column[kept] for column in group_table(groups, len(y))]
        if clusters is not None:
            clusters = group_column(clusters, len(y), "clusters")
            clusters = clusters[positive_weight(sample_weight, len(y))]
            clusters = np.unique(clusters, return_inverse=True)[1].reshape(-1)
        status = self._fit_regions(sample, points, columns, clusters)
        self.fit_report_ = fit_report(sample, self._boosted(sample, points, columns), *status)
        return self

    def predict_proba(self, P: Any, features: Any = None, groups: Any = None) -> np.ndarray:
        """Calibrated probabilities, [n, K]; `features` and `groups` as in `fit`."""
        check_is_fitted(self, "whole_")
        common_index({"P": P, "features": features, "groups": groups})
        sample = self._sample(P)
        for name, value in {"features": features, "groups": groups}.items():
            if (value is not None) != (name in self.fitted_with):
                rule = "must be given" if value is None else "must not be given"
                raise InputError(name, f"{rule}, as in the fit")
        n = len(sample)
        points = None if features is None else feature_table(features, n, self.feature_columns_)
        columns = [] if groups is None else group_table(groups, n)
        if len(columns) != self.group_columns:
            rule = f"must have the {self.group_columns} columns of the fit"
            raise InputError("groups", rule, len(columns))
        return self._boosted(sample, points, columns)

    def predict(self, P: Any, features: Any = None, groups: Any = None) -> np.ndarray:
        """The most probable class of each row after calibration; the first in case of a tie."""
        check_is_fitted(self, "whole_")
        return self.classes_[self.predict_proba(P, features, groups).argmax(axis=1)]

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        return self._fit_regions(sample, None, [], None)

    def _fit_regions(
        self,
        sample: Sample,
        points: np.ndarray | None,
        columns: Sequence[np.ndarray],
        clusters: np.ndarray | None,
    ) -> tuple[bool, str]:
        learning = self._learning()
        self.feature_columns_ = 0 if points is None else points.shape[1]
        self.edges_ = [range_edges(column) for column in columns]
        values = zip(columns, self.edges_, strict=True)
        self.groups_ = [np.unique(group_values(column, edges)) for column, edges in values]
        cells = self._cells(columns, len(sample))
        sides = [table for table in (points, cells, clusters) if table is not None]
        sample, table = distinct(sample, np.column_stack(sides), self.seed)
        points = table[:, : self.feature_columns_]
        cells = table[:, self.feature_columns_ :][:, : cells.shape[1]].astype(np.int64)
        if clusters is not None:
            clusters = table[:, -1].astype(np.int64)
        if self.rounds is None:
            rounds, words = self._best_rounds(sample, points, cells, clusters)
        else:
            rounds, words = int(self.rounds), f"{self.rounds} rounds"
        self.whole_ = fit_member(base_of(self.base), sample, self.classes_)
        rows = self._rows(self.whole_, sample, points, cells)
        booster = Booster(rows, sample.codes, sample.weights, self._sizes(), learning)
        self._keep([step for _ in range(rounds) if (step := booster.step()) is not None])
        return self.whole_.fit_report_.converged, f"{words}; {self.whole_.fit_report_.status}"

    def _best_rounds(
        self,
        sample: Sample,
        points: np.ndarray,
        cells: np.ndarray,
        clusters: np.ndarray | None,
    ) -> tuple[int, str]:
        """The number of rounds with the lowest loss on held-out folds, or 0 if its gain is within
        one standard error; and the search in words."""
        folds = self._folds(sample, clusters)
        held_out = []
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            fitted = sample.take(train)
            if len(np.unique(fitted.codes)) < 2:
                return 0, "0 rounds: too few rows for inner folds"
            whole = fit_member(base_of(self.base), fitted, self.classes_)
            rows = self._rows(whole, sample, points, cells)
            booster = Booster(
                rows.take(train), fitted.codes, fitted.weights, self._sizes(), self._learning()
            )
            held_out.append(_HeldOut(booster, rows.take(test), sample.codes[test], test))
        losses = _held_out_losses(held_out, sample, self.max_rounds)
        share = shares(sample.weights)
        means = [float(share @ loss) for loss in losses]
        best = int(np.argmin(means))
        pair = np.column_stack([losses[0], losses[best]])
        ranking = one_standard_error_rule(pair, share, clusters, [0, 1])
        if best == 0 or ranking is None or ranking.chosen == 0:
            return 0, "0 rounds: none lowers the held-out log loss by more than one standard error"
        gain = 1 - means[best] / means[0]
        taken = "1 round" if best == 1 else f"{best} rounds"
        return best, f"{taken}: the held-out log loss falls by {gain:.1%}"

    def _folds(self, sample: Sample, clusters: np.ndarray | None) -> np.ndarray:
        """The inner fold of each row. `distinct` has put rows into random order."""
        if clusters is None:
            return np.arange(len(sample)) % FOLDS
        units = len(np.unique(clusters))
        if units < 2:
            return np.zeros(len(sample), np.int64)
        return fold_numbers(min(FOLDS, units), sample.codes, clusters, self.seed)

    def _learning(self) -> Learning:
        least_of = {"rounds": 0, "max_rounds": 0, "depth": 1, "min_rows": 1, "seed": 0}
        for name, least in least_of.items():
            value = getattr(self, name)
            if name == "rounds" and value is None:
                continue
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise InputError(name, f"must be a whole number of at least {least}", repr(value))
        if not 0 < self.rate <= 1:
            raise InputError("rate", "must be above 0 and at most 1", self.rate)
        return Learning(int(self.depth), float(self.rate), float(self.min_rows))

    def _partitions(self) -> list[tuple[int, ...]]:
        """The columns of each partition: every column, then every two whose crossing is small."""
        sizes = [len(known) for known in self.groups_]
        pairs = combinations(range(len(sizes)), 2)
        return [
            *((column,) for column in range(len(sizes))),
            *((a, b) for a, b in pairs if sizes[a] * sizes[b] <= MOST_CELLS),
        ]

    def _sizes(self) -> list[int]:
        """The number of cells of each partition."""
        return [
            int(np.prod([len(self.groups_[column]) for column in columns]))
            for columns in self._partitions()
        ]

    def _cells(self, columns: Sequence[np.ndarray], n: int) -> np.ndarray:
        """The cell of each row in each partition, [n, partitions]; -1 for unseen groups."""
        places = [
            known_places(group_values(column, edges), known)
            for column, known, edges in zip(columns, self.groups_, self.edges_, strict=True)
        ]
        cells = np.empty((n, len(self._partitions())), np.int64)
        for partition, parts in enumerate(self._partitions()):
            cell, seen = np.zeros(n, np.int64), np.ones(n, bool)
            for column in parts:
                cell = cell * len(self.groups_[column]) + places[column]
                seen &= places[column] < len(self.groups_[column])
            cells[:, partition] = np.where(seen, cell, -1)
        return cells

    def _rows(
        self, whole: Calibrator, sample: Sample, points: np.ndarray | None, cells: np.ndarray
    ) -> RegionRows:
        """Rows after the shared calibrator. The last column of points is the level of the
        output."""
        probs = np.maximum(whole._transform(sample), np.finfo(np.float64).tiny)
        logs = np.log(probs)
        level = logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs.max(axis=1)
        points = level[:, None] if points is None else np.column_stack([points, level])
        return RegionRows(logs, points, cells)

    def _keep(self, steps: Sequence[Step]) -> None:
        """Store the steps taken: those of a partition as their sum, those of trees one by one."""
        width = len(self.classes_) + 1
        self.rounds_ = len(steps)
        self.tables_ = [np.zeros((size + 1, width)) for size in self._sizes()]
        for step in steps:
            if isinstance(step, CellStep):
                self.tables_[step.partition] += step.table
        trees = [step for step in steps if isinstance(step, TreeStep)]
        depth = int(self.depth)
        self.split_columns_ = np.array([tree.columns for tree in trees], np.int64)
        self.split_columns_ = self.split_columns_.reshape(-1, depth)
        self.thresholds_ = np.array([tree.thresholds for tree in trees]).reshape(-1, depth)
        self.leaves_ = np.array([tree.leaves for tree in trees]).reshape(-1, 1 << depth, width)

    def _check_learned(self) -> None:
        trees, depth = self.split_columns_.shape
        width = len(self.classes_) + 1
        sizes = [len(table) for table in self.tables_]
        if sizes != [size + 1 for size in self._sizes()]:
            raise ValueError("tables_ must have a row for each cell, and one more")
        if self.leaves_.shape != (trees, 1 << depth, width) or depth < 1 or depth > 20:
            raise ValueError("leaves_ must have a row for each leaf")
        if any(table.shape[1] != width for table in self.tables_):
            raise ValueError("tables_ must have a column for each class, and one more")
        columns = self.split_columns_
        if columns.dtype != np.int64 or not ((columns >= 0) & (columns <= self._level)).all():
            raise ValueError("split_columns_ must be numbers of columns")
        if self.feature_columns_ < 0:
            raise ValueError("feature_columns_ must not be negative")
        if not self.fitted_with:
            super()._check_learned()

    @property
    def _level(self) -> int:
        """The number of the column with the level of the output, after all features."""
        return self.feature_columns_

    def _transform(self, sample: Sample) -> np.ndarray:
        if self.fitted_with:
            raise InputError(self.fitted_with[0], "must be given, as in the fit")
        return self._boosted(sample, None, [])

    def _calibrated(
        self, sample: Sample, features: np.ndarray | None = None, groups: np.ndarray | None = None
    ) -> np.ndarray:
        """Calibrated probabilities, given checked features and groups."""
        columns = [] if groups is None else group_table(groups, len(sample))
        return self._boosted(sample, features, columns)

    def _boosted(
        self, sample: Sample, points: np.ndarray | None, columns: Sequence[np.ndarray]
    ) -> np.ndarray:
        if self.rounds_ == 0:
            return self.whole_._transform(sample)
        rows = self._rows(self.whole_, sample, points, self._cells(columns, len(sample)))
        shift = np.zeros((len(sample), len(self.classes_) + 1))
        for partition, table in enumerate(self.tables_):
            shift += CellStep(partition, table).shift(rows)
        for tree in zip(self.split_columns_, self.thresholds_, self.leaves_, strict=True):
            shift += TreeStep(*tree).shift(rows)
        return np.asarray(softmax(rows.moved(shift), axis=1))


class _HeldOut:
    """A booster, the rows that it does not learn from, and their numbers in the sample."""

    def __init__(
        self, booster: Booster, rows: RegionRows, codes: np.ndarray, places: np.ndarray
    ) -> None:
        self.booster, self.rows, self.codes, self.places = booster, rows, codes, places
        self.shift = np.zeros((len(codes), rows.logs.shape[1] + 1))

    def losses(self) -> np.ndarray:
        logs = log_softmax(self.rows.moved(self.shift), axis=1)
        return np.asarray(-logs[np.arange(len(self.codes)), self.codes])

    def step(self) -> bool:
        """Take a step. Returns whether there was one to take."""
        step = self.booster.step()
        if step is not None:
            self.shift += step.shift(self.rows)
        return step is not None


def _held_out_losses(
    folds: Sequence[_HeldOut], sample: Sample, max_rounds: int
) -> list[np.ndarray]:
    """The held-out loss of each row after 0, 1, ... rounds. Folds advance together. They stop if
    no region is violated, or if the loss has not fallen for some rounds."""
    share = shares(sample.weights)

    def losses() -> np.ndarray:
        found = np.empty(len(sample))
        for fold in folds:
            found[fold.places] = fold.losses()
        return found

    path = [losses()]
    best = float(share @ path[0])
    best_round = 0
    while len(path) <= max_rounds and len(path) - best_round <= PATIENCE:
        stepped = [fold.step() for fold in folds]
        if not any(stepped):
            break
        path.append(losses())
        mean = float(share @ path[-1])
        if mean < best:
            best, best_round = mean, len(path) - 1
    return path
