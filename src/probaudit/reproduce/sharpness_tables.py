"""Chidambaram & Ge 2024, Tables 1 to 6 and Appendix H: recalibrated networks, and the claim that
calibration errors cannot tell mean replacement from a good calibrator."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..calibration.errors import average_calibration_error, calibration_error
from ..calibration.kernel import kernel_calibration_error
from ..calibration.paired import BINS, ResampledBins, ResampledError, Resamples
from ..calibration.resampling import draw_units, percentile
from ..calibration.smooth import smooth_calibration_error
from ..calibrators.base import Calibrator
from ..calibrators.binning import HistogramBinning
from ..calibrators.identity import Identity
from ..calibrators.isotonic import IsotonicCalibration
from ..calibrators.mean_replacement import MeanReplacement
from ..calibrators.temperature import TemperatureScaling
from ..choices.lenses import Binary, TopLabel
from ..choices.partitions import EqualWidth
from ..choices.scores import Brier, Log, Score
from ..data.predictions import Predictions
from ..estimate import Estimate
from ..scoring.proper_scores import brier_score, log_score
from .outcome import Claim, Outcome, Row, mean_estimate
from .printed_values import printed_values
from .trained import Networks, Recipe

METHODS = ("baseline", "TS", "HB", "IR", "MRR")
WORDS = {
    "baseline": "original",
    "TS": "temperature scaling",
    "HB": "histogram binning",
    "IR": "isotonic regression",
    "MRR": "mean replacement",
}
TOP = TopLabel()
WIDTH = EqualWidth(BINS)
ERRORS_COST = "log loss of errors"


def recalibrated(rows: Predictions, share: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels of the test rows, and their probabilities by each method, fitted to a random `share`
    of the rows. Isotonic regression and histogram binning may give 0, as in the paper."""
    z, y = np.asarray(rows.probs, np.float64), rows.codes
    makers: Sequence[Callable[..., Calibrator]] = (
        Identity,
        TemperatureScaling,
        partial(HistogramBinning, bins=BINS),
        partial(IsotonicCalibration, finite=False),
        MeanReplacement,
    )
    order = np.random.default_rng(0).permutation(len(y))
    fitted, test = np.split(order, [round(share * len(y))])
    found = {}
    for name, make in zip(METHODS, makers, strict=True):
        calibrator = make(from_logits=rows.from_logits, classes=range(z.shape[1]))
        found[name] = calibrator.fit(z[fitted], y[fitted]).predict_proba(z[test])
    return y[test], found


def metrics(y: np.ndarray, p: np.ndarray, resamples: int) -> dict[str, Estimate]:
    """The columns of Table 1. ACE is the mean over bins that have rows."""
    options: Any = {"lens": TOP, "partition": WIDTH, "interval": True, "resamples": resamples}
    right = (p.argmax(axis=1) == y).astype(float)
    return {
        "accuracy": mean_estimate(right),
        "ECE": calibration_error(y, p, **options),
        "ACE": average_calibration_error(y, p, **options),
        "SmoothECE": smooth_calibration_error(y, p, lens=TOP),
        "NLL": log_score(y, p),
        "Brier": brier_score(y, p),
    }


def table(rows: Predictions, name: str, part: str, share: float, resamples: int) -> Outcome:
    """The rows of a network, in the form of Table 1, and the claim of Section 3: mean replacement
    has nearly no calibration error but poor proper scores.

    part : the table of the same data set, whose printed numbers are shown; "" if there is none.
    """
    y, found = recalibrated(rows, share)
    printed = printed_values("sharpness")
    values = {method: metrics(y, p, resamples) for method, p in found.items()}
    wrong = found["baseline"].argmax(axis=1) != y
    for method in ("baseline", "MRR"):
        losses = Log().score(found[method][wrong], y[wrong])
        values[method][ERRORS_COST] = mean_estimate(losses)
    numbers = [
        Row(
            f"{name}, {method}",
            column,
            100 * float(value),
            printed.get((part, method, column), math.nan),
            part,
            100 * value.low,
            100 * value.high,
            decimals=2,
        )
        for method, columns in values.items()
        for column, value in columns.items()
    ]
    return Outcome(tuple(numbers), tuple(_pattern(name, y, found, resamples)))


def trained_table(
    *, networks: Networks, network: str, rows: int, epochs: int, **settings: Any
) -> Outcome:
    """`table` of a network trained on Fashion-MNIST, for its test rows."""
    recipe = Recipe(network, rows=rows, epochs=epochs)
    return table(networks.outputs(recipe), part="", **settings)


def _pattern(name: str, y: np.ndarray, found: dict[str, np.ndarray], resamples: int) -> list[Claim]:
    """Mean replacement minus the original network, with paired 95% intervals, times 100."""
    old, new = found["baseline"], found["MRR"]
    sample = Resamples.draw(np.ones(len(y)), None, resamples, seed=0)
    bins = [ResampledBins.of(TOP.view(p, y), WIDTH, sample) for p in (old, new)]
    errors = {
        "ECE": [ResampledError.of(float(b.mean()[0][0]), *b.mean()) for b in bins],
        "ACE": [ResampledError.of(float(b.unweighted()[0][0]), *b.unweighted()) for b in bins],
    }
    source = "Section 3"
    claims = []
    for column, (before, after) in errors.items():
        value, low, high = after.minus(before)
        change = Estimate(100 * value, low=100 * low, high=100 * high)
        claims.append(Claim.below(0.0, f"{name}: {column} falls", source, change))
    rules: dict[str, Score] = {"log loss": Log(), "Brier score": Brier()}
    for other, words in (("baseline", "rises"), ("TS", "is above that of temperature scaling")):
        for column, rule in rules.items():
            change = mean_estimate(100 * (rule.score(new, y) - rule.score(found[other], y)))
            claims.append(Claim.above(0.0, f"{name}: {column} {words}", source, change))
    return claims


def kernels(
    rows: Predictions,
    name: str,
    share: float,
    choices: Sequence[tuple[str, float]],
    resamples: int,
) -> Outcome:
    """Appendix H: the calibration error of each method by kernel regression, for kernels and
    bandwidths. The claim is that the kernel does not change the ranking of the methods. It fails if
    a pair of methods changes places and its differences are significant with both kernels."""
    y, found = recalibrated(rows, share)
    events = [((p.argmax(axis=1) == y).astype(int), p.max(axis=1)) for p in found.values()]
    weights = draw_units(len(y), resamples, 0)

    @functools.cache
    def errors(kernel: str, width: float) -> np.ndarray:
        """The errors of all methods, of the rows and of each resample, [1 + B, methods]."""
        error = partial(kernel_calibration_error, lens=Binary(), kernel=kernel, bandwidth=width)
        resampled = [
            [float(error(*event, sample_weight=one)) for event in events] for one in weights
        ]
        return np.array([[float(error(*event)) for event in events], *resampled])

    def ranking(kernel: str, width: float) -> list[str]:
        return [METHODS[k] for k in np.argsort(errors(kernel, width)[0], kind="stable")]

    def sign(kernel: str, width: float) -> np.ndarray:
        """Of the difference of each pair of methods; 0 if it is not significant."""
        drawn = errors(kernel, width)[1:]
        low, high = np.quantile(drawn[:, :, None] - drawn[:, None], [0.025, 0.975], axis=0)
        return (low > 0) * 1 - (high < 0) * 1

    claims = []
    for width in sorted({width for kernel, width in choices if kernel == "epanechnikov"}):
        first, second = ranking("gaussian", width), ranking("epanechnikov", width)
        moved = float(sum(a != b for a, b in zip(first, second, strict=True)))
        opposite = (sign("gaussian", width) * sign("epanechnikov", width) < 0).any()
        words = f"{name}: at bandwidth {width:g}, both kernels rank the methods alike (methods that"
        words += " change their rank)"
        holds = True if not moved else False if opposite else None
        claims.append(Claim(words, "Appendix H.2", moved, moved, moved, holds))
    numbers = []
    for kernel, width in choices:
        values, drawn = errors(kernel, width)[0], errors(kernel, width)[1:]
        for method, value, (low, high) in zip(
            METHODS, values, map(percentile, drawn.T), strict=True
        ):
            numbers.append(
                Row(
                    f"{name}, {method}",
                    f"{kernel} {width:g}",
                    100 * value,
                    low=100 * low,
                    high=100 * high,
                    decimals=3,
                )
            )
    notes = [
        f"{name}, {kernel} kernel of width {width:g}, from the lowest error: "
        + ", ".join(ranking(kernel, width))
        + "."
        for kernel, width in choices
    ]
    return Outcome(tuple(numbers), tuple(claims), notes=tuple(notes))
