"""Yang et al. 2023, Figures 3 and 4: the numbers of partitions and groups, and the penalty."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calibrators.group_calibration import GroupCalibration
from ..calibrators.repeated_splits import RepeatedSplits
from ..calibrators.temperature import TemperatureScaling
from ..diagrams.diagram import HIGH, LOW, Diagram
from ..diagrams.picture import Axis, Line, Panel, Picture, Points, Rule
from ..estimate import Estimate
from ..text import number
from .group_calibration_protocol import Sets, split_difference, with_groups
from .outcome import Claim, Outcome, Row
from .trained import Networks

SERIES = {"starting points only": False, "a resample each": True}
METRICS = ("ECE", "log loss")
SETTINGS = {  # names of files and of axes
    "U": ("u", "partitions (U)"),
    "K": ("k", "groups (K)"),
    "λ": ("lambda", "penalty (λ of the mean square)"),
}
SPREAD = 0.12  # between the points of two series


@dataclass(frozen=True, eq=False)
class Ablation(Diagram):
    """The difference of group calibration from temperature scaling by the value of a setting, for
    two ways to learn partitions; a panel for each metric. Differences are times 1,000.

    values : by metric, series and setting.
    """

    setting: str
    settings: tuple[str, ...]
    values: Mapping[str, Mapping[str, Sequence[Estimate]]]
    title: str

    def columns(self) -> dict[str, np.ndarray]:
        lines = [
            (metric, series, setting, float(value), value.low, value.high)
            for metric, by_series in self.values.items()
            for series, found in by_series.items()
            for setting, value in zip(self.settings, found, strict=True)
        ]
        names = ("metric", "partitions", self.setting, "minus TS, x 1,000", LOW, HIGH)
        texts, numbers = names[:3], names[3:]
        columns = list(zip(*lines, strict=True))
        return {name: np.array(columns[k], object) for k, name in enumerate(texts)} | {
            name: np.array(columns[k + 3], float) for k, name in enumerate(numbers)
        }

    def picture(self) -> Picture:
        panels = tuple(self._panel(metric, found) for metric, found in self.values.items())
        listed = "; ".join(
            f"{metric}, {series}, {setting}: {number(value, 2)}"
            for metric, by_series in self.values.items()
            for series, found in by_series.items()
            for setting, value in zip(self.settings, found, strict=True)
        )
        caption = "Group calibration minus temperature scaling, x 1,000: below 0, it is better."
        caption += " Bars: 95% intervals, corrected for rows that splits share."
        return Picture(panels, self.title, f"{self.title}. {listed}.", caption, columns=2)

    def _panel(self, metric: str, found: Mapping[str, Sequence[Estimate]]) -> Panel:
        marks: list[Any] = [Rule(y=0.0, role="reference", name="temperature scaling")]
        for k, (series, estimates) in enumerate(found.items()):
            at = np.arange(len(self.settings)) + SPREAD * (k - 0.5)
            value, low, high = np.array([(float(e), e.low, e.high) for e in estimates]).T
            detail = {self.setting: np.array(self.settings), "minus TS, x 1,000": value}
            role = f"series {k}"
            marks += [
                Line(at, value, role=role),
                Points(at, value, low, high, role=role, name=series, detail=detail),
            ]
        x = Axis(self.setting, categories=self.settings)
        return Panel(tuple(marks), x, Axis("minus TS, x 1,000"), title=metric)


def first_partitions(model: GroupCalibration, count: int) -> GroupCalibration:
    """The same learned groups with the first partitions only."""
    own = copy.copy(model)
    own.n_partitions = count
    for name in ("weights_", "intercepts_", "temperatures_"):
        setattr(own, name, getattr(model, name)[:count])
    return own


@dataclass(frozen=True)
class Tested:
    """A claim about two values of a setting: the log loss of the first minus that of the second."""

    words: str
    setting: str
    first: float
    second: float
    lower: bool

    def claim(self, found: RepeatedSplits, name: str, series: str) -> Claim:
        one, other = (_method(series, self.setting, x) for x in (self.first, self.second))
        change = split_difference(found, one, other, "log loss", 1000)
        test = Claim.below if self.lower else Claim.above
        ends = f"{self.setting} = {self.first:g} minus {self.second:g}"
        statement = f"{name}, {series}: {self.words} the log loss ({ends}, x 1,000)"
        source = "Figure 4" if self.setting == "λ" else "Figure 3"
        return test(0.0, statement, source, change)


def ablations(
    networks: Networks,
    name: str,
    recipe: list[Any],
    splits: int,
    rows: int,
    partitions: list[int],
    groups: list[int],
    penalties: list[float],
) -> Outcome:
    """GC+TS minus TS for some numbers of partitions (U) and groups (K), and some penalties (λ, of
    the mean square of W as in the authors' code). The others are the largest U, K = 2, λ = 0.1."""
    sets = Sets.trained(networks, recipe, rows, max(partitions))
    settings: dict[str, Sequence[float]] = {"U": partitions, "K": groups, "λ": penalties}
    models = {
        (series, *key): model
        for series, resample in SERIES.items()
        for key, model in _models(sets, settings, resample).items()
    }
    methods: dict[str, Any] = {"TS": TemperatureScaling()}
    methods |= {_method(*key): with_groups(model) for key, model in models.items()}
    found = sets.splits(methods, splits)
    values = {
        (metric, key): split_difference(found, _method(*key), "TS", metric, 1000)
        for metric in METRICS
        for key in models
    }
    numbers = tuple(
        Row(
            f"{name}, {_method(*key)}",
            f"{metric} minus TS, x 1,000",
            float(estimate),
            low=estimate.low,
            high=estimate.high,
            decimals=2,
        )
        for (metric, key), estimate in values.items()
    )
    tests = (
        Tested("more partitions lower", "U", max(partitions), min(partitions), lower=True),
        Tested("more groups raise", "K", max(groups), 2, lower=False),
        Tested("a strong penalty raises", "λ", max(penalties), 0.1, lower=False),
        Tested("a weak penalty raises", "λ", min(penalties), 0.1, lower=False),
    )
    claims = tuple(
        test.claim(found, name, series)
        for series in SERIES
        for test in tests
        if test.first != test.second
    )
    figures = {
        file: Ablation(
            words,
            tuple(f"{value:g}" for value in settings[setting]),
            {
                metric: {
                    series: [values[metric, (series, setting, x)] for x in settings[setting]]
                    for series in SERIES
                }
                for metric in METRICS
            },
            f"{name}: {words}",
        )
        for setting, (file, words) in SETTINGS.items()
    }
    return Outcome(numbers, claims, figures)


def _models(
    sets: Sets, settings: Mapping[str, Sequence[float]], resample: bool
) -> dict[tuple[str, float], GroupCalibration]:
    """Learned groups by setting and its value."""
    whole = sets.learned(resample=resample)
    size = whole.weights_[0].size
    found: dict[tuple[str, float], GroupCalibration] = {
        ("U", u): first_partitions(whole, int(u)) for u in settings["U"]
    }
    for k in settings["K"]:
        found["K", k] = whole if k == 2 else sets.learned(resample=resample, n_groups=k)
    for x in settings["λ"]:
        found["λ", x] = sets.learned(resample=resample, penalty=x / size)
    return found


def _method(series: str, setting: str, value: float) -> str:
    return f"{series}, {setting} = {value:g}"
