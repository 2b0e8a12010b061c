"""The Bayes risk of a two-class problem at each decision threshold, and integrated over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..choices.scores import RiskWeighted
from ..data.arrays import as_numbers, data_frame
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.good_rows import survey
from ..engines.memory import summary
from ..errors import InputError
from ..estimate import Estimate
from ..states import Plan, Summary
from ..text import ShownAsTable, TextTable, counted, evenly_spaced, number, significant
from .clusters import clusters_unused
from .expected_scores import estimate_score
from .proper_scores import clustered_sample
from .row_scores import class_sums


@dataclass(frozen=True, repr=False)
class RiskCurve(ShownAsTable):
    """The Bayes risk at each threshold, and that of the better constant decision (`naive`)."""

    thresholds: np.ndarray
    risk: np.ndarray
    naive: np.ndarray
    n: int
    definition: str

    def columns(self) -> dict[str, np.ndarray]:
        """The curve as columns, one value for each threshold."""
        return {"threshold": self.thresholds, "risk": self.risk, "naive": self.naive}

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame."""
        return data_frame(self.columns())

    def _text_table(self) -> TextTable:
        rows = list(zip(*self.columns().values(), strict=True))
        shown = evenly_spaced(rows)
        left_out = len(shown) < len(rows)
        return TextTable(
            f"{self.definition}, {counted(self.n)}",
            ("threshold", "risk", "constant decision"),
            [[significant(t), number(risk), number(naive)] for t, risk, naive in shown],
            f"{len(shown)} of {len(rows)} thresholds; to_frame() has all." if left_out else "",
        )


@takes_row_options
def risk_curve(
    y_true: Any,
    y_proba: Any = None,
    *,
    thresholds: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> RiskCurve:
    """The Bayes risk of a two-class problem as a function of the decision threshold (Ferrer & Ramos
    2025, Eq. 34, Figure 4).

    At threshold t, the decision is the second class if its probability exceeds t. A miss costs
    1 / t and a false alarm 1 / (1 - t); for these costs t is the Bayes threshold. The area under
    the curve is the log loss.

    thresholds : inside (0, 1); 99 equal steps by default.

    >>> risk_curve([1, 0, 1], [0.9, 0.2, 0.4], thresholds=[0.5]).risk
    array([0.66666667])
    """
    if options.get("clusters") is not None:
        raise clusters_unused("a risk curve, which has no interval")
    t = (
        np.linspace(0.01, 0.99, 99)
        if thresholds is None
        else np.atleast_1d(as_numbers(thresholds, "thresholds"))
    )
    if not ((t > 0) & (t < 1)).all():
        raise InputError("thresholds", "must lie inside (0, 1)", t[~((t > 0) & (t < 1))][0])
    forecast, labels, weights, sums = _good_binary_rows(
        rows_of(y_true, y_proba, **options), threads
    )
    p, prior = forecast[:, 1], sums.priors[1]
    missed = prior * _share_up_to(p[labels == 1], weights[labels == 1], t)
    alarms = (1 - prior) * (1 - _share_up_to(p[labels == 0], weights[labels == 0], t))
    naive = np.minimum(prior / t, (1 - prior) / (1 - t))
    return RiskCurve(
        t, missed / t + alarms / (1 - t), naive, sums.rows, "Bayes risk, costs 1/t and 1/(1 - t)"
    )


@takes_row_options
def risk_weighted_score(
    y_true: Any,
    y_proba: Any = None,
    *,
    a: float = 1.0,
    b: float = 1.0,
    normalize: bool = False,
    priors: Any = None,
    threads: int | None = None,
    **options: Unpack[RowOptions],
) -> Estimate:
    """The Bayes risk of a two-class problem, integrated over all thresholds with a Beta(a, b)
    weight.

    Beta(1, 1) gives the log loss and Beta(2, 2) the Brier score; a > b puts more weight on high
    thresholds, where false alarms are expensive. See `scores.RiskWeighted`. Other arguments as in
    `log_score`.

    >>> round(risk_weighted_score([1, 0, 1], [0.9, 0.2, 0.4], a=2, b=2), 6)
    0.273333
    """
    score = RiskWeighted(a, b)
    rows = rows_of(y_true, y_proba, **options)
    forecast, labels, weights, totals = _good_binary_rows(rows, threads)
    sums = class_sums(score.score(forecast, labels), labels, weights)
    clustered = clustered_sample(rows, totals)
    return estimate_score(
        totals, score, normalize=normalize, priors=priors, sums=sums, clustered=clustered
    )


def _share_up_to(p: np.ndarray, weights: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The weighted share of values p up to each threshold; 0 without rows."""
    if not len(p):
        return np.zeros(len(thresholds))
    order = np.argsort(p, kind="stable")
    cumulated = np.r_[0.0, np.cumsum(weights[order])]
    return cumulated[np.searchsorted(p[order], thresholds, side="right")] / cumulated[-1]


def _good_binary_rows(
    rows: Predictions, threads: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Summary]:
    """Forecasts [n, 2], labels and weights of the good rows, and the summary of the pass."""
    if rows.n_classes != 2:
        raise InputError(rows.name("probs"), "must have two classes", rows.n_classes)
    plan = Plan.of(rows)
    sums = summary(rows, plan, threads=threads)
    good = survey(rows).good
    values = rows.probs[good].astype(np.float64)
    if rows.kind == "logits":
        gap = values if values.ndim == 1 else values[:, 1] - values[:, 0]
        forecast = np.exp(-np.logaddexp(0.0, np.column_stack([gap, -gap])))
    else:
        values = np.exp(values) if rows.kind == "log_probabilities" else values
        forecast = np.column_stack([1 - values, values]) if values.ndim == 1 else values
    weights = np.ones(len(forecast)) if rows.sample_weight is None else rows.sample_weight[good]
    return forecast, rows.codes[good], weights, sums
