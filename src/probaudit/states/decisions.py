"""Counts of (true class, decision) for too many classes for a dense table."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .summary import merge_pairs, pairs_of_groups

DENSE_CLASSES = 256
BUFFER = 2**17


class SparseCounts:
    """A sorted list of codes with their counts and, with weights, pairs of the sums of w and w^2.

    New codes are buffered. `settle` sorts them in, which makes the arrays canonical.
    """

    def __init__(self, weighted: bool) -> None:
        self._weighted = weighted
        self._codes = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._sums = np.empty((0, 4), np.int64)
        self._waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._waiting_size = 0

    def add(self, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Count rows, given their codes and weights."""
        if not len(codes):
            return
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        counts = np.diff(np.r_[starts, len(codes)])
        sums = np.empty((len(starts), 0), np.int64)
        if weights is not None:
            w = weights[order]
            sums = np.concatenate(
                [pairs_of_groups(w, starts), pairs_of_groups(w * w, starts)], axis=1
            )
        self._take(codes[starts], counts, sums)

    def _take(self, codes: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        self._waiting.append((codes, counts, sums))
        self._waiting_size += len(codes)
        if self._waiting_size > max(BUFFER, len(self._codes)):
            self.settle()

    def settle(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes in order, their counts, and their sums of weights."""
        for codes, counts, sums in self._waiting:
            union = np.union1d(self._codes, codes)
            total = np.zeros(len(union), np.int64)
            pairs = np.zeros((len(union), 4 if self._weighted else 0), np.int64)
            here, there = np.searchsorted(union, self._codes), np.searchsorted(union, codes)
            total[here] += self._counts
            total[there] += counts
            if self._weighted:
                pairs[here] = self._sums
                pairs[there] = merge_pairs(pairs[there], sums)
            self._codes, self._counts, self._sums = union, total, pairs
        self._waiting, self._waiting_size = [], 0
        return self._codes, self._counts, self._sums

    def restore(self, codes: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take the arrays that `settle` returned."""
        if not (
            codes.ndim == 1
            and len(codes) == len(counts) == len(sums)
            and (np.diff(codes) > 0).all()
        ):
            raise InputError("state", "decisions must be sorted, each with its counts")
        self._codes, self._counts, self._sums = (
            codes,
            counts,
            sums.reshape(len(codes), sums.shape[1] if sums.ndim == 2 else 0),
        )

    def merge(self, other: SparseCounts) -> None:
        """Add other counts to these."""
        codes, counts, sums = other.settle()
        if len(codes):
            self._take(codes, counts, sums)
