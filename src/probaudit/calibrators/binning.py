"""Histogram binning, and its Bayesian average over numbers of bins."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, xlogy

from ..errors import InputError
from .one_vs_rest import CERTAIN, OneVsRestCalibrator, by_output

MOST_BINS = 2000
LEAST_WEIGHT = 1e-6  # of a histogram in the average, relative to the best
TIE = 1e-9  # relative difference below which two sums of weights are equal


class _SortedEvent:
    """Sorted rows of one event: distinct outputs, and the cumulative weight and hits at each."""

    def __init__(self, outputs: np.ndarray, hits: np.ndarray, weights: np.ndarray) -> None:
        outputs, hits, weights = by_output(outputs, hits, weights)
        last = np.append(outputs[1:] != outputs[:-1], True)
        self.outputs = outputs[last]
        self.weight = np.append(0.0, np.cumsum(weights)[last])
        self.hits = np.append(0.0, np.cumsum(hits)[last])

    def edges(self, bins: int, equal: str) -> np.ndarray:
        """The lower edge of each bin, [low, high); the first is 0 and the last bin contains 1.

        Edges of bins of equal mass lie between two distinct outputs, where the cumulative weight
        reaches a multiple of 1 / bins. There may be fewer bins than requested.
        """
        if equal == "width":
            return np.linspace(0, 1, bins + 1)[:-1]
        shares = self.weight[-1] * np.arange(1, bins) / bins
        cuts = np.unique(np.searchsorted(self.weight, shares * (1 - TIE)))
        cuts = cuts[cuts < len(self.outputs)]
        below, above = self.outputs[cuts - 1], self.outputs[cuts]
        middles = below + (above - below) / 2
        return np.append(0.0, np.where(middles > below, middles, above))

    def counts(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hits and weight in each bin."""
        ends = np.append(np.searchsorted(self.outputs, edges), len(self.outputs))
        return np.diff(self.hits[ends]), np.diff(self.weight[ends])


def _middles(edges: np.ndarray) -> np.ndarray:
    return (edges + np.append(edges[1:], 1.0)) / 2


def _share(hits: np.ndarray, weight: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    return np.where(weight > 0, hits / np.where(weight > 0, weight, 1), otherwise).clip(0, 1)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(name, f"must be one of {', '.join(map(repr, allowed))}", repr(value))


class _Steps(OneVsRestCalibrator):
    """Step functions as curves: [2, steps], the lower edge and the value of each step."""

    def _apply(self, curve: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return curve[1][np.searchsorted(curve[0], inputs, side="right") - 1]


class HistogramBinning(_Steps):
    """Replaces each probability by the share of hits m_b / n_b in its bin, for each class against
    the rest (Zadrozny & Elkan 2001).

    bins : the number of bins.
    equal : "width", bins [low, high) of equal width, the last one closed; or "mass", bins of equal
        weight. Equal outputs always share a bin, so that there may be fewer bins of equal mass.
    empty : the probability of a bin without rows: "middle", the middle of the bin, or a number.
        (The code of Ferrer & Ramos 2025 uses 0, so that a hit there costs an infinite log loss.)

    A bin with misses only gives 0, and one with hits only gives 1; the status reports such bins.

    >>> model = HistogramBinning(bins=2).fit([0.1, 0.2, 0.3, 0.8], [0, 0, 1, 1])
    >>> model.predict_proba([0.2, 0.5])[:, 1].round(3).tolist()
    [0.333, 1.0]
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        equal: Literal["width", "mass"] = "width",
        empty: float | Literal["middle"] = "middle",
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.bins = bins
        self.equal = equal
        self.empty = empty
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "histogram binning"

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Any:
        if not isinstance(self.bins, (int, np.integer)) or self.bins < 1:
            raise InputError("bins", "must be a whole number of at least 1", self.bins)
        _one_of("equal", self.equal, ("width", "mass"))
        if self.empty != "middle" and not (
            isinstance(self.empty, (int, float)) and 0 <= self.empty <= 1
        ):
            raise InputError("empty", "must be 'middle' or a probability", repr(self.empty))
        return super()._learning_sample(P, y, sample_weight)

    def _curve(
        self, inputs: np.ndarray, hits: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, str]:
        event = _SortedEvent(inputs, hits, weights)
        edges = event.edges(self.bins, self.equal)
        hit, weight = event.counts(edges)
        empty = (
            _middles(edges) if self.empty == "middle" else np.full(len(edges), float(self.empty))
        )
        curve = np.stack([edges, _share(hit, weight, empty)])
        certain = ((weight > 0) & ((curve[1] == 0) | (curve[1] == 1))).any()
        return curve, CERTAIN if certain else ""


class BBQ(_Steps):
    """Averages histograms of n^(1/3) / 10 to 10 n^(1/3) bins, each weighted by how well it explains
    the labels, for each class against the rest: Bayesian binning into quantiles (Naeini, Cooper &
    Hauskrecht 2015). n is the sum of the weights.

    weighting : the weight of a histogram of B bins, with n_b rows and m_b hits in bin b.
        "bayes", as in Naeini et al. 2015: its marginal likelihood, with the prior Beta(2 c_b / B,
        2 (1 - c_b) / B) in a bin with middle c_b. The probability of a bin is then (m_b + 2 c_b /
        B) / (n_b + 2 / B), which is never 0 or 1.
        "bic" or "aic": exp(-BIC / 2) or exp(-AIC / 2). The probability of a bin is m_b / n_b, that
        of an empty one its middle.
    equal : "mass", as in Naeini et al. 2015, or "width". `BBQ(weighting="bic", equal="width")` is
        what netcal computes, except for the histograms left out: those below an elbow of the scores
        in netcal, those with less than a millionth of the largest weight here.

    The average of step functions is one step function with the edges of all.

    >>> P, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 1, 0, 1, 1, 1]
    >>> BBQ().fit(P, y).predict_proba([0.1, 0.9])[:, 1].round(2).tolist()
    [0.38, 0.62]
    """

    def __init__(
        self,
        *,
        weighting: Literal["bayes", "bic", "aic"] = "bayes",
        equal: Literal["width", "mass"] = "mass",
        from_logits: bool = False,
        classes: Any = None,
    ) -> None:
        self.weighting = weighting
        self.equal = equal
        self.from_logits = from_logits
        self.classes = classes

    def words(self) -> str:
        return "Bayesian binning"

    def _learning_sample(self, P: Any, y: Any, sample_weight: Any) -> Any:
        _one_of("weighting", self.weighting, ("bayes", "bic", "aic"))
        _one_of("equal", self.equal, ("width", "mass"))
        return super()._learning_sample(P, y, sample_weight)

    def _curve(
        self, inputs: np.ndarray, hits: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, str]:
        event = _SortedEvent(inputs, hits, weights)
        n = event.weight[-1] * (1 + TIE)  # rounding may put a sum of weights just below a cube
        most = int(
            min(np.ceil(n / 5), np.ceil(10 * np.cbrt(n)), max(5, len(event.outputs)), MOST_BINS)
        )
        least = int(min(max(1, np.floor(np.cbrt(n) / 10)), most))
        histograms = (self._histogram(event, bins) for bins in range(least, most + 1))
        # ties can make histograms equal
        distinct = {curve[0].tobytes(): (curve, score) for curve, score in histograms}
        curves, scores = zip(*distinct.values(), strict=True)
        relative = np.exp(np.array(scores) - max(scores))
        kept = np.flatnonzero(relative >= LEAST_WEIGHT)
        return _average([curves[i] for i in kept], relative[kept] / relative[kept].sum()), ""

    def _histogram(self, event: _SortedEvent, bins: int) -> tuple[np.ndarray, float]:
        """A step function, and the logarithm of its weight in the average."""
        edges = event.edges(bins, self.equal)
        hit, weight = event.counts(edges)
        middles = _middles(edges)
        size = len(edges)
        if self.weighting == "bayes":
            prior = 2 / size
            a, b, miss = prior * middles, prior * (1 - middles), (weight - hit).clip(0)
            evidence = (
                gammaln(prior)
                - gammaln(weight + prior)
                + gammaln(hit + a)
                - gammaln(a)
                + gammaln(miss + b)
                - gammaln(b)
            )
            values = ((hit + a) / (weight + prior)).clip(0, 1)
            return np.stack([edges, values]), float(evidence.sum())
        values = _share(hit, weight, middles)
        likelihood = float((xlogy(hit, values) + xlogy((weight - hit).clip(0), 1 - values)).sum())
        penalty = size / 2 * np.log(event.weight[-1]) if self.weighting == "bic" else size
        return np.stack([edges, values]), likelihood - float(penalty)


def _average(curves: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """The weighted mean of step functions, as one with the edges of all."""
    edges = np.unique(np.concatenate([curve[0] for curve in curves]))
    values = np.zeros(len(edges))
    for curve, weight in zip(curves, weights, strict=True):
        values += weight * curve[1][np.searchsorted(curve[0], edges, side="right") - 1]
    return np.stack([edges, values.clip(0, 1)])
