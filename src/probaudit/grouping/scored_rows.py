"""The rows of a loss budget: the score of each before and after recalibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calibration.resampling import (
    draw_units,
    half_width,
    mean_influence,
    quantile,
    sampling_units,
    unit_terms,
)
from ..calibration.views import lens_rows
from ..calibrators.calibration_loss import CalibrationLoss
from ..choices.lenses import Binary, Classwise, Full, Lens, OneVsRest, TopLabel
from ..choices.scores import NAMED
from ..data.predictions import Predictions
from ..errors import Argument, InputError
from ..estimate import Estimate


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The rows of a budget, and the score of each before and after recalibration: of the event of
    the lens, or of the whole forecast.

    rows, lens : recalibrated (or original) outputs, and the lens for their event.
    places : the positions of these rows among all.
    share : the share of each row in the mean; 0 for bad rows.
    calibrator, calibrator_words : see `Budget`.
    """

    rows: Predictions
    lens: Lens
    places: np.ndarray
    before: np.ndarray
    after: np.ndarray
    share: np.ndarray
    calibrator: str = ""
    calibrator_words: str = ""

    @classmethod
    def of(
        cls,
        predictions: Predictions,
        repaired: CalibrationLoss | None,
        lens: Lens,
        score: str,
        *,
        whole: bool,
    ) -> ScoredRows:
        """whole : whether scores are those of the whole forecast, whatever the lens."""
        scored = Classwise() if whole else lens
        if repaired is None:
            scores, share = _row_scores(predictions, score, scored)
            return cls(predictions, lens, np.arange(len(predictions)), scores, scores, share)
        before, share = _row_scores(predictions.take(repaired.rows), score, scored)
        rows, inner = _recalibrated(predictions, repaired, lens)
        same = scored == lens
        forecast = (rows, inner) if same else _recalibrated(predictions, repaired, scored)
        after, _ = _row_scores(forecast[0], score, forecast[1])
        return cls(
            rows=rows,
            lens=inner,
            places=repaired.rows,
            before=before,
            after=after,
            share=share,
            calibrator=repaired.calibrator,
            calibrator_words=repaired.calibrator_words,
        )

    def mean(self, values: np.ndarray, definition: str) -> Estimate:
        """A mean over rows with its interval by linearisation, cluster-robust if there are
        clusters."""
        value = math.inf if np.isinf(values).any() else float(self.share @ values)
        influence = mean_influence(values, self.share)
        terms = unit_terms(influence, self.share, self.rows.cluster_numbers)
        half = half_width(terms, quantile(self.rows.cluster_numbers))
        n = int((self.share > 0).sum())
        return Estimate(value, low=value - half, high=value + half, n=n, definition=definition)

    def deviations(self, values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Means of values in the resamples that `grouping_loss` takes, minus their mean."""
        units = sampling_units(len(self.share), seed, self.rows.cluster_numbers)
        counts = draw_units(int(units.max()) + 1, resamples, seed)
        with np.errstate(invalid="ignore"):
            sums = np.bincount(units, self.share * values)
            means = np.asarray(counts @ sums / (counts @ np.bincount(units, self.share)))
            return means - means.mean()


def _recalibrated(
    predictions: Predictions, repaired: CalibrationLoss, lens: Lens
) -> tuple[Predictions, Lens]:
    """The recalibrated rows, and the lens for the event of the original outputs in them."""
    posteriors, original = np.clip(repaired.posteriors, 0, 1), predictions.take(repaired.rows)
    kept: dict[str, Any] = {
        name: getattr(original, name) for name in ("sample_weight", "columns", "clusters")
    }
    if isinstance(lens, TopLabel) and not predictions.pairs:
        # The event is that the most probable class of the original outputs is right, even if the
        # recalibrated outputs have another.
        chosen = original.probabilities().argmax(axis=1)
        confidence = posteriors[np.arange(len(chosen)), chosen]
        return Predictions.from_confidence(confidence, original.codes == chosen, **kept), lens
    if predictions.pairs:
        return Predictions.from_confidence(posteriors[:, 1], original.codes == 1, **kept), lens
    if not isinstance(lens, (Full, Classwise, OneVsRest, Binary)):
        rule = (
            "with recalibration must be Classwise(), TopLabel(), OneVsRest(c), Binary() or Full()"
        )
        way_out = ("or pass ", Argument("calibrator", '"none"'))
        raise InputError("lens", rule, repr(lens), way_out=way_out)
    return Predictions(original.codes, posteriors, tolerance=1e-6, **kept), lens


def _row_scores(predictions: Predictions, score: str, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """The score of each row, of the whole forecast or of the event, and the share of each row.

    Bad rows have a share of 0.
    """
    views, rule = lens_rows(predictions, lens), NAMED[score]
    first = views[0]
    if isinstance(lens, (Full, Classwise)):
        outputs = (
            first.view.outputs
            if len(views) == 1
            else np.column_stack([shown.view.outputs for shown in views])
        )
        values = rule.score(outputs, predictions.codes[first.rows])
    else:
        values = rule.one_dimensional().divergence(
            first.view.labels, np.clip(first.view.outputs, 0, 1)
        )
    scores, share = np.zeros((2, len(predictions)))
    scores[first.rows], share[first.rows] = values, first.weights / first.weights.sum()
    return scores, share
