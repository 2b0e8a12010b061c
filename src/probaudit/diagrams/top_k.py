"""Top-k calibration: error, confidence and accuracy of the k most probable classes (Kirchenbauer et
al. 2022, Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibration.views import PreparedRows
from ..calibrators.outputs import shares
from ..choices.definitions import Definition
from ..choices.distances import Distance, as_distance
from ..choices.lenses import TopK, TopLabel
from ..choices.partitions import KDTree, Partition, checked_partition
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import InputError
from ..scoring.clusters import ClusteredRows
from ..scoring.intervals import clopper_pearson
from ..text import number, percent
from .diagram import EXPECTED, HIGH, LOW, Diagram, stacked
from .lens_table import grouped
from .picture import Axis, Bars, Line, Mark, Panel, Picture, Points, Rule

MOST = 10  # values of k by default
BASELINE = "baseline"


@dataclass(frozen=True, eq=False)
class TopKCalibration(Diagram):
    """Errors, confidences and accuracies of each model and each k, [models, ks].

    error, low, high : calibration error of the k largest probabilities and the remainder (lens
        `TopK(k)`), with a 95% interval (see `Estimate.error_bar`). null : its mean if calibrated.
    confidence : mean sum of the k largest probabilities. accuracy : how often the true class is
        among them, with its 95% interval (Clopper-Pearson).
    place : mean of the k-th largest probability alone; Figure 2 shows its change from the baseline.
    baseline : the number of the model that the others are compared with.
    """

    percents = ("mean confidence", "accuracy", "accuracy, 95% low", "accuracy, 95% high")

    models: tuple[str, ...]
    ks: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    accuracy_low: np.ndarray
    accuracy_high: np.ndarray
    place: np.ndarray
    definition: str
    baseline: int = 0

    def columns(self) -> dict[str, np.ndarray]:
        return stacked(
            "model",
            {
                model: {
                    "k": self.ks,
                    "calibration error": self.error[s],
                    LOW: self.low[s],
                    HIGH: self.high[s],
                    EXPECTED: self.null[s],
                    "mean confidence": self.confidence[s],
                    "accuracy": self.accuracy[s],
                    "accuracy, 95% low": self.accuracy_low[s],
                    "accuracy, 95% high": self.accuracy_high[s],
                    "k-th probability": self.place[s],
                }
                for s, model in enumerate(self.models)
            },
            named=len(self.models) > 1,
        )

    def picture(self) -> Picture:
        x = Axis("k", categories=tuple(str(k) for k in self.ks))
        errors = Panel(
            self._error_marks(),
            x,
            Axis("error", 0.0),
            title="calibration error of the top k",
            share=0.6,
        )
        sums = Panel(
            self._rate_marks(),
            x,
            Axis("share", percent=True),
            title="is the true class among the top k?",
            share=0.6,
        )
        panels: tuple[Panel, ...] = (errors, sums)
        if len(self.models) > 1:
            y = Axis("change of probability")
            panels = (
                *panels,
                Panel(
                    self._changes(),
                    x,
                    y,
                    title=f"the k-th probability less that of {self._named(self.baseline)}",
                    share=0.5,
                ),
            )
        caption = "Calibration error of the event that the true class is among the k most probable,"
        caption += " with 95% intervals. Hollow points are the errors expected if calibrated."
        caption += " Dashed lines are mean predictions." if len(self.models) > 1 else ""
        return Picture(
            panels, "Calibration beyond the most probable class", self._description(), caption
        )

    def _named(self, model: int) -> str:
        name = self.models[model]
        return "the baseline" if name == BASELINE else name

    def _role(self, model: int) -> str:
        return f"series {model}" if len(self.models) > 1 else "observed"

    def _error_marks(self) -> tuple[Mark, ...]:
        marks: list[Mark] = []
        places = grouped(len(self.ks), len(self.models))
        for s, (name, (at, _)) in enumerate(zip(self.models, places, strict=True)):
            detail = {
                "k": self.ks,
                "error": self.error[s],
                "low": self.low[s],
                "high": self.high[s],
                "expected if calibrated": self.null[s],
            }
            shown = name if len(self.models) > 1 else ""
            expected = Points(
                at, self.null[s], role="rest", hollow=True, name=EXPECTED, detail=detail
            )
            ends = self.low[s], self.high[s]
            error = Points(at, self.error[s], *ends, role=self._role(s), name=shown, detail=detail)
            marks += [expected, error]
        return tuple(marks)

    def _rate_marks(self) -> tuple[Mark, ...]:
        at, marks = np.arange(len(self.ks)) * 1.0, list[Mark]()
        several = len(self.models) > 1
        for s, name in enumerate(self.models):
            detail = {"k": self.ks, "accuracy": self.accuracy[s], "confidence": self.confidence[s]}
            style: dict[str, Any] = {"role": self._role(s), "detail": detail}
            ends = self.accuracy_low[s], self.accuracy_high[s]
            said = style | ({} if several else {"role": "model", "name": "predicted, on average"})
            marks += [
                Points(at, self.accuracy[s], *ends, **style),
                Line(at, self.accuracy[s], name=name if several else "observed", **style),
                Line(at, self.confidence[s], dashed=several, **said),
            ]
        return tuple(marks)

    def _changes(self) -> tuple[Mark, ...]:
        others = [s for s in range(len(self.models)) if s != self.baseline]
        marks: list[Mark] = []
        for s, (at, width) in zip(others, grouped(len(self.ks), len(others)), strict=True):
            change = self.place[s] - self.place[self.baseline]
            detail = {"k": self.ks, "model": [self.models[s]] * len(at), "change": change}
            ends = np.minimum(0, change), np.maximum(0, change)
            style: dict[str, Any] = {"role": self._role(s), "detail": detail}
            marks.append(Bars.upright(at, *ends, thickness=0.9 * width, **style))
        return (*marks, Rule(y=0.0, role="reference"))

    def _description(self) -> str:
        words = [
            f"{name + ', ' if len(self.models) > 1 else ''}top {k}:"
            f" error {number(self.error[s, i], 3)}"
            f" (expected if calibrated {number(self.null[s, i], 3)}),"
            f" confidence {percent(self.confidence[s, i])},"
            f" accuracy {percent(self.accuracy[s, i])}"
            for s, name in enumerate(self.models)
            for i, k in enumerate(self.ks)
        ]
        return f"Top-k calibration, {self.definition}. " + "; ".join(words) + "."


@takes_row_options
def top_k_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    baseline: Any = None,
    ks: Sequence[int] | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "tvd",
    resamples: int = 200,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> TopKCalibration:
    """Calibration error, confidence and accuracy of the k most probable classes.

    y_proba : outputs of a model; or of several models by name, the first of which is the baseline.
    baseline : outputs of another model for the same rows, for example before recalibration.
    ks : increasing, below the number of classes; by default 1 to 10, or fewer for few classes.
    partition : by default `KDTree(2**-4)`, as in Kirchenbauer et al. 2022, Appendix B. distance :
        as in `calibration_error`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 4)
    >>> found = top_k_diagram(world.y, world.mcs, resamples=20)
    >>> found.confidence[0, 0] > found.accuracy[0, 0]
    np.True_
    """
    given = _given_models(y_true, y_proba, baseline, options)
    chosen = _valid_ks(ks, next(iter(given.values())).n_classes)
    partition = checked_partition(partition, KDTree(2.0**-4))
    models = {name: PreparedRows.of(model, TopLabel()) for name, model in given.items()}
    choices: dict[str, Any] = {"distance": distance, "resamples": resamples, "seed": seed}
    errors = [
        [_top_k_error(model, int(k), partition, choices) for k in chosen]
        for model in models.values()
    ]
    error, low, high, null = np.array(errors).transpose(2, 0, 1)
    sums = np.stack([_top_k_rates(model, chosen) for model in models.values()], axis=1)
    confidence, accuracy, accuracy_low, accuracy_high, place = sums
    return TopKCalibration(
        models=tuple(models),
        ks=chosen,
        error=error,
        low=low,
        high=high,
        null=null,
        confidence=confidence,
        accuracy=accuracy,
        accuracy_low=accuracy_low,
        accuracy_high=accuracy_high,
        place=place,
        definition=Definition(
            "the k most probable classes", partition, as_distance(distance)
        ).words(),
        baseline=0 if baseline is None else 1,
    )


def _given_models(
    y_true: Any, y_proba: Any, baseline: Any, options: RowOptions
) -> dict[str, Predictions]:
    """The models by name: several, or one and perhaps its baseline."""
    if not isinstance(y_proba, Mapping):
        rows = rows_of(y_true, y_proba, **options)
        alone = {"model": rows}
        return alone if baseline is None else alone | {BASELINE: replace(rows, probs=baseline)}
    if baseline is not None:
        raise InputError("baseline", "must not be given with several models: the first is it")
    if not y_proba:
        raise InputError("y_proba", "must have at least one model", "none")
    given = {str(name): rows_of(y_true, outputs, **options) for name, outputs in y_proba.items()}
    first = next(iter(given.values()))
    for name, rows in given.items():
        if rows.n_classes != first.n_classes:
            raise InputError(name, f"must have {first.n_classes} classes", rows.n_classes)
    return given


def _valid_ks(ks: Sequence[int] | None, classes: int) -> np.ndarray:
    chosen = np.arange(1, min(MOST, classes - 1) + 1) if ks is None else np.asarray(ks)
    if (
        chosen.ndim != 1
        or not len(chosen)
        or chosen.dtype.kind not in "iu"
        or (np.diff(chosen) <= 0).any()
    ):
        raise InputError("ks", "must be increasing integers", repr(ks))
    if chosen[0] < 1 or chosen[-1] >= classes:
        rule = f"must be at least 1 and below the number of classes ({classes})"
        raise InputError("ks", rule, chosen.tolist())
    return chosen


def _top_k_error(
    prepared: PreparedRows, k: int, partition: Partition, choices: dict[str, Any]
) -> tuple[float, float, float, float]:
    """The error with its interval, and the expected error of a calibrated model."""
    rows = prepared.predictions
    choices = choices | {"lens": TopK(k), "partition": prepared.partition(partition)}
    error = calibration_error(rows, interval=True, **choices)
    return *error.error_bar, calibration_test(rows, **choices).null_mean


def _top_k_rates(prepared: PreparedRows, ks: np.ndarray) -> np.ndarray:
    """Confidence, accuracy with its interval, and the k-th probability, for each k: [5, ks]."""
    rows = prepared.rows
    view = TopK(int(ks[-1])).view(rows.probs, rows.labels)
    share = shares(rows.weights)
    place = share @ view.outputs[:, :-1]
    found = np.cumsum(np.bincount(view.labels, share, view.outputs.shape[1])[:-1])[ks - 1]
    accuracy = np.clip(found, 0, 1)
    size = np.full(len(ks), 1 / (share**2).sum())
    if prepared.predictions.clusters is not None:
        clusters = ClusteredRows(prepared.predictions, np.arange(len(rows.labels))).clusters
        residuals = ((view.labels < k) - rate for k, rate in zip(ks, accuracy, strict=True))
        size /= np.array([clusters.widening(each) for each in residuals]) ** 2
    low, high = clopper_pearson(accuracy, size)
    return np.stack([np.cumsum(place)[ks - 1], accuracy, low, high, place[ks - 1]])
