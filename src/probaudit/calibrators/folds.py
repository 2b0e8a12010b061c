"""Folds of a cross-validation, and the predictions of calibrators fitted to the other folds."""

from __future__ import annotations

import heapq
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import as_array
from ..errors import Argument, InputError, not_a_truth_value
from .outputs import Outputs

if TYPE_CHECKING:
    from .base import Calibrator

FOLDS = 5
# calibrators can be fitted without rows of some classes
RARE_CLASS = "The least populated class"


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each valid row, and how the folds were made, in words."""

    numbers: np.ndarray
    words: str


def folds_of(outputs: Outputs, cv: Any, total: int, seed: int, *, stratify: bool = False) -> Folds:
    """The fold of each row, given or random. Clusters stay whole.

    cv : as in `calibration_loss`; or `Folds` of the same rows.
    total : the number of rows, valid or not.
    """
    if not isinstance(stratify, (bool, np.bool_)):
        raise not_a_truth_value("stratify", stratify)
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        count, clusters, stratify = int(cv), outputs.clusters, bool(stratify)
        return Folds(
            fold_numbers(count, outputs.codes, clusters, seed, stratify=stratify),
            fold_words(count, clustered=clusters is not None, stratify=stratify),
        )
    if stratify:
        raise InputError("stratify", "needs a number of folds in `cv`", repr(cv)[:80])
    folds = _given_folds(outputs, cv, total)
    if folds.numbers.max() < 1:
        raise InputError("cv", "needs two folds or more", 1)
    _check_clusters(folds.numbers, outputs)
    return folds


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
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

    units = len(codes) if clusters is None else len(np.unique(clusters))
    if not 2 <= count <= units:
        kind = "rows" if clusters is None else "clusters"
        raise InputError(
            "cv", f"must be at least 2 and at most the number of {kind} ({units})", count
        )
    if not stratify and clusters is not None:
        return _whole_clusters(count, clusters, seed)
    splitter: Any = (
        KFold if not stratify else StratifiedKFold if clusters is None else StratifiedGroupKFold
    )
    folds = np.empty(len(codes), np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=RARE_CLASS, category=UserWarning)
        try:
            parts = splitter(count, shuffle=True, random_state=seed).split(codes, codes, clusters)
            for number, (_, test) in enumerate(parts):
                folds[test] = number
        except ValueError as problem:
            raise InputError("cv", "cannot split these rows", str(problem)) from None
    return folds


def _whole_clusters(count: int, clusters: np.ndarray, seed: int) -> np.ndarray:
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
        return f"{count} {'stratified ' * stratify}folds of whole clusters"
    return f"{count} {'stratified' if stratify else 'random'} folds"


def _given_folds(outputs: Outputs, cv: Any, total: int) -> Folds:
    """Folds of the caller: as `Folds`, by a scikit-learn splitter, or one for each row."""
    if isinstance(cv, Folds):
        if len(cv.numbers) != len(outputs.codes):
            rule = f"must have one fold for each valid row ({len(outputs.codes)})"
            raise InputError("cv", rule, len(cv.numbers))
        return cv
    if hasattr(cv, "split"):
        numbers = _splitter_folds(cv, outputs)
        return Folds(numbers, f"{numbers.max() + 1} folds of {type(cv).__name__}")
    given = as_array(cv, "cv")
    if given.shape != (total,):
        rule = f"must be a number of folds, a splitter, or the fold of each row ({total})"
        raise InputError("cv", rule, repr(cv)[:80])
    numbers = np.unique(given[outputs.rows], return_inverse=True)[1].reshape(-1)
    return Folds(numbers, f"{numbers.max() + 1} given folds")


def _splitter_folds(splitter: Any, outputs: Outputs) -> np.ndarray:
    """The fold of each row by a scikit-learn splitter; clusters are passed as its groups."""
    folds = np.full(len(outputs.codes), -1)
    with warnings.catch_warnings():
        # `_check_clusters` raises if clusters are split
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        warnings.filterwarnings("ignore", message=RARE_CLASS)
        try:
            tests = [
                test for _, test in splitter.split(outputs.values, outputs.codes, outputs.clusters)
            ]
        except ValueError as problem:
            raise InputError("cv", "cannot split these rows", str(problem)) from None
    rule = "every row must be in one test fold"
    for number, test in enumerate(tests):
        if (folds[test] >= 0).any():
            raise InputError("cv", rule, f"fold {number} has rows of another")
        folds[test] = number
    if (folds < 0).any():
        raise InputError("cv", rule, f"row {int(outputs.rows[folds < 0][0])} is in none")
    return folds


def _check_clusters(folds: np.ndarray, outputs: Outputs) -> None:
    if outputs.clusters is None:
        return
    first = np.full(int(outputs.clusters.max()) + 1, -1)
    first[outputs.clusters[::-1]] = folds[::-1]
    apart = np.flatnonzero(first[outputs.clusters] != folds)
    if len(apart):
        raise InputError(
            "cv",
            "rows of a cluster must share a fold",
            "its cluster is in two folds",
            row=int(outputs.rows[apart[0]]),
            way_out=("pass a splitter that uses groups, or a number of folds, as ", Argument("cv")),
        )


def out_of_fold(
    outputs: Outputs, folds: np.ndarray, calibrator: Calibrator, weights: np.ndarray | None = None
) -> np.ndarray:
    """The calibrated probabilities of all rows; those of a fold come from a calibrator fitted to
    the other folds.

    If the training rows are all of one class, the fold keeps its outputs. A class without training
    rows keeps its probabilities, or its log odds: all calibrators do so.
    """
    weight = outputs.weights if weights is None else weights
    posteriors = np.empty(outputs.values.shape)
    numbers = np.unique(folds)
    kept = 0
    for number in numbers:
        test = folds == number
        train = np.flatnonzero(~test)
        codes = outputs.codes[train[weight[train] > 0]]
        if (codes == codes[:1]).all():
            posteriors[test] = outputs.probabilities()[test]
            kept += 1
        else:
            posteriors[test] = outputs.calibrated(outputs.fitted(calibrator, train, weight), test)
    if kept == len(numbers):
        raise InputError(
            "cv", "needs training folds with rows of two classes", "each has one class"
        )
    return posteriors
