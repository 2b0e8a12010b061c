"""Good rows: those that break no rule (`kernels/rules.py`) and have a positive weight.

One pass over predictions in memory finds them (`survey`); the predictions keep the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ..choices.lenses import Lens, View
from ..data.pixels import PixelRows
from ..data.predictions import Block, Predictions, sum_tolerance
from ..errors import InputError
from ..states import CELLS, COARSE_CELLS, EventGrid, Plan, Statistics
from ..states.bad_rows import broken_rules, explain
from ..states.evidence import MANY_EVENTS
from .memory import Survey, SurveyState, is_good, keep_survey, run

DENSE_VALUES = 2**22  # outputs of dense rows that are copied at a time


def survey(predictions: Predictions) -> Survey:
    """The survey of all rows, computed by the first call. Raises if no row is good."""
    if "survey" not in predictions.memo:
        plan = Plan.of(predictions)
        state = run(predictions, lambda: SurveyState(Statistics.empty(plan)), progress=False)
        keep_survey(predictions, state.state, state)
    kept: Survey = predictions.memo["survey"]
    return kept


def good_of_block(plan: Plan, block: Block) -> np.ndarray:
    """Whether each row of a block is good. A bad row raises unless the plan drops bad rows."""
    if _all_in_range(plan, block):
        return np.ones(len(block.labels), bool)
    status = Statistics.empty(plan).status(block)
    if plan.on_bad_rows == "error" and (broken := broken_rules(block, status)).any():
        first = int(np.flatnonzero(broken)[0])
        raise explain(plan, block, first, int(broken[first]))
    return is_good(status, block.weights)


def _all_in_range(plan: Plan, block: Block) -> bool:
    """A quick test of one column of probabilities without weights, which have no other rules: a
    fifth of the time of the kernel, which also scores rows. If it fails, rows may still be good."""
    values, labels = block.values, block.labels
    if plan.kind != "probabilities" or block.weights is not None or block.by_column:
        return False
    if values.shape[1] > 1 or len(labels) == 0:
        return False
    in_range = values.min() >= 0 and values.max() <= 1
    return bool(in_range and labels.min() >= 0 and labels.max() < plan.n_classes)


@dataclass(frozen=True)
class GoodRows:
    """The good rows as plain arrays: probabilities [n, K], labels, weights (at most 1), and their
    places among all `total` rows."""

    predictions: Predictions
    labels: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    total: int

    @classmethod
    def of(cls, predictions: Predictions) -> GoodRows:
        good = survey(predictions).good
        codes = predictions.codes
        labels = codes if len(good) == len(predictions) else codes[good]
        weights = weights_of(predictions, good)
        if predictions.sample_weight is not None:
            weights = weights / weights.max()
        return cls(predictions, labels, weights, good, len(predictions))

    @cached_property
    def probs(self) -> np.ndarray:
        every = len(self.places) == self.total
        return self.predictions.probabilities(slice(None) if every else self.places)

    def views(self, lens: Lens) -> list[View]:
        """The views of a lens. Dense outputs become rows block by block, never as a whole."""
        if not isinstance(self.predictions.probs, PixelRows):
            return lens.views(self.probs, self.labels)
        size = max(1, DENSE_VALUES // self.predictions.n_classes)
        parts = [slice(first, first + size) for first in range(0, len(self.places), size)]
        blocks = [
            lens.views(self.predictions.probabilities(self.places[part]), self.labels[part])
            for part in parts
        ]
        of_lens = zip(*blocks, strict=True)
        return [View(*map(np.concatenate, zip(*views, strict=True))) for views in of_lens]


def weights_of(predictions: Predictions, good: np.ndarray) -> np.ndarray:
    """The weights of the good rows; ones if the predictions have none."""
    if predictions.sample_weight is None:
        return np.ones(len(good))
    return predictions.sample_weight[good]


def calibrator_outputs(
    predictions: Predictions, good: np.ndarray, logits: bool | None = None
) -> tuple[np.ndarray, bool]:
    """The outputs of the good rows as calibrators take them, [n, K], and whether they are logits.

    With a wide `tolerance`, rows of probabilities are divided by their sum.

    logits : whether to return logits. By default, if the outputs are logits or log-probabilities of
        all classes and all are finite; calibrators do not take -inf.
    """
    values = predictions.probs[good]
    if logits is None:
        given = predictions.kind in ("logits", "log_probabilities")
        whole = values.ndim == 2 or predictions.from_logits
        logits = given and whole and bool(np.isfinite(values).all())
    if logits and values.ndim == 1 and predictions.from_logits:
        values = np.column_stack([np.zeros(len(good)), values])
    elif values.ndim == 1 or not (logits or predictions.kind == "probabilities"):
        values = predictions.probabilities(good)
    if not logits and predictions.row_tolerance > sum_tolerance(values):
        values = values / values.sum(axis=1, keepdims=True, dtype=np.float64)
    return values, logits


class _LensGrids:
    """The grid of each event that a lens shows."""

    def __init__(self, rows: Predictions, plan: Plan, lens: Lens) -> None:
        self._rows, self._plan, self._lens = rows, plan, lens
        self.grids: list[EventGrid] = []

    def update(self, block: Block) -> _LensGrids:
        good = good_of_block(self._plan, block)
        part = slice(block.first_row, block.first_row + len(good))
        probs, labels = self._rows.probabilities(part), block.labels
        weights = self._plan.scaled(block.weights)
        if not good.all():
            probs, labels = probs[good], labels[good]
            weights = None if weights is None else weights[good]
        views = self._lens.views(probs, labels)
        if views[0].outputs.ndim != 1:
            raise InputError("lens", "must show a single event", repr(self._lens))
        if not self.grids:
            cells = CELLS if len(views) <= MANY_EVENTS else COARSE_CELLS
            self.grids = [EventGrid(cells, weighted=self._plan.weighted) for _ in views]
        for grid, view in zip(self.grids, views, strict=True):
            grid.update(*view, weights)
        return self

    def merge(self, other: _LensGrids) -> _LensGrids:
        if not self.grids:
            self.grids = other.grids
        elif other.grids:
            for mine, theirs in zip(self.grids, other.grids, strict=True):
                mine.merge(theirs)
        return self


def events(rows: Predictions, lens: Lens) -> list[EventGrid]:
    """One pass over the rows: the grid of each event that a lens shows. The result has the same
    bytes for any division into blocks."""
    return run(rows, partial(_LensGrids, rows, Plan.of(rows), lens), progress=False).grids
