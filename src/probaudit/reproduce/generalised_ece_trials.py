"""The interventions of Kirchenbauer et al. 2022 on networks trained here, in several trials, and
quantities compared over the trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..calibrators.base import Calibrator
from ..calibrators.binning import HistogramBinning
from ..calibrators.temperature import BiasCorrectedTemperature, TemperatureScaling
from ..choices.lenses import Groups
from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..estimate import Estimate
from ..scoring.intervals import t95
from .outcome import Row
from .printed_values import printed_values
from .trained import Networks, Recipe

BASE = "base"
TRAINED = (BASE, "label smoothing", "mix-up", "focal loss")  # names of `INTERVENTIONS`
PostHoc = Mapping[str, Callable[..., Calibrator]]
POST_HOC: PostHoc = {
    "TS": TemperatureScaling,
    "BCTS": BiasCorrectedTemperature,
    "HB": partial(HistogramBinning, bins=15),
}
METHODS = (*TRAINED, *POST_HOC)

Measure = Callable[[np.ndarray, np.ndarray], Mapping[str, float]]  # of labels and probabilities


@dataclass(frozen=True)
class Trial:
    """True labels of the test rows, and their probabilities by method."""

    labels: np.ndarray
    probs: Mapping[str, np.ndarray]


def recalibrated(
    fitted: GoodRows, test: np.ndarray, post_hoc: PostHoc = POST_HOC
) -> dict[str, np.ndarray]:
    """Probabilities of test rows by post hoc methods: by default temperature scaling (TS),
    bias-corrected temperature scaling (BCTS) and histogram binning (HB)."""
    classes = range(test.shape[1])
    return {
        name: make(classes=classes).fit(fitted.probs, fitted.labels).predict_proba(test)
        for name, make in post_hoc.items()
    }


def trials(
    networks: Networks,
    network: str,
    rows: int,
    epochs: int,
    seeds: int,
    groups: Mapping[str, Sequence[int]] | None = None,
    post_hoc: PostHoc = POST_HOC,
) -> list[Trial]:
    """Networks of each intervention and seed, on the test rows of Fashion-MNIST. Post hoc methods
    are fitted to the outputs of the base model for the calibration rows.

    groups : merge classes into groups first, so that post hoc methods are fitted to groups.
    """
    found = []
    for seed in range(seeds):
        probs: dict[str, np.ndarray] = {}
        for name in TRAINED:
            recipe = Recipe(network, name, seed, rows, epochs)
            test = _merged(networks.outputs(recipe, "test"), groups)
            probs[name] = test.probs
        base = Recipe(network, BASE, seed, rows, epochs)
        fitted = _merged(networks.outputs(base, "calibration"), groups)
        found.append(Trial(test.labels, probs | recalibrated(fitted, probs[BASE], post_hoc)))
    return found


def _merged(rows: Predictions, groups: Mapping[str, Sequence[int]] | None) -> GoodRows:
    """Probabilities as float64, of classes or of groups."""
    good = GoodRows.of(rows)
    if groups is None:
        return good
    view = Groups(groups).view(good.probs, good.labels)
    return GoodRows.of(Predictions(view.labels, view.outputs))


@dataclass(frozen=True, eq=False)
class Measured:
    """A number for each trial, method and quantity: `values` [trials, methods, quantities].

    Intervals are of the mean over trials, by Student's distribution. They show how results differ
    from training to training; all trials have the same test rows.
    """

    methods: tuple[str, ...]
    quantities: tuple[str, ...]
    values: np.ndarray

    @classmethod
    def of(cls, each: Sequence[Trial], measure: Measure) -> Measured:
        found = [[measure(one.labels, p) for p in one.probs.values()] for one in each]
        values = [[list(numbers.values()) for numbers in methods] for methods in found]
        return cls(tuple(each[0].probs), tuple(found[0][0]), np.array(values))

    def __getitem__(self, place: tuple[str, str]) -> np.ndarray:
        """The numbers of a method and a quantity, [trials]."""
        method, quantity = place
        return self.values[:, self.methods.index(method), self.quantities.index(quantity)]

    def mean(self, method: str, quantity: str) -> Estimate:
        return over_trials(self[method, quantity])

    def change(self, method: str, quantity: str) -> Estimate:
        """The difference from the base model of the same trial."""
        return over_trials(self[method, quantity] - self[BASE, quantity])

    def ratio(self, method: str, quantity: str) -> np.ndarray:
        """Relative to the base model of the same trial, [trials]."""
        return np.asarray(self[method, quantity] / self[BASE, quantity])

    def rows(self, name: str, part: str = "", data: str = "") -> tuple[Row, ...]:
        """A row for each method and a column for each quantity, beside the printed numbers of a
        part, which are of other data, if there are any."""
        printed = printed_values("generalised_ece")
        return tuple(
            Row(
                f"{name}, {method}",
                quantity,
                float(mean := self.mean(method, quantity)),
                printed.get((part, method, quantity), math.nan),
                f"{part} ({data})" if (part, method, quantity) in printed else "",
                mean.low,
                mean.high,
            )
            for method in self.methods
            for quantity in self.quantities
        )


def over_trials(values: np.ndarray) -> Estimate:
    """The mean of a few independent values, with the 95% interval of Student's distribution.

    >>> over_trials(np.array([1.0, 2.0, 3.0]))  # 2 ± 4.303 / √3
    2 [-0.484138, 4.48414]  , n = 3
    """
    mean, n = float(values.mean()), len(values)
    half = t95(n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, low=mean - half, high=mean + half, n=n)
