"""Isotonic regression: a curve for each class, or one curve for all classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError
from ..kernels.isotonic import pool_adjacent_violators, read_curve
from .base import Calibrator, Sample
from .one_vs_rest import CERTAIN, OneVsRestCalibrator, by_output, share_out


class IsotonicCalibration(OneVsRestCalibrator):
    """Fits a non-decreasing curve to each class against the rest, with the least squared error to
    the labels.

    The algorithm is pool adjacent violators (Ayer et al. 1955), its use for calibration that of
    Zadrozny & Elkan 2002. With two classes the curve is optimal for every proper score (Brümmer
    2010). Equal outputs are pooled first. The curve is linear between pools and constant beyond the
    outputs of the fit.

    finite : count one more hit and one more miss at the lowest and at the highest output. A pool of
        n misses then gets 1 / (n + 2) (Laplace's rule of succession), the curve still does not
        decrease, and no new row has an infinite log loss. With `finite=False` the curve is that of
        scikit-learn and of Ferrer & Ramos 2025: a pool without hits has probability 0, where a new
        hit costs an infinite log loss. The status reports such pools.
    centred : one knot for each pool, at the weighted mean of its outputs, instead of one at each
        end (Oron & Flournoy 2017). The curve then increases strictly between the first and the last
        knot: it has no steps, and hardly any ties that change the ranking of rows.

    >>> P, y = [0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 1, 1]
    >>> IsotonicCalibration().fit(P, y).predict_proba([0.2, 0.35, 0.9])[:, 1].round(3)
    array([0.5  , 0.625, 0.75 ])
    >>> IsotonicCalibration(finite=False).fit(P, y).predict_proba([0.2, 0.35, 0.9])[:, 1].round(3)
    array([0.5 , 0.75, 1.  ])
    """

    def __init__(
        self,
        *,
        finite: bool = True,
        centred: bool = False,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.finite = finite
        self.centred = centred
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        kind = "centred isotonic regression" if self.centred else "isotonic regression"
        return kind if self.finite else f"plain {kind}"

    def _curve(
        self, inputs: np.ndarray, hits: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, str]:
        if self.finite:
            inputs = np.append(inputs, [inputs.min(), inputs.max()])
            hits, weights = np.append(hits, [1.0, 1.0]), np.append(weights, [2.0, 2.0])
        rows = by_output(inputs, hits, weights)
        knots = pool_adjacent_violators(*rows)
        if self.centred:
            knots = _centred(knots, rows[0], rows[2])
        certain = knots[1, 0] == 0 or knots[1, -1] == 1
        return knots, CERTAIN if certain else ""

    def _apply(self, curve: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return read_curve(curve, inputs)


def _centred(knots: np.ndarray, outputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The knots of centred isotonic regression, given those at the ends of each pool.

    >>> knots = np.array([[0.1, 0.4, 0.5], [0.2, 0.2, 0.9]])
    >>> _centred(knots, np.array([0.1, 0.4, 0.5]), np.ones(3))
    array([[0.25, 0.5 ],
           [0.2 , 0.9 ]])
    """
    first = np.flatnonzero(np.append(True, knots[1, 1:] > knots[1, :-1]))
    starts, ends = knots[0, first], knots[0, np.append(first[1:], knots.shape[1]) - 1]
    pool = np.searchsorted(starts, outputs, side="right") - 1
    centres = np.bincount(pool, weights * outputs) / np.bincount(pool, weights)
    return np.stack([centres.clip(starts, ends), knots[1, first]])


class IRM(Calibrator):
    """Fits one non-decreasing curve to the probabilities of all classes together: isotonic
    regression for many classes (Zhang, Kailkhura & Han 2020, Mix-n-Match, section 3.3).

    The curve is fitted to all n K pairs of a probability and whether its class is the true one.
    Rows are then scaled to sum to 1.

    strict : mix the curve with the identity, (1 - epsilon) curve(p) + epsilon p. It then increases
        strictly, so that the order of the classes never changes. If rounding makes another class
        equal to the most probable one, the latter is raised to the next floating-point number. In
        the code of Zhang et al. 2020 the most probable class can change (see Yang et al. 2023,
        footnote 3).
    epsilon : the weight of the identity, if strict.

    >>> P = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
    >>> IRM(strict=False).fit(P, [0, 1, 1, 2]).predict_proba([[0.6, 0.3, 0.1]]).round(3).tolist()
    [[0.667, 0.333, 0.0]]
    """

    _fitted: ClassVar[Mapping[str, Any]] = {"knots_": (2, None)}
    knots_: np.ndarray

    def __init__(
        self,
        *,
        strict: bool = True,
        epsilon: float = 1e-3,
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.strict = strict
        self.epsilon = epsilon
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "multiclass isotonic regression"

    @property
    def accuracy_preserving(self) -> bool:  # type: ignore[override]
        return self.strict

    def _fit(self, sample: Sample) -> tuple[bool, str]:
        if self.strict and not 0 < self.epsilon <= 1:
            raise InputError("epsilon", "must be above 0 and at most 1", self.epsilon)
        hits = np.zeros(sample.values.shape)
        hits[np.arange(len(sample)), sample.codes] = sample.weights
        outputs = sample.probs.ravel()
        weights = np.repeat(sample.weights, sample.n_classes)
        self.knots_ = pool_adjacent_violators(*by_output(outputs, hits.ravel(), weights))
        return True, CERTAIN if not self.strict and self.knots_[1, 0] == 0 else "solved exactly"

    def _transform(self, sample: Sample) -> np.ndarray:
        curve = read_curve(self.knots_, sample.probs.ravel()).reshape(sample.values.shape)
        if not self.strict:
            return share_out(curve, sample.probs, [])
        q = (1 - self.epsilon) * curve + self.epsilon * sample.probs
        q /= q.sum(axis=1, keepdims=True)
        return _keep_argmax(q, sample.values)


def _keep_argmax(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Raise the most probable class of `values` above the others of its row where it is no longer
    the most probable in `q`."""
    top = values.argmax(axis=1)
    moved = np.flatnonzero(q.argmax(axis=1) != top)
    q[moved, top[moved]] = np.nextafter(q[moved].max(axis=1), 2)
    return q
