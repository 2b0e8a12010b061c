"""The assignment of rows to regions: folds, and the regions of each level set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..data.work import default_threads
from .features import Features
from .regions import Division, GivenRegions, Level, Regions

# of each level set: its fold, its bin and its division
Levels = Sequence[tuple[int, int, Division]]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Rows assigned to regions. Regions are numbered across all level sets in rising order.

    region : the region of each row; -1 for a row that is only used to learn regions.
    level, bin, group : the level set, bin and group of each region. Known groups span bins;
        otherwise every region is a group.
    rule : a function that describes a group in words.
    own : the number of each region within its level set.
    divisions : the fold, bin and division of each level set.
    split : a function that is False for a group that is a whole level set.
    """

    region: np.ndarray
    level: np.ndarray
    bin: np.ndarray
    group: np.ndarray
    rule: Callable[[int], str]
    own: np.ndarray
    divisions: Levels
    split: Callable[[int], bool]

    @classmethod
    def of(
        cls,
        region: np.ndarray,
        level: np.ndarray,
        own: np.ndarray,
        divisions: Levels,
        choice: Regions,
    ) -> Assignment:
        """From the region of each row, and the level set of each region with its number there."""
        bins = np.array([cell for _, cell, _ in divisions])[level]
        given = isinstance(choice, GivenRegions)

        def rule(number: int) -> str:
            return divisions[level[number]][2].rule(int(own[number]))

        def split(number: int) -> bool:
            return divisions[level[number]][2].split

        return cls(
            region=region,
            level=level,
            bin=bins,
            group=own if given else np.arange(len(own)),
            rule=choice.names.__getitem__ if isinstance(choice, GivenRegions) else rule,
            own=own,
            divisions=divisions,
            split=(lambda _: True) if given else split,
        )


def halves(bins: np.ndarray, seed: int, clusters: np.ndarray | None = None) -> np.ndarray:
    """The half, 0 or 1, of each row. The rows of each bin are shuffled and split; an odd row goes
    to half 0. Clusters stay whole, and are balanced by their sizes."""
    rng = np.random.default_rng(seed)
    if clusters is not None:
        sizes = np.bincount(clusters)
        order = np.lexsort((rng.permutation(len(sizes)), -sizes))
        order = order[sizes[order] > 0]
        half_of = np.zeros(len(sizes), np.int64)
        # clusters of similar size go to different halves
        half_of[order] = np.tile([0, 1, 1, 0], len(order) // 4 + 1)[: len(order)]
        return half_of[clusters]
    order = rng.permutation(len(bins))
    order = order[np.argsort(bins[order], kind="stable")]
    sizes = np.bincount(bins)
    place = np.arange(len(bins)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    half = np.empty(len(bins), np.int64)
    half[order] = place >= np.repeat((sizes + 1) // 2, sizes)
    return half


def assign_rows(
    choice: Regions,
    features: Features,
    bins: Sequence[np.ndarray],
    test: Sequence[np.ndarray],
    rows: Level,
) -> Assignment:
    """Divide the test rows of each bin into regions, for every fold.

    bins, test : for each fold, the bin of each row, and whether the row is a test row.
    rows : `train` holds the position of each row in the features.
    """
    places, jobs = rows.train, []
    for fold, (cells, tested) in enumerate(zip(bins, test, strict=True)):
        for cell, learning, splitting in _level_sets(cells, tested):
            level = rows._replace(train=places[learning], test=places[splitting])
            jobs.append((fold, cell, splitting, level))
    choice.prepare(features)
    with ThreadPoolExecutor(default_threads()) as pool:
        divisions = list(pool.map(lambda job: choice.divide(features, job[3]), jobs))
    region, owns, first = np.full(len(places), -1), [], 0
    for (_, _, splitting, _), division in zip(jobs, divisions, strict=True):
        known, place = np.unique(division.region, return_inverse=True)
        region[splitting] = first + place.reshape(-1)
        owns.append(known)
        first += len(known)
    level_of = np.repeat(np.arange(len(jobs)), [len(known) for known in owns])
    levels = [
        (fold, cell, division) for (fold, cell, _, _), division in zip(jobs, divisions, strict=True)
    ]
    return Assignment.of(region, level_of, np.concatenate(owns), levels, choice)


def _level_sets(
    cells: np.ndarray, tested: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each bin with test rows: its number, its training rows and its test rows."""
    key = 2 * cells + tested
    order = np.argsort(key, kind="stable")
    ends = np.searchsorted(key[order], np.arange(2 * int(cells.max()) + 3))
    for cell in np.flatnonzero(ends[2::2] > ends[1:-1:2]):
        first, middle, last = ends[2 * cell : 2 * cell + 3]
        yield int(cell), order[first:middle], order[middle:last]
