"""Choices of regions: how the rows of a level set are split by their features (Perez-Lebel et al.
2023, Sections 4.2 and 4.4, Appendix D)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..choices.partitions import Partition
from ..data.arrays import is_missing, named_columns, value_name
from ..data.populations import Ranges
from ..data.predictions import Predictions
from ..errors import Argument, InputError
from .features import Features, features_of

WHOLE = "all"  # the rule of a region that is a whole level set
# rows on each side, if a level set has too few rows for `region_ratio` and is split once
LEAST_ROWS = 5


class Level(NamedTuple):
    """The rows of a level set.

    train, test : the rows to learn regions from, and the rows to split.
    weights, hits : of all rows. The hits of a row are its weight or 0; for several classes they
        are [rows, classes].
    by_log : whether trees are grown by the log loss instead of the Brier score.
    """

    train: np.ndarray
    test: np.ndarray
    weights: np.ndarray
    hits: np.ndarray
    by_log: bool
    seed: int


class Division(NamedTuple):
    """A level set divided into regions.

    region : the region of each test row, numbered from 0.
    rule : a function that describes a region in words.
    place : a function that gives the regions of other rows, from features and row positions; None
        if other rows cannot be placed.
    size : the largest possible number of regions.
    searched : whether there were enough rows to search for regions.
    split : False if the level set stayed whole.
    """

    region: np.ndarray
    rule: Callable[[int], str]
    place: Callable[[Features, np.ndarray], np.ndarray] | None = None
    size: int = 0
    searched: bool = True
    split: bool = True

    @classmethod
    def unsplit(cls, rows: int, *, searched: bool = False) -> Division:
        """The whole level set as a single region."""
        region = np.zeros(rows, np.int64)
        return cls(region, lambda _: WHOLE, _single_region, 1, searched=searched, split=False)


def _single_region(features: Features, rows: np.ndarray) -> np.ndarray:
    return np.zeros(len(rows), np.int64)


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaf of a tree for each row."""

    tree: np.ndarray

    def __call__(self, features: Features, rows: np.ndarray) -> np.ndarray:
        from ..kernels.regions import find_leaves

        leaves = np.empty(len(rows), np.int64)
        find_leaves(features.codes, rows, self.tree, leaves)
        return leaves


@dataclass(frozen=True, eq=False)
class Nearest:
    """The cluster with the nearest centre for each row."""

    model: Any

    def __call__(self, features: Features, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.zeros(0, np.int64)
        return np.asarray(
            self.model.predict(np.asarray(features.values[rows], features._dtype)), np.int64
        )


class Regions(ABC):
    """A way to divide the rows of each level set. To define your own, subclass and implement
    `divide`. Level sets are divided in several threads; compute shared data in `prepare`."""

    def prepare(self, features: Features) -> None:  # noqa: B027
        """Called once, before any level set is divided."""

    def words(self) -> str:
        """A description in plain English; by default, the code of the choice."""
        return repr(self)

    @abstractmethod
    def divide(self, features: Features, level: Level) -> Division:
        """Regions learned from some rows of a level set, and the regions of the others."""


@dataclass(frozen=True)
class TreeRegions(Regions):
    """The leaves of a decision tree for the event, grown by the chosen score, with about `ratio`
    rows or more in each leaf. Splits are at up to 255 values of each feature.

    A level set with too few rows for three such regions is split once, into regions that have at
    least 5 rows and two fifths of all. (Two halves would need a feature with a cut at its median.)
    If no feature allows that, such as an indicator that is rarely 1, it is split once into regions
    of 5 rows or more.
    """

    ratio: float = 30
    fallback: ClassVar[float] = LEAST_ROWS  # rows on each side, if no feature allows larger regions

    def __post_init__(self) -> None:
        if not self.ratio >= 2:
            raise InputError("region_ratio", "must be at least 2", self.ratio)

    def words(self) -> str:
        return f"regions of a tree, one for {self.ratio:g} rows or more"

    def prepare(self, features: Features) -> None:
        _ = features.codes

    def least(self, level: Level) -> float:
        """The smallest number of learning rows in a region."""
        regions = len(level.test) // self.ratio
        return len(level.train) // regions if regions > 2 else _stump_least(level)

    def divide(self, features: Features, level: Level) -> Division:
        least = self.least(level)
        if len(level.train) < max(2, 2 * least) or not least:
            return Division.unsplit(len(level.test))
        tree, possible = _grown(features, level, least), True
        if len(tree) == 1:
            codes, weights = features.codes[level.train], level.weights[level.train]
            if not _can_split(codes, weights, least):
                possible = _can_split(codes, weights, self.fallback)
                tree = _first_split(_grown(features, level, self.fallback)) if possible else tree
        leaves = Leaves(tree)
        region, rule = leaves(features, level.test), partial(_path, features, tree)
        split = len(tree) > 1
        return Division(region, rule, leaves, len(tree), searched=possible, split=split)


def _can_split(values: np.ndarray, weights: np.ndarray, least: float) -> bool:
    """Whether some feature has a cut with `least` times the mean weight on both sides."""
    heavy = least * weights.mean() * (1 - 1e-9)
    for column in values.T:
        left = np.bincount(np.unique(column, return_inverse=True)[1], weights).cumsum()
        if ((left >= heavy) & (left[-1] - left >= heavy)).any():
            return True
    return False


def _first_split(tree: np.ndarray) -> np.ndarray:
    """The root of a tree and its two children, as leaves."""
    found = tree[:3].copy()
    found[1:] = -1
    return found


def _stump_least(level: Level) -> float:
    """The least number of rows for one split: two fifths of them, and at least LEAST_ROWS."""
    few = min(len(level.train), len(level.test)) < 2 * LEAST_ROWS
    return float(len(level.train)) if few else max(0.4 * len(level.train), LEAST_ROWS)


@dataclass(frozen=True)
class StumpRegions(TreeRegions):
    """Two regions by one feature, each with at least two fifths of the rows; for diagrams."""

    fallback: ClassVar[float] = np.inf

    def words(self) -> str:
        return "two regions by one feature"

    def least(self, level: Level) -> float:
        return 0.4 * len(level.train)


def _grown(features: Features, level: Level, least: float) -> np.ndarray:
    """A tree in the format of `grow_tree`; for several classes, by the sum of their squared
    errors."""
    from ..kernels.regions import grow_tree

    if level.hits.ndim == 1:
        return np.asarray(
            grow_tree(
                features.codes, level.train, level.weights, level.hits, float(least), level.by_log
            )
        )
    from sklearn.tree import DecisionTreeRegressor

    rows, w = level.train, level.weights[level.train]
    model = DecisionTreeRegressor(
        min_weight_fraction_leaf=least / len(rows) * (1 - 1e-9), random_state=level.seed
    )
    grown = model.fit(features.codes[rows], level.hits[rows] / w[:, None], sample_weight=w).tree_
    number, found = {0: 0}, np.full((grown.node_count, 3), -1, np.int32)
    for node in range(grown.node_count):  # parents come before their children
        left, right = int(grown.children_left[node]), int(grown.children_right[node])
        if left >= 0:
            first = len(number)
            number[left], number[right] = first, first + 1
            found[number[node]] = (grown.feature[node], int(np.floor(grown.threshold[node])), first)
    return found


def _single_precision(values: np.ndarray) -> np.ndarray:
    """Features in the format of scikit-learn's trees; a missing value counts as the largest."""
    return np.asarray(np.nan_to_num(values.astype(np.float32), nan=np.inf))


@dataclass(frozen=True, eq=False)
class Side:
    """The side of a cut: 0 if the feature is not above it, else 1."""

    column: int
    cut: float

    def __call__(self, features: Features, rows: np.ndarray) -> np.ndarray:
        return (_single_precision(features.values[rows, self.column]) > self.cut).astype(np.int64)


@dataclass(frozen=True)
class BalancedStump(Regions):
    """Two halves of the training rows, split at the median of the most informative feature:
    scikit-learn's tree with half of the rows in each leaf, as in Perez-Lebel et al. 2023 (Figures 5
    to 8, Appendix D). A feature with ties at its median cannot give halves. The seed breaks ties
    between features."""

    def words(self) -> str:
        return "two halves by one feature"

    def divide(self, features: Features, level: Level) -> Division:
        from sklearn.tree import DecisionTreeRegressor

        rows, w = level.train, level.weights[level.train]
        if len(rows) < 2:
            return Division.unsplit(len(level.test))
        hits = level.hits[rows] / (w if level.hits.ndim == 1 else w[:, None])
        values = _single_precision(features.values[rows])
        model = DecisionTreeRegressor(min_samples_leaf=len(rows) // 2, random_state=level.seed)
        tree = model.fit(values, hits, sample_weight=w).tree_
        if tree.node_count == 1:
            halves = _can_split(values, np.ones(len(rows)), len(rows) // 2)
            return Division.unsplit(len(level.test), searched=halves)
        side = Side(int(tree.feature[0]), float(tree.threshold[0]))
        ends = ((-np.inf, side.cut), (side.cut, np.inf))
        return Division(
            side(features, level.test),
            lambda number: features.bound(side.column, *ends[number]),
            side,
            2,
        )


def _path(features: Features, tree: np.ndarray, leaf: int) -> str:
    """The conditions that lead to a leaf, in words."""
    bounds: dict[int, tuple[float, float]] = {}
    while leaf:
        parent = int(
            np.flatnonzero((tree[:, 2] == leaf) | ((tree[:, 2] == leaf - 1) & (tree[:, 0] >= 0)))[0]
        )
        column, cut = int(tree[parent, 0]), float(features.cuts[tree[parent, 0], tree[parent, 1]])
        low, high = bounds.get(column, (-np.inf, np.inf))
        bounds[column] = (low, min(high, cut)) if leaf == tree[parent, 2] else (max(low, cut), high)
        leaf = parent
    return (
        " and ".join(features.bound(column, *bounds[column]) for column in sorted(bounds)) or WHOLE
    )


@dataclass(frozen=True)
class KMeansRegions(Regions):
    """K-means clusters of the features. They do not depend on the event."""

    clusters: int = 2

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise InputError("clusters", "must be at least 1", self.clusters)

    def words(self) -> str:
        return f"{self.clusters} clusters of the features"

    def divide(self, features: Features, level: Level) -> Division:
        from sklearn.cluster import KMeans

        train = np.asarray(features.values[level.train], features._dtype)
        clusters = min(self.clusters, len(np.unique(train, axis=0))) if len(train) else 0
        if clusters < 2:
            return Division.unsplit(len(level.test))
        model = KMeans(clusters, n_init="auto", random_state=level.seed).fit(
            train, sample_weight=level.weights[level.train]
        )
        nearest = Nearest(model)
        region = nearest(features, level.test)
        return Division(
            region, lambda number: f"cluster {number + 1} of {clusters}", nearest, clusters
        )


def _hashable_value(value: Any) -> Any:
    """A value in the form that samples store: missing values are equal, dates are text."""
    if is_missing(value):
        return None
    return value if isinstance(value, (str, int, float, list, dict, set)) else str(value)


@dataclass(frozen=True, eq=False)
class GivenRegions(Regions):
    """Known groups: the number of each row's group, and the name of each group. Nothing is learned.

    numbers : the number of each group, by the values of its columns.
    ranges : of the columns that were cut into ranges of numbers.
    """

    groups: np.ndarray
    names: Sequence[str]
    numbers: Mapping[tuple[Any, ...], int] = field(default_factory=dict, repr=False)
    ranges: Mapping[str, Ranges] = field(default_factory=dict, repr=False)

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray]) -> GivenRegions:
        """The combinations of values that occur.

        >>> GivenRegions.of_columns({"corruption": np.array(["blur", "noise", "blur"])}).names
        ['corruption = blur', 'corruption = noise']
        """
        known: dict[tuple[Any, ...], int] = {}
        values = (
            [_hashable_value(value) for value in column.tolist()] for column in columns.values()
        )
        try:
            groups = [known.setdefault(key, len(known)) for key in zip(*values, strict=True)]
        except TypeError as problem:
            raise InputError(
                "regions", "columns must contain single values", f"{', '.join(columns)}: {problem}"
            ) from None
        pairs = (zip(columns, key, strict=True) for key in known)
        names = [" and ".join(f"{name} = {value_name(v)}" for name, v in key) for key in pairs]
        return cls(np.array(groups, np.int64), names, known)

    def divide(self, features: Features, level: Level) -> Division:
        groups = self.groups[level.test]
        several = bool(len(groups)) and bool((groups != groups[0]).any())
        return Division(
            groups, lambda number: self.names[number], size=len(self.names), searched=several
        )


def given_regions(
    names: Sequence[str],
    predictions: Predictions,
    features: Any = None,
    ranges: Mapping[str, Ranges] | None = None,
) -> GivenRegions:
    """Groups by the values of the named columns, of the rows or of their features. Many different
    numbers are cut into ranges, or into the given `ranges`."""
    rows, features = len(predictions), features_of(predictions) if features is None else features
    columns = dict(predictions.columns or {}) | (named_columns(features, "features") or {})
    missing = [name for name in names if name not in columns]
    if missing or not names:
        raise InputError(
            "regions",
            "must name columns of the features or of the Predictions",
            repr(missing or names),
        )
    chosen = {name: columns[name] for name in names}
    for name, column in chosen.items():
        if column.shape != (rows,):
            raise InputError(
                "regions",
                f"column {name!r} must have one value per row ({rows})",
                f"shape {column.shape}",
            )
    if ranges is None:
        each = {name: Ranges.of(column) for name, column in chosen.items()}
        ranges = {name: found for name, found in each.items() if found is not None}
    labels = {name: cut.labels(chosen[name]) for name, cut in ranges.items()}
    return replace(GivenRegions.of_columns(chosen | labels), ranges=ranges)


def chosen_regions(
    regions: Any, ratio: float, features: Any, predictions: Predictions
) -> tuple[Regions | Partition, Features]:
    """The choice of regions, and the features if it needs any."""
    rows = len(predictions)
    features = features_of(predictions) if features is None else features
    if isinstance(regions, Partition):
        return regions, Features.none(rows)
    if isinstance(regions, (list, tuple)):
        return given_regions(regions, predictions, features), Features.none(rows)
    named = {
        "tree": TreeRegions(ratio),
        "stump": StumpRegions(),
        "balanced_stump": BalancedStump(),
        "kmeans": KMeansRegions(),
    }
    if not isinstance(regions, Regions) and (not isinstance(regions, str) or regions not in named):
        raise InputError(
            "regions",
            f"must be one of {', '.join(named)}, names of columns, or a Regions choice",
            repr(regions),
        )
    choice = regions if isinstance(regions, Regions) else named[regions]
    if isinstance(choice, GivenRegions):
        if choice.groups.shape != (rows,):
            rule = f"must have one group per row ({rows})"
            raise InputError("regions", rule, f"shape {choice.groups.shape}")
        return choice, Features.none(rows)
    if features is None:
        way_out = ("pass features, or names of columns as ", Argument("regions"))
        raise InputError("features", "are required to learn regions", way_out=way_out)
    return choice, Features.of(features, rows)
