"""Kirchenbauer et al. 2022, Appendix D.4.1 on predictions of CIFAR-100: top-k errors of post hoc
methods (Figure 14), and errors of the 20 superclasses."""

from __future__ import annotations

import math

import numpy as np

from ..calibration.paired import ResampledError
from ..choices.lenses import Full, Groups, Lens, TopK, TopLabel
from ..choices.partitions import EqualWidth, Partition
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..estimate import Estimate
from .generalised_ece_figures import BarsByMethod
from .generalised_ece_granularity import resampled_errors, view_error
from .generalised_ece_lenses import NOISE, TREE, USUAL, accuracy, noise
from .generalised_ece_trials import BASE, POST_HOC, recalibrated
from .outcome import Claim, Outcome, Row, mean_estimate
from .printed_values import printed_values

# The superclass of each of the 100 classes, in alphabetical order of both (Krizhevsky 2009).
SUPERCLASSES = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)
SUPERCLASS = "superclass ECE"
LENSES: dict[str, tuple[Lens, Partition]] = {
    USUAL: (TopLabel(), EqualWidth(15)),
    "top-1 ECE": (TopLabel(), TREE),
    "top-2 ECE": (TopK(2), TREE),
    "top-5 ECE": (TopK(5), TREE),
    "top-10 ECE": (TopK(10), TREE),
    "full ECE": (Full(), TREE),
    SUPERCLASS: (Groups(SUPERCLASSES), TREE),
}
CLAIMED = ("top-1 ECE", "top-5 ECE", "top-10 ECE", "full ECE", SUPERCLASS)
BARS = "Lines: 95% bootstrap intervals of the error, the same resamples of rows for each method."


def cifar_100(rows: Predictions, name: str, resamples: int) -> Outcome:
    """Post hoc methods, fitted to a random half of the rows, on the other half. Intervals of
    changes are from resamples of rows that all methods share."""
    good = GoodRows.of(rows)
    if good.probs.shape[1] != len(SUPERCLASSES):
        rule = f"{name} requires the {len(SUPERCLASSES)} classes of CIFAR-100"
        raise InputError("data", rule, f"{good.probs.shape[1]} classes")
    order = np.random.default_rng(0).permutation(len(good.labels))
    first, second = np.array_split(order, 2)
    fitted = GoodRows.of(Predictions(good.labels[first], good.probs[first]))
    y, test = good.labels[second], good.probs[second]
    probs = {BASE: test} | recalibrated(fitted, test)
    errors = {
        (method, quantity): _resampled(p, y, *choice, resamples)
        for method, p in probs.items()
        for quantity, choice in LENSES.items()
    }
    printed = printed_values("generalised_ece")
    numbers = []
    for method, p in probs.items():
        right = mean_estimate((p.argmax(axis=1) == y).astype(float))
        known = printed.get(("Table 1", method, "accuracy"), math.nan)
        ends = right.low, right.high
        numbers.append(
            Row(f"{name}, {method}", "accuracy", accuracy(y, p), known, "Table 1, ResNet50", *ends)
        )
        for quantity in LENSES:
            found = errors[method, quantity]
            ends = found.interval()
            numbers.append(Row(f"{name}, {method}", quantity, found.value, math.nan, "", *ends))
    claims = [
        Claim.below(
            0.0,
            f"{name}, {method}: {quantity} falls",
            "Appendix D.4.1",
            _change(errors[method, quantity], errors[BASE, quantity]),
        )
        for method in POST_HOC
        for quantity in CLAIMED
    ]
    each = {
        method: {quantity: _estimate(errors[method, quantity]) for quantity in LENSES}
        for method in probs
    }
    numbers += [
        Row(f"{name}, {NOISE}", quantity, noise(y, probs["TS"], *choice))
        for quantity, choice in LENSES.items()
    ]
    title = f"{name}: top-k calibration errors, as Figure 14"
    figure = BarsByMethod(each, title, "calibration error", BARS)
    return Outcome(tuple(numbers), tuple(claims), {"top-k": figure})


def _resampled(
    p: np.ndarray, y: np.ndarray, lens: Lens, partition: Partition, resamples: int
) -> ResampledError:
    view = lens.view(p, y)
    value = view_error(view, partition)
    drawn = resampled_errors(view, partition, len(y), resamples)
    return ResampledError.of(value, np.r_[value, drawn], None)


def _change(new: ResampledError, old: ResampledError) -> Estimate:
    value, low, high = new.minus(old)
    return Estimate(value, low=low, high=high)


def _estimate(found: ResampledError) -> Estimate:
    low, high = found.interval()
    return Estimate(found.value, low=low, high=high)
