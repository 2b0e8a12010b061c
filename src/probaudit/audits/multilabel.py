"""The audit of a multilabel model: independent events [n, K], each judged by itself and all
together, the worst first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.label_measures import (
    NAMES,
    JudgedLabel,
    LabelMeasures,
    judge_label,
    macro_measures,
)
from ..calibration.resampling import sampling_units
from ..calibration.significance import holm
from ..calibration.validation import frame_of, with_interval
from ..data.arrays import as_array, as_numbers, column_names
from ..data.inputs import RowOptions, takes_row_options
from ..data.predictions import Predictions, numbered
from ..data.row_index import common_index
from ..data.work import Progress, default_threads
from ..engines.good_rows import survey
from ..errors import InputError
from ..text import aligned_columns, counted, listed, percent, whole_percent
from ..version import __version__
from .result import Result

if TYPE_CHECKING:
    from ..report.page import Page

SCHEMA = "probaudit.multilabel/1"
SHOWN_LABELS = 20
SHOWN_MEASURES = ("predicted", "observed", "slope", "ici", "auc")
DRAWN_LABELS = 6  # labels whose grids are kept for diagrams


@dataclass(frozen=True)
class MultilabelTable(Result):
    """The measures of each label, the worst first: significantly miscalibrated labels, then the
    others, each by the size of their error (ICI).

    macro : the mean of each measure over labels.
    micro : all known cells of the table pooled as one event; the labels of a row are dependent.
    grids : the fine grids of the worst labels, for diagrams.
    """

    labels: tuple[LabelMeasures, ...]
    macro: LabelMeasures
    micro: LabelMeasures
    rows: int
    settings: Mapping[str, Any]
    grids: Mapping[str, FineGrid] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[LabelMeasures]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, label: str | int) -> LabelMeasures:
        """The label of a name, or at a place from the worst one on."""
        if not isinstance(label, str):
            return self.labels[label]
        found = next((one for one in self.labels if one.label == label), None)
        if found is None:
            raise KeyError(label)
        return found

    @property
    def headline(self) -> str:
        wrong = [one for one in self.labels if one.verdict]
        if not wrong:
            return f"No label is detectably miscalibrated (of {len(self):,})."
        worst = wrong[0]
        count = f"{len(wrong):,} of {len(self):,} labels {'is' if len(wrong) == 1 else 'are'}"
        return (
            f"Recalibrate by label: {count} miscalibrated. Worst: {worst.label} ({worst.verdict}: "
            f"predicted {_rate(worst.predicted)}, observed {_rate(worst.observed)})."
        )

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each label, then macro and micro; the ends of each interval
        in columns of their own."""
        return frame_of((*self.labels, self.macro, self.micro), LabelMeasures.PLAIN)

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values (schema `probaudit.multilabel/1`)."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "headline": self.headline,
            "rows": self.rows,
            "labels": [one.to_dict() for one in self.labels],
            "macro": self.macro.to_dict(),
            "micro": self.micro.to_dict(),
            "settings": dict(self.settings),
        }

    def __repr__(self) -> str:
        names = ("rows", "events", *(NAMES[name] for name in SHOWN_MEASURES), "")
        each = (*self.labels[:SHOWN_LABELS], self.macro, self.micro)
        rows = [
            [
                one.label,
                f"{one.rows:,}",
                f"{one.events:,}",
                *(with_interval(getattr(one, name)) for name in SHOWN_MEASURES),
                one.verdict,
            ]
            for one in each
        ]
        lines = aligned_columns([["label", *names], *rows])
        if len(self) > SHOWN_LABELS:
            lines.insert(1 + SHOWN_LABELS, f"and {len(self) - SHOWN_LABELS} more")
        return "\n".join([f"{counted(self.rows)}, {len(self):,} labels", self.headline, "", *lines])

    def _page(self, title: str) -> Page:
        from ..report.multilabel_page import multilabel_page

        return multilabel_page(self, title)

    def _short_page(self) -> Page:
        from ..report.multilabel_page import multilabel_summary

        return multilabel_summary(self)


def _rate(x: float) -> str:
    """A rate in a headline; rare ones need a decimal."""
    return whole_percent(x) if x >= 0.1 else percent(x)


@takes_row_options
def multilabel_table(
    y_true: Any,
    y_proba: Any,
    *,
    names: Sequence[str] | None = None,
    **options: Unpack[RowOptions],
) -> MultilabelTable:
    """Judge a multilabel model: each label by itself, the mean over labels (macro), and all cells
    pooled (micro).

    y_true : [n, K] of 0 and 1, or booleans: which labels each row has. Cells with `ignore_label`
        are unknown (NaN for missing values); each label is judged on the rows that it is known for.
    y_proba : [n, K] probability of each label. Rows need not sum to 1.
    names : of the labels; by default the column names of a frame, or numbers from 0.

    A label is "predicted too high", "predicted too low", "overconfident" or "underconfident" if
    that is significant after Holm's correction for the number of labels. Intervals of macro and
    micro allow for dependence between the labels of a row, and with `clusters` between rows.

    >>> y = [[1, 0], [0, 0], [1, 1], [0, 1]]
    >>> table = multilabel_table(y, [[0.9, 0.2], [0.3, 0.1], [0.8, 0.6], [0.1, 0.7]])
    >>> float(table.macro.auc), table.micro.rows, len(table)
    (1.0, 8, 2)
    """
    beside = {name: options.get(name) for name in ("sample_weight", "clusters")}
    common_index({"y_true": y_true, "y_proba": y_proba} | beside)
    y, p = _matrix(y_true, "y_true"), as_numbers(y_proba, "y_proba")
    if p.shape != y.shape:
        rule = f"must have the shape of `y_true`, {y.shape}"
        raise InputError("y_proba", rule, f"has shape {p.shape}")
    for name in ("classes", "event"):
        if options.get(name) is not None:
            raise InputError(name, "must not be given: each label is absent (0) or present (1)")
    called = _names(names, y_true, y_proba, y.shape[1])
    clusters = options.get("clusters")
    number = None if clusters is None else numbered(as_array(clusters, "clusters"))
    if number is not None and len(number) != len(y):
        raise InputError("clusters", f"needs one value per row ({len(y)})", len(number))
    units = sampling_units(len(y), 0, number)
    judge = partial(_judged, y, p, called, units, options)
    with Progress(len(called), unit="labels") as bar, ThreadPoolExecutor(default_threads()) as pool:
        judged = []
        for one in pool.map(judge, range(len(called))):
            judged.append(one)
            bar.advance(1)
    p_values = np.array([one.measures.p_value for one in judged])
    adjusted = holm(np.where(np.isnan(p_values), 1.0, p_values)).tolist()
    judged = [
        one._replace(measures=replace(one.measures, adjusted=q))
        for one, q in zip(judged, adjusted, strict=True)
    ]
    # cells are the pixels of images: those of a row are one cluster unless clusters are given
    cells = Predictions(y, p[:, None], **(options | {"classes": (0, 1)}))
    micro, worst = judge_label(cells, "micro").measures, sorted(judged, key=_badness)
    return MultilabelTable(
        labels=tuple(one.measures for one in worst),
        macro=macro_measures(judged),
        micro=replace(micro, adjusted=micro.p_value),
        rows=len(y),
        settings=_settings(cells, number),
        grids={one.measures.label: one.grid for one in worst[:DRAWN_LABELS]},
    )


def _matrix(y_true: Any, argument: str) -> np.ndarray:
    labels = as_array(y_true, argument)
    if labels.ndim != 2 or 0 in labels.shape:
        raise InputError(argument, "must be [rows, labels] of 0 and 1", f"has shape {labels.shape}")
    return labels if labels.dtype.kind in "biuf" else as_numbers(labels, argument)


def _names(names: Sequence[str] | None, y_true: Any, y_proba: Any, size: int) -> list[str]:
    both = column_names(y_true), column_names(y_proba)
    if both[0] != both[1] and sorted(both[0]) == sorted(both[1]):
        raise InputError(
            "y_proba",
            f"columns must be in the order of `y_true`: {listed(both[0])}",
            listed(both[1]),
        )
    called = [str(name) for name in names] if names is not None else column_names(y_proba)
    called = called or [str(k) for k in range(size)]
    if len(called) != size:
        raise InputError("names", f"needs one name for each of the {size} labels", len(called))
    if len(set(called)) != size:
        raise InputError("names", "must not repeat a name", repr(called))
    return called


def _judged(
    y: np.ndarray,
    p: np.ndarray,
    names: Sequence[str],
    units: np.ndarray,
    options: RowOptions,
    k: int,
) -> JudgedLabel:
    called = {"y": f"y_true[{names[k]}]", "probs": f"y_proba[{names[k]}]"}
    rows = Predictions(y[:, k], p[:, k], **(options | {"classes": (0, 1)}), names=called)
    return judge_label(rows, names[k], units)


def _badness(one: JudgedLabel) -> tuple[bool, float]:
    ici = one.measures.ici
    return not one.measures.verdict, -float(ici) if math.isfinite(ici) else 0.0


def _settings(cells: Predictions, number: np.ndarray | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "tests": "calibration in the large and a slope of 1, Bonferroni; Holm over labels",
        "macro": "mean over labels; intervals by MOVER with correlations between labels",
        "micro": "all known cells; "
        + ("the labels of a row are one cluster" if number is None else "clusters as given"),
        "on_bad_rows": cells.on_bad_rows,
    }
    if cells.ignore_label is not None:
        ignored = survey(cells).summary.ignored
        settings["ignored"] = f"{ignored:,} cells with label {cells.ignore_label!r}"
    if number is not None:
        settings["clusters"] = f"{int(number.max()) + 1:,} clusters"
    return settings
