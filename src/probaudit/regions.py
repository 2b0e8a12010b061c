"""Regions: how the rows of a level set are parted by their features (paper 1, Sections 4.2 and 4.4, Appendix D)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .arrays import as_array
from .errors import InputError
from .parallel import default_threads, each_chunk

CUTS = 255
SAMPLE = 20_000  # rows from which the cuts of a feature are taken
MOST_CATEGORIES = 100
PIECE = 2**20  # values of features that are converted at a time


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of each row, as a matrix with a name for each column. A column that says whether another one has a certain
    value carries that value in `categories`."""

    names: tuple[str, ...]
    values: np.ndarray
    categories: Mapping[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, rows: int, argument: str = "features") -> Features:
        """From a matrix (any float or integer format, as it is), a frame of any library, or a mapping of names to columns.

        >>> Features.of({"size": [1.5, 2.5], "colour": ["red", "blue"]}, 2).names
        ('size', 'colour')
        """
        columns = named_columns(data, argument)
        if columns is None:
            values = as_array(data, argument)
            if values.ndim != 2 or len(values) != rows or not values.shape[1]:
                raise InputError(argument, f"must be [rows, features] with {rows} rows", f"has shape {values.shape}")
            if values.dtype.kind in "fiu":
                return cls(tuple(f"f_{k}" for k in range(values.shape[1])), values)
            columns = {f"f_{k}": values[:, k] for k in range(values.shape[1])}
        names: list[str] = []
        parts: list[np.ndarray] = []
        categories: dict[int, Any] = {}
        for name, column in columns.items():
            if column.shape != (rows,):
                raise InputError(argument, f"column {name!r} needs one value per row ({rows})", f"has shape {column.shape}")
            known = _categories(column)
            for value in [None] if known is None else known:
                if known is not None:
                    categories[len(parts)] = value
                names.append(str(name))
                parts.append(column if known is None else column == value)
        if not parts:
            raise InputError(argument, "needs at least one column that varies")
        wide = any(part.dtype.kind in "iu" or part.dtype.itemsize == 8 for part in parts)
        return cls(tuple(names), np.column_stack(parts).astype(np.float64 if wide else np.float32), categories)

    @classmethod
    def none(cls, rows: int) -> Features:
        return cls((), np.empty((rows, 0), np.float32))

    @cached_property
    def cuts(self) -> np.ndarray:
        """Up to 255 values of each feature at equal shares of the rows, rising, then infinity; NaN is larger than all."""
        n, d = self.values.shape
        rows = np.arange(n) if n <= SAMPLE else np.sort(np.random.default_rng(0).choice(n, SAMPLE, replace=False))
        found = np.full((d, CUTS), np.inf, self._dtype)
        for k in range(d):
            known = np.sort(self.values[rows, k].astype(self._dtype))
            known = known[np.isfinite(known)]
            values = np.unique(known)
            if len(values) > CUTS + 1:
                values = np.unique(np.r_[known[np.arange(1, CUTS + 1) * len(known) // (CUTS + 1)], known[-1]])
            values = values[:-1]  # nothing lies above the last
            found[k, : len(values)] = values
        return found

    @property
    def _dtype(self) -> Any:
        return np.float64 if self.values.dtype.kind in "iu" or self.values.dtype.itemsize == 8 else np.float32

    @cached_property
    def codes(self) -> np.ndarray:
        """Each value as the number of cuts below it, one byte."""
        from .kernels.regions import code_rows

        codes, step = np.empty(self.values.shape, np.uint8), max(1, PIECE // self.values.shape[1])

        def fill(part: slice) -> None:
            for first in range(part.start, part.stop, step):
                piece = slice(first, min(first + step, part.stop))
                code_rows(np.ascontiguousarray(self.values[piece], self._dtype), self.cuts, codes[piece])

        each_chunk(codes, fill)
        return codes

    def bound(self, column: int, low: float, high: float) -> str:
        """That a feature lies above low and not above high, in words."""
        name = self.names[column]
        if column in self.categories:
            return f"{name} {'=' if low >= 0 else '!='} {self.categories[column]}"
        if not np.isfinite(low):
            return f"{name} <= {high:.3g}"
        return f"{name} > {low:.3g}" if not np.isfinite(high) else f"{low:.3g} < {name} <= {high:.3g}"


def named_columns(data: Any, argument: str) -> dict[str, np.ndarray] | None:
    """The columns of a frame or mapping by name; None for a matrix."""
    if isinstance(data, Mapping):
        return {str(name): as_array(column, argument) for name, column in data.items()}
    if isinstance(data, np.ndarray) or not hasattr(data, "columns"):
        return None
    import narwhals as nw

    frame = nw.from_native(data, eager_only=True)
    return {name: np.asarray(frame[name].to_numpy()) for name in frame.columns}


def _categories(column: np.ndarray) -> list[Any] | None:
    """The values of a column that holds no numbers, the most frequent first; the last of two says nothing new."""
    if column.dtype.kind in "fiu":
        return None
    counts: dict[Any, int] = {}
    for value in column.tolist():
        counts[value] = counts.get(value, 0) + 1
    ordered = sorted(counts, key=lambda value: (-counts[value], str(value)))
    return ordered[:1] if len(ordered) == 2 else ordered[:MOST_CATEGORIES]


class Level(NamedTuple):
    """The rows of a level set: those to learn regions from, those to be parted, and, for all rows, weights and hits."""

    train: np.ndarray
    test: np.ndarray
    weights: np.ndarray
    hits: np.ndarray  # the weight of the row, or 0
    by_log: bool
    seed: int


class Division(NamedTuple):
    """The region of each row that was to be parted, numbered from 0, and the rule of each region in words."""

    region: np.ndarray
    rule: Callable[[int], str]


class Regions(ABC):
    """A choice of how the rows of each level set are parted. To write one, subclass and implement `divide`; level sets are
    divided in several threads, and what they share can be made in `prepare`."""

    def prepare(self, features: Features) -> None:  # noqa: B027
        """Called once, before any level set is divided."""

    @abstractmethod
    def divide(self, features: Features, level: Level) -> Division:
        """Regions learned from some rows of a level set, and where the others lie."""


@dataclass(frozen=True)
class TreeRegions(Regions):
    """The leaves of a decision tree for the event, by the loss that is asked for: at most one for each `ratio` rows, each with
    about as many rows or more. Splits are at 255 values of each feature."""

    ratio: float = 30

    def __post_init__(self) -> None:
        if not self.ratio >= 2:
            raise InputError("region_ratio", "must be at least 2", self.ratio)

    def prepare(self, features: Features) -> None:
        _ = features.codes

    def least(self, level: Level) -> float:
        return len(level.train) // max(1, len(level.test) // self.ratio)

    def divide(self, features: Features, level: Level) -> Division:
        from .kernels.regions import find_leaves, grow_tree

        least = self.least(level)
        if len(level.train) < 2 * least or not least:
            return Division(np.zeros(len(level.test), np.int64), lambda _: "all")
        tree = grow_tree(features.codes, level.train, level.weights, level.hits, float(least), level.by_log)
        leaves = np.empty(len(level.test), np.int64)
        find_leaves(features.codes, level.test, tree, leaves)
        return Division(leaves, lambda leaf: _path(features, tree, leaf))


@dataclass(frozen=True)
class StumpRegions(TreeRegions):
    """Two regions by one feature, each with at least two fifths of the rows: for diagrams (paper 1, Figure 5)."""

    def least(self, level: Level) -> float:
        return 0.4 * len(level.train)


def _path(features: Features, tree: np.ndarray, leaf: int) -> str:
    """What leads to a leaf, in words."""
    bounds: dict[int, tuple[float, float]] = {}
    while leaf:
        parent = int(np.flatnonzero((tree[:, 2] == leaf) | ((tree[:, 2] == leaf - 1) & (tree[:, 0] >= 0)))[0])
        column, cut = int(tree[parent, 0]), float(features.cuts[tree[parent, 0], tree[parent, 1]])
        low, high = bounds.get(column, (-np.inf, np.inf))
        bounds[column] = (low, min(high, cut)) if leaf == tree[parent, 2] else (max(low, cut), high)
        leaf = parent
    return " and ".join(features.bound(column, *bounds[column]) for column in sorted(bounds)) or "all"


@dataclass(frozen=True)
class KMeansRegions(Regions):
    """Clusters of the features as they are, without a look at the event."""

    clusters: int = 2

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise InputError("clusters", "must be at least 1", self.clusters)

    def divide(self, features: Features, level: Level) -> Division:
        from sklearn.cluster import KMeans

        train = np.asarray(features.values[level.train], features._dtype)
        clusters = min(self.clusters, len(np.unique(train, axis=0))) if len(train) else 0
        if clusters < 2:
            return Division(np.zeros(len(level.test), np.int64), lambda _: "all")
        model = KMeans(clusters, n_init="auto", random_state=level.seed).fit(train, sample_weight=level.weights[level.train])
        region = model.predict(np.asarray(features.values[level.test], features._dtype)).astype(np.int64)
        return Division(region, lambda number: f"cluster {number + 1} of {clusters}")


@dataclass(frozen=True, eq=False)
class GivenRegions(Regions):
    """Groups that are known before: the number of each row's, and what each is called. Nothing is learned from rows."""

    groups: np.ndarray
    names: Sequence[str]

    @classmethod
    def of_columns(cls, columns: Mapping[str, np.ndarray]) -> GivenRegions:
        """The combinations of values that occur.

        >>> GivenRegions.of_columns({"corruption": np.array(["blur", "noise", "blur"])}).names
        ['corruption = blur', 'corruption = noise']
        """
        known: dict[tuple[Any, ...], int] = {}
        groups = [known.setdefault(key, len(known)) for key in zip(*(c.tolist() for c in columns.values()), strict=True)]
        names = [" and ".join(f"{name} = {v}" for name, v in zip(columns, key, strict=True)) for key in known]
        return cls(np.array(groups, np.int64), names)

    def divide(self, features: Features, level: Level) -> Division:
        return Division(self.groups[level.test], lambda number: self.names[number])


@dataclass(frozen=True, eq=False)
class Parting:
    """Rows in regions, numbered through all level sets in rising order: the region of each row (-1 for a row that only taught),
    and of each region its level set, its bin, and its group. Groups that are known before reach over bins; else every region is
    a group of its own. `rule` says in words what makes a group."""

    region: np.ndarray
    level: np.ndarray
    bin: np.ndarray
    group: np.ndarray
    rule: Callable[[int], str]


def halves(bins: np.ndarray, seed: int) -> np.ndarray:
    """The half, 0 or 1, of each row: the rows of every bin are shuffled and parted; an odd one goes to half 0."""
    order = np.random.default_rng(seed).permutation(len(bins))
    order = order[np.argsort(bins[order], kind="stable")]
    sizes = np.bincount(bins)
    place = np.arange(len(bins)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.empty(len(bins), np.int64)
    found[order] = place >= np.repeat((sizes + 1) // 2, sizes)
    return found


def part_rows(
    choice: Regions, features: Features, bins: Sequence[np.ndarray], test: Sequence[np.ndarray], rows: Level
) -> Parting:
    """The rows of each bin parted, for every fold: the bin of each row there, and whether it is to be parted.

    rows : `train` holds the place of each row among those of the features.
    """
    places, jobs = rows.train, []
    for cells, tested in zip(bins, test, strict=True):
        order = np.argsort(2 * cells + tested, kind="stable")
        ends = np.searchsorted((2 * cells + tested)[order], np.arange(2 * int(cells.max()) + 3))
        for cell in np.flatnonzero(ends[2::2] > ends[1:-1:2]):
            taught, parted = order[ends[2 * cell] : ends[2 * cell + 1]], order[ends[2 * cell + 1] : ends[2 * cell + 2]]
            jobs.append((int(cell), parted, rows._replace(train=places[taught], test=places[parted])))
    choice.prepare(features)
    with ThreadPoolExecutor(default_threads()) as pool:
        divisions = list(pool.map(lambda job: choice.divide(features, job[2]), jobs))
    region, sizes = np.full(len(places), -1), []
    origin: list[tuple[Division, int]] = []
    for (_, parted, _), division in zip(jobs, divisions, strict=True):
        known, place = np.unique(division.region, return_inverse=True)
        region[parted] = len(origin) + place.reshape(-1)
        sizes.append(len(known))
        origin += [(division, int(own)) for own in known]
    level = np.repeat(np.arange(len(jobs)), sizes)
    bins_of = np.array([cell for cell, _, _ in jobs])[level]
    if isinstance(choice, GivenRegions):
        group, rule = np.array([own for _, own in origin]), choice.names.__getitem__
    else:
        group, rule = np.arange(len(origin)), lambda number: origin[number][0].rule(origin[number][1])
    return Parting(region, level, bins_of, group, rule)
