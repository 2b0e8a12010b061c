"""Folds of a cross-validation: at random, of whole clusters, or stratified by class."""

from __future__ import annotations

import heapq
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from ...errors import InputError


def fold_numbers(
    count: int, codes: np.ndarray, clusters: np.ndarray | None, seed: int, *, stratify: bool = False
) -> np.ndarray:
    """The fold of each row, from 0 to count - 1.

    Folds are random unless `stratify`. With stratified folds the class frequencies of the training
    folds reveal those of the test fold: a calibrator with a bias for each class then looks better
    than it is.

    >>> fold_numbers(2, np.zeros(6, int), np.array([7, 7, 7, 8, 9, 9]), seed=0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    units = len(codes) if clusters is None else len(np.unique(clusters))
    if not 2 <= count <= units:
        kind = "rows" if clusters is None else "clusters"
        raise InputError(
            "cv", f"must be at least 2 and at most the number of {kind} ({units})", count
        )
    if not stratify and clusters is not None:
        return whole_clusters(count, clusters, seed)
    splitter: Any = (
        KFold if not stratify else StratifiedKFold if clusters is None else StratifiedGroupKFold
    )
    folds = np.empty(len(codes), np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        try:
            parts = splitter(count, shuffle=True, random_state=seed).split(codes, codes, clusters)
            for number, (_, test) in enumerate(parts):
                folds[test] = number
        except ValueError as problem:
            raise InputError("cv", "cannot split these rows", str(problem)) from None
    return folds


def whole_clusters(count: int, clusters: np.ndarray, seed: int) -> np.ndarray:
    """Folds of whole clusters with about equal numbers of rows: clusters, the largest first and in
    random order among equals, each go to the smallest fold."""
    _, place, rows = np.unique(clusters, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    order = shuffled[np.argsort(-rows[shuffled], kind="stable")]
    sizes = [(0, number) for number in range(count)]
    fold = np.empty(len(rows), np.int64)
    for cluster in order.tolist():
        size, number = sizes[0]
        fold[cluster] = number
        heapq.heapreplace(sizes, (size + int(rows[cluster]), number))
    return fold[place.reshape(-1)]


def fold_words(count: int, *, clustered: bool, stratify: bool) -> str:
    """The folds in words, for a definition.

    >>> fold_words(5, clustered=False, stratify=False), fold_words(5, clustered=True, stratify=True)
    ('5 random folds', '5 stratified folds of whole clusters')
    """
    if clustered:
        return (
            f"{count} stratified folds of whole clusters"
            if stratify
            else f"{count} folds of whole clusters"
        )
    return f"{count} stratified folds" if stratify else f"{count} random folds"
