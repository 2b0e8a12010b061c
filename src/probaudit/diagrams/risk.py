"""Bayes risk curves: the cost of decisions at every threshold (Ferrer & Ramos 2025, Section 3.1,
Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibrators.calibration_loss import calibration_loss
from ..choices.scores import RiskWeighted
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import Argument, InputError
from ..scoring.proper_scores import log_score
from ..scoring.risk_curve import RiskCurve, risk_curve
from ..text import significant
from .before_after import RECALIBRATED, ROLES
from .diagram import Diagram
from .picture import Axis, Line, Mark, Panel, Picture

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

Against = Literal["threshold", "log-odds"]

EVEN = RiskWeighted(1.0, 1.0)
SAME = "same decision for all"
STEPS = 121
EXTREME = float(np.log(99.0))  # of the log-odds of a threshold: 1% and 99%
WORST = 2.5  # upper end of the axis, in multiples of the naive risk


@dataclass(frozen=True, eq=False)
class RiskCurves(Diagram):
    """Bayes risks [curves, thresholds] at costs 1 / t of a miss and 1 / (1 - t) of a false alarm,
    and the naive risk: that of the best constant decision.

    scores : the normalised log loss of each curve (its area divided by that of the naive risk); NaN
        if unknown.
    normalize : whether risks are drawn as multiples of the naive risk.
    against : the x axis, the threshold or its log-odds.
    weight : a factor of the risk. Without normalisation, the area under a curve is then the score
        of that weight.
    """

    percents = ("threshold",)

    names: tuple[str, ...]
    thresholds: np.ndarray
    risk: np.ndarray
    naive: np.ndarray
    scores: np.ndarray
    normalize: bool = True
    against: Against = "threshold"
    weight: RiskWeighted = EVEN

    @classmethod
    def of_curves(
        cls,
        curves: Mapping[str, RiskCurve],
        *,
        scores: Mapping[str, float] | None = None,
        normalize: bool = True,
        against: Against = "threshold",
        weight: RiskWeighted | None = None,
    ) -> RiskCurves:
        """Curves of the same thresholds for the same labels, by name."""
        if not curves:
            raise InputError("curves", "must have at least one curve")
        if against not in ("threshold", "log-odds"):
            raise InputError("against", 'must be "threshold" or "log-odds"', repr(against))
        if weight is not None and normalize:
            raise InputError(
                "weight",
                "must be omitted if risks are normalised: it would cancel",
                way_out=("pass ", Argument("normalize", "False")),
            )
        first = next(iter(curves.values()))
        for name, curve in curves.items():
            if not np.array_equal(curve.thresholds, first.thresholds) or not np.allclose(
                curve.naive, first.naive, 1e-9
            ):
                raise InputError(
                    "curves", "must have the same thresholds and class frequencies", repr(name)
                )
        if normalize and not (first.naive > 0).all():
            rule = "must be False if a class never occurs: the naive risk is 0"
            raise InputError("normalize", rule)
        known = {} if scores is None else scores
        return cls(
            names=tuple(curves),
            thresholds=first.thresholds,
            risk=np.stack([curve.risk for curve in curves.values()]),
            naive=first.naive,
            scores=np.array([float(known.get(name, np.nan)) for name in curves]),
            normalize=normalize,
            against=against,
            weight=EVEN if weight is None else weight,
        )

    @property
    def drawn(self) -> np.ndarray:
        """The curves as they are drawn, the naive one last."""
        curves = np.vstack([self.risk, self.naive])
        return (
            curves / self.naive if self.normalize else curves * self.weight.weight(self.thresholds)
        )

    def columns(self) -> dict[str, np.ndarray]:
        m = len(self.thresholds)
        names = np.repeat([*self.names, SAME], m)
        risk = np.vstack([self.risk, self.naive]).ravel()
        return {
            "outputs": names,
            "threshold": np.tile(self.thresholds, len(self.names) + 1),
            "Bayes risk": risk,
            f"risk / risk of the {SAME}": self._normalized(risk),
        }

    def _normalized(self, risk: np.ndarray) -> np.ndarray:
        naive = np.tile(self.naive, len(self.names) + 1)
        return np.divide(risk, naive, out=np.full(len(risk), np.nan), where=naive > 0)

    def picture(self) -> Picture:
        t, drawn = self.thresholds, self.drawn
        x = np.log(t) - np.log1p(-t) if self.against == "log-odds" else t
        marks: list[Mark] = [Line(x, drawn[-1], dashed=True, role="reference", name=SAME)]
        for k, (name, score, values) in enumerate(
            zip(self.names, self.scores, drawn[:-1], strict=True)
        ):
            role = ROLES.get(name, f"series {k}")
            label = name + (f" ({score:.2f})" if np.isfinite(score) else "")
            marks.append(
                Line(
                    x,
                    values,
                    name == RECALIBRATED,
                    role=role,
                    name=label,
                    detail={"threshold": t, "risk": values},
                )
            )
        if self.against == "log-odds":
            across = Axis(
                "log-odds of the threshold (right: false alarms are costly)",
                float(x[0]),
                float(x[-1]),
            )
        else:
            across = Axis("decision threshold", 0.0, 1.0, percent=True)
        top = 1.05 * float(drawn.max())
        up = Axis(
            "relative cost" if self.normalize else "Bayes risk",
            0.0,
            min(top, WORST) if self.normalize else top,
        )
        title = "Cost at every decision threshold"
        return Picture(
            (Panel(tuple(marks), across, up),), title, self._description(), self._caption()
        )

    def _caption(self) -> str:
        scored = (
            " The number beside a name is its log loss divided by that of the base-rate forecast."
            if np.isfinite(self.scores).any()
            else ""
        )
        if self.normalize:
            return (
                "Above 1, decisions by the probabilities cost more than the same decision for all "
                f"rows.{scored}"
            )
        weight = self.weight
        area = {(1.0, 1.0): "log loss", (2.0, 2.0): "Brier score"}.get(
            (weight.a, weight.b), weight.words()
        )
        return f"The area under a curve is its {area}.{scored}"

    def _description(self) -> str:
        normal = (self.risk / np.where(self.naive > 0, self.naive, np.nan)).reshape(
            len(self.names), -1
        )
        parts = []
        for name, values in zip(self.names, normal, strict=True):
            worse = self.thresholds[values > 1]
            where = (
                f"thresholds from {significant(worse.min(), 2)} to {significant(worse.max(), 2)}"
                if len(worse)
                else "no threshold"
            )
            parts.append(f"{name}: worse than the same decision for all at {where}")
        return "Bayes risk against the decision threshold. " + "; ".join(parts) + "."


@takes_row_options
def risk_curve_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    calibrator: Calibrator | Literal["none"] | None = None,
    others: Mapping[str, Any] | None = None,
    thresholds: Any = None,
    normalize: bool = True,
    against: Against = "threshold",
    weight: RiskWeighted | None = None,
    cv: Any = 5,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> RiskCurves:
    """The Bayes risk of a two-class problem at every threshold: original, after calibration out of
    fold, and for the same decision for all rows.

    calibrator, cv : as in `calibration_loss`; calibrator "none" omits the calibrated curve.
    others : more outputs for the same rows, by name (the systems of Ferrer & Ramos 2025, Figure 4).
    thresholds : inside (0, 1); by default in equal steps of the x axis from 1% to 99%.
    normalize, against, weight : see `RiskCurves`. Figure 4 is `normalize=False`, on the right with
        `weight=RiskWeighted(2, 2)`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 2)
    >>> risk_curve_diagram(world.y, world.mcs).names
    ('original', 'recalibrated')
    """
    rows = rows_of(y_true, y_proba, **options)
    if thresholds is None:
        steps = np.linspace(-EXTREME, EXTREME, STEPS)
        thresholds = (
            1 / (1 + np.exp(-steps)) if against == "log-odds" else np.linspace(0.01, 0.99, 99)
        )
    systems = {"original": rows}
    if isinstance(calibrator, str) and calibrator != "none":
        raise InputError("calibrator", 'must be a calibrator, None or "none"', repr(calibrator))
    if calibrator != "none":
        systems[RECALIBRATED] = _out_of_fold(rows, calibrator, cv, seed)
    for name, outputs in (others or {}).items():
        if name in systems:
            raise InputError("others", "must not use the name of another curve", repr(name))
        systems[name] = replace(rows, probs=outputs)
    curves = {name: risk_curve(system, thresholds=thresholds) for name, system in systems.items()}
    scores = {name: float(log_score(system, normalize=True)) for name, system in systems.items()}
    return RiskCurves.of_curves(
        curves, scores=scores, normalize=normalize, against=against, weight=weight
    )


def _out_of_fold(rows: Predictions, calibrator: Any, cv: Any, seed: int) -> Predictions:
    """Out-of-fold probabilities of the rows that are used."""
    found = calibration_loss(rows, calibrator=calibrator, cv=cv, seed=seed, interval=None)
    weights = None if rows.sample_weight is None else rows.sample_weight[found.rows]
    clusters = None if rows.clusters is None else rows.clusters[found.rows]
    posteriors = np.clip(found.posteriors, 0, 1)
    return Predictions(rows.codes[found.rows], posteriors, sample_weight=weights, clusters=clusters)
