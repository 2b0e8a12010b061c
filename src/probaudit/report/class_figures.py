"""The figures of single classes on an audit's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..audits.dependence import lens_event
from ..audits.lens_error import LEVEL
from ..calibration.fine_grid import FineGrid
from ..calibration.label_measures import OVERCONFIDENT, UNDERCONFIDENT
from ..calibration.significance import holm
from ..calibration.validation import agreement, large_p_value
from ..choices.lenses import OneVsRest, TopLabel
from ..diagrams.classwise import ClasswiseReliability
from ..diagrams.group_rates import GroupRates
from ..engines.good_rows import GoodRows
from ..scoring.events import EventTable
from ..scoring.intervals import Z95
from .audit_figures import bins_of_views, by_outputs, controls_of, drawn_class
from .page import Figure

if TYPE_CHECKING:
    from ..audits.audit_result import Audit

PANELS = 6
SHOWN = 15  # classes in the dot plot, each with a diagram that the reader can open


def class_figures(audit: Audit) -> list[Figure]:
    """What the model says and how often it is right by predicted class, and the reliability of each
    class."""
    wrong = any(error.miscalibrated for error in audit.class_errors)
    panels = [Figure("classwise", {(): _panels(audit)})] if wrong else []
    return [*_rates(audit, wrong), *panels]


def _rates(audit: Audit, wrong: bool) -> list[Figure]:
    """Confidence and accuracy by predicted class, marked as misjudged if their difference is
    significant (calibration in the large). A click on a class opens its diagram, if the probability
    of any class is `wrong`: else all diagrams would show noise."""
    sample, names = audit.evidence.sample, audit.summary.plan.classes
    good = GoodRows.of(sample)
    (view,) = good.views(TopLabel())
    predicted = np.asarray(good.probs.argmax(axis=1))
    shown = _clearest_gaps(predicted, view.outputs - view.labels, len(names))
    tables = {k: EventTable.of(sample.take(good.places[predicted == k]), TopLabel()) for k in shown}
    found = {k: agreement(table) for k, table in tables.items()}
    verdicts = _verdicts(tables, len(np.unique(predicted)))
    order = sorted(shown, key=lambda k: -abs(found[k]["gap"]))
    diagram = GroupRates.of(
        [f"class {names[k]}" for k in order],
        [(found[k]["predicted"], found[k]["observed"]) for k in order],
        [tables[k].n for k in order],
        [verdicts[k] for k in order],
        risk=False,
    )
    if len(order) < 2:
        return []
    dots = replace(diagram, what="predicted class", total=len(names))
    if not wrong:
        return [Figure("class-rates", {(): dots}, large=True)]
    opened = _reliability(
        audit, sorted(order, key=lambda k: -float(audit.class_errors[k].estimate))
    )
    return [Figure("class-rates", {(): dots}, opens=opened.name), opened]


def _verdicts(tables: Mapping[int, EventTable], classes: int) -> dict[int, str]:
    """The direction of each significant difference, after Holm's correction for all predicted
    classes. Those that are not shown count as clearly right, which only makes it stricter."""
    p_values = np.ones(classes)
    p_values[: len(tables)] = [large_p_value(table) for table in tables.values()]
    adjusted = dict(zip(tables, holm(p_values).tolist(), strict=False))
    directions = {
        k: OVERCONFIDENT if table.predicted > table.rate else UNDERCONFIDENT
        for k, table in tables.items()
    }
    return {k: directions[k] if adjusted[k] < LEVEL else "" for k in tables}


def _clearest_gaps(predicted: np.ndarray, gap: np.ndarray, classes: int) -> list[int]:
    """The classes whose mean gap is furthest from 0, less its sampling error."""
    rows = np.bincount(predicted, minlength=classes)
    mean = np.bincount(predicted, gap, classes) / np.maximum(rows, 1)
    square = np.bincount(predicted, gap**2, classes) / np.maximum(rows, 1)
    error = np.sqrt(np.maximum(square - mean**2, 0) / np.maximum(rows, 1) + 1 / (rows + 1.0) ** 2)
    order = np.argsort(-(np.abs(mean) - Z95 * error), kind="stable")
    return [int(k) for k in order if rows[k]][:SHOWN]


def _reliability(audit: Audit, classes: Sequence[int]) -> Figure:
    """The diagram of one class at a time, which the dot plot of classes opens."""
    names = {k: f"class {audit.summary.plan.classes[k]}" for k in classes}
    view, bins = next(iter(bins_of_views(audit.summary.rows).items()))
    variants = {
        (names[k], outputs): drawn.diagram(view, bins, names[k])
        for k in classes
        for outputs, drawn in by_outputs(audit, OneVsRest(k), drawn_class(audit, k)).items()
    }
    return Figure("class-reliability", variants, controls_of(variants, ("event", "outputs")))


def _panels(audit: Audit) -> ClasswiseReliability:
    grids = [_class_grid(audit, k) for k in range(len(audit.evidence.classes))]
    names = [str(c) for c in audit.summary.plan.classes]
    return ClasswiseReliability.of_grids(grids, names, most=PANELS)


def _class_grid(audit: Audit, k: int) -> FineGrid:
    grid, event = (
        FineGrid.of_event(audit.evidence.classes[k]),
        lens_event(audit.evidence, OneVsRest(k)),
    )
    return grid if event is None else event.thinned(grid)
