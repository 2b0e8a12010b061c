"""Bayes decisions under a cost matrix: their regions, frequencies and costs (Ferrer & Ramos 2025,
Section 2.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from ..calibration.fine_grid import FineGrid
from ..calibration.views import grids_of
from ..calibrators.outputs import shares
from ..choices.lenses import Binary
from ..choices.scores import Cost
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..scoring.clusters import clusters_unused
from ..states.summary import Decisions
from ..text import number, percent, significant, whole_percent
from .diagram import SHARE, Diagram
from .picture import Axis, Bars, Mark, Panel, Picture, Rule, Text

STEPS = 50  # of the histogram of outputs
PIECE = 2**22  # expected costs in memory at a time
LETTER = 0.018  # width of a character, as a share of the panel
SHOWN = 12  # largest number of decisions and of classes in a picture
# Thresholds, regions and density, which exist for two classes only.
NOWHERE = (np.zeros(0), np.zeros(0, np.int64), np.zeros((2, 0)))


@dataclass(frozen=True, eq=False)
class DecisionRegions(Diagram):
    """Bayes decisions under a K x M cost matrix.

    share : [K, M], the share of the rows of each true class and decision. cost : [K, M], their
        contributions to the Bayes risk.
    best : [K, M], whether no decision costs less for that class. reject : [M], whether a decision
        costs the same for all.
    thresholds, regions : for two classes, the probabilities of the second class at which the
        decision changes, and the decision in each interval between them.
    density : for two classes, [2, 50], the share of rows of each class in equal steps of that
        probability.
    """

    percents = (SHARE,)

    classes: tuple[str, ...]
    decisions: tuple[str, ...]
    share: np.ndarray
    cost: np.ndarray
    best: np.ndarray
    reject: np.ndarray
    thresholds: np.ndarray
    regions: np.ndarray
    density: np.ndarray

    @classmethod
    def of_counts(
        cls, counts: Decisions, costs: Cost, classes: Sequence[Any], grid: FineGrid | None = None
    ) -> DecisionRegions:
        """From the counts of a pass over the rows; for two classes, also from the grid of the
        probability of the second class."""
        return cls.of_shares(counts.matrix() / counts.weight.sum(), costs, classes, grid)

    @classmethod
    def of_shares(
        cls, share: np.ndarray, costs: Cost, classes: Sequence[Any], grid: FineGrid | None = None
    ) -> DecisionRegions:
        """The same from shares of rows, [K, M]."""
        names = tuple(str(name) for name in classes)
        reject = (costs.matrix == costs.matrix[:1]).all(axis=0)
        best = costs.matrix <= costs.matrix.min(axis=1, keepdims=True)
        decisions = decision_names(costs, names, best, reject)
        found = cls(names, decisions, share, share * costs.matrix, best, reject, *NOWHERE)
        if grid is None:
            return found
        step = np.arange(len(grid.weight)) * STEPS // len(grid.weight)
        density = np.stack(
            [np.bincount(step, grid.weight - grid.targets), np.bincount(step, grid.targets)]
        )
        thresholds, regions = decision_intervals(costs)
        return replace(
            found,
            thresholds=thresholds,
            regions=regions,
            density=np.maximum(0.0, density) / grid.weight.sum(),
        )

    @property
    def risk(self) -> float:
        return float(self.cost.sum())

    def columns(self) -> dict[str, np.ndarray]:
        """A row for each true class and decision."""
        K, M = self.share.shape
        return {
            "true class": np.repeat(self.classes, M),
            "decision": np.tile(self.decisions, K),
            "outcome": np.select(
                [cells.ravel() for *_, cells in self._kinds()],
                [name for _, name, _ in self._kinds()],
                "",
            ),
            SHARE: self.share.ravel(),
            "part of the risk": self.cost.ravel(),
        }

    def picture(self) -> Picture:
        panels = (
            *([self._intervals()] if len(self.regions) else []),
            self._decided(),
            self._paid(),
        )
        kept, found = min(SHOWN, len(self.decisions)), len(self.decisions)
        some = f" Shown: the {kept} most frequent of {found} decisions." if kept < found else ""
        some += (
            f" Shown: the {SHOWN} costliest of {len(self.classes)} classes."
            if len(self.classes) > SHOWN
            else ""
        )
        caption = "Decisions of least expected cost."
        caption += f" The Bayes risk is {number(self.risk)} per row.{some}"
        title = "Bayes decisions and their costs"
        alone = "decision regions, whose stacked bars would hide those of another model"
        return Picture(panels, title, self._description(), caption, alone=alone)

    def _kinds(self) -> list[tuple[str, str, np.ndarray]]:
        """Role, name and cells [K, M] of the three outcomes of a decision."""
        reject = np.broadcast_to(self.reject, self.best.shape)
        return [
            ("series 0", "right", self.best & ~reject),
            ("reject", "rejected", reject),
            ("series 1", "wrong", ~self.best & ~reject),
        ]

    def _intervals(self) -> Panel:
        """For two classes: the decision regions behind the histogram of the probability."""
        ends, high = np.r_[0.0, self.thresholds, 1.0], float(self.density.sum(axis=0).max())
        roles = {
            j: "reject" if self.reject[j] else f"series {(0, 2, 3, 5)[k % 4]}"
            for k, j in enumerate(self.regions.tolist())
        }
        marks: list[Mark] = []
        for j, left, right in zip(self.regions.tolist(), ends[:-1], ends[1:], strict=True):
            area = (np.array([left]), np.array([right]), np.zeros(1), np.array([high * 1.36]))
            detail = {
                "decision": [self.decisions[j]],
                "from": [left],
                "to": [right],
                "rows": [float(self.share[:, j].sum())],
            }
            marks.append(Bars(*area, faint=True, role=roles[j], detail=detail))
        step, bottom = np.linspace(0, 1, STEPS + 1), np.zeros(STEPS)
        for k, role in enumerate(("rest", "model")):
            kept = self.density[k] > 0
            top = bottom + self.density[k]
            bars = (step[:-1][kept], step[1:][kept], bottom[kept], top[kept])
            marks.append(
                Bars(
                    *bars,
                    role=role,
                    name=f"truly {self.classes[k]}",
                    detail={"rows": self.density[k][kept]},
                )
            )
            bottom = top
        marks += [Rule(x=float(t), role="reference") for t in self.thresholds]
        for j, left, right in zip(self.regions.tolist(), ends[:-1], ends[1:], strict=True):
            words = f"{self.decisions[j]}\n{whole_percent(self.share[:, j].sum())} of rows"
            if right - left >= LETTER * max(map(len, words.split("\n"))):
                marks.append(Text((left + right) / 2, high * 1.16, words, anchor="middle"))
        title = ", ".join(
            f"{self.decisions[j]} {_range_words(start, stop)}"
            for j, start, stop in zip(self.regions, ends[:-1], ends[1:], strict=True)
        )
        x = Axis(f"probability of {self.classes[1]}", 0.0, 1.0, percent=True)
        return Panel(tuple(marks), x, Axis("rows", 0.0, high * 1.36, percent=True), title=title)

    def _decided(self) -> Panel:
        """The share of rows of each decision, by outcome."""
        total = self.share.sum(axis=0)
        shown = np.sort(np.argsort(-total, kind="stable")[:SHOWN])
        marks = self._stacked(
            self.share.T[shown], [those.T[shown] for _, _, those in self._kinds()]
        )
        names = Axis("", categories=tuple(self.decisions[j] for j in shown))
        return Panel(
            marks,
            Axis("rows", 0.0, percent=True),
            names,
            title="frequency and outcome of decisions",
            share=0.4,
        )

    def _paid(self) -> Panel:
        """The contribution of each true class to the risk."""
        total = self.cost.sum(axis=1)
        shown = np.sort(np.argsort(-total, kind="stable")[:SHOWN])
        marks = self._stacked(self.cost[shown], [those[shown] for _, _, those in self._kinds()])
        names = Axis("", categories=tuple(f"truly {self.classes[k]}" for k in shown))
        title = "cost per row, by true class"
        return Panel(
            marks,
            Axis(f"part of the risk, {number(self.risk)}", 0.0),
            names,
            title=title,
            share=0.4,
        )

    def _stacked(self, values: np.ndarray, kinds: list[np.ndarray]) -> tuple[Mark, ...]:
        """Stacked bars of values [bars, parts], ordered by kind."""
        marks: list[Mark] = []
        start = np.minimum(0.0, values).sum(axis=1)
        for (role, name, _), those in zip(self._kinds(), kinds, strict=True):
            length = np.where(those, values, 0.0).sum(axis=1)
            kept = np.flatnonzero(length != 0)
            if len(kept):
                end = start + length
                detail = {name: length[kept]}
                left, right = np.minimum(start, end)[kept], np.maximum(start, end)[kept]
                marks.append(
                    Bars.lying(kept * 1.0, left, right, role=role, name=name, detail=detail)
                )
                start = end
        return tuple(marks)

    def _description(self) -> str:
        taken = self.share.sum(axis=0)
        words = [
            f"{self.decisions[j]} for {percent(taken[j])} of rows"
            for j in np.argsort(-taken, kind="stable")[:SHOWN]
        ]
        costliest = int(self.cost.sum(axis=1).argmax())
        changes = ""
        if len(self.regions):
            changes = f" Decisions change where the probability of {self.classes[1]} is " + (
                ", ".join(significant(t) for t in self.thresholds) + "."
                if len(self.thresholds)
                else "nowhere."
            )
        return (
            f"Bayes decisions: {', '.join(words)}.{changes}"
            f" The Bayes risk is {number(self.risk)} per row."
            f" Rows of class {self.classes[costliest]} contribute most"
            f" ({number(self.cost[costliest].sum())})."
        )


def _range_words(start: float, stop: float) -> str:
    if stop < 1:
        return f"up to {significant(stop)}"
    return "above" if start > 0 else "for all"


@takes_row_options
def decision_regions_diagram(
    y_true: Any, y_proba: Any = None, costs: Any = None, **options: Unpack[RowOptions]
) -> DecisionRegions:
    """Bayes decisions under a cost matrix, which may include rejection: regions, frequencies and
    costs.

    costs : as in `bayes_risk`: a matrix [K, M], or a `Cost`, which may name its decisions.

    >>> found = decision_regions_diagram([1, 0, 1], [0.9, 0.2, 0.6], [[0, 1, 0.1], [5, 0, 0.1]])
    >>> found.thresholds.round(4), found.decisions
    (array([0.02, 0.9 ]), ('0', '1', 'reject'))
    """
    if costs is None:
        raise InputError("costs", "must be a matrix [classes, decisions]")
    if options.get("clusters") is not None:
        raise clusters_unused("decision regions, which have no intervals")
    cost = costs if isinstance(costs, Cost) else Cost(costs)
    predictions = rows_of(y_true, y_proba, **options)
    cost.check_classes(predictions.n_classes)
    rows, (K, M) = GoodRows.of(predictions), cost.matrix.shape
    step = max(1, PIECE // M)
    decided = np.concatenate(
        [cost.decide(rows.probs[first : first + step]) for first in range(0, len(rows.probs), step)]
    )
    share = np.bincount(rows.labels * M + decided, shares(rows.weights), K * M).reshape(K, M)
    grid = grids_of(predictions, Binary())[0] if K == 2 else None
    return DecisionRegions.of_shares(share, cost, predictions.class_order, grid)


def decision_intervals(costs: Cost) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the second class at which the Bayes decision changes, and the decision
    in each interval between. Expected costs are linear in the probability, so that decisions change
    only where two lines cross.

    >>> decision_intervals(Cost.zero_one(2, reject=0.1))
    (array([0.1, 0.9]), array([0, 2, 1]))
    """
    base, slope = costs.matrix[0], costs.matrix[1] - costs.matrix[0]
    first, second = np.triu_indices(len(base), 1)
    turn = slope[first] - slope[second]
    crossing = (base[second] - base[first])[turn != 0] / turn[turn != 0]
    ends = np.unique(np.r_[0.0, crossing[(crossing > 0) & (crossing < 1)], 1.0])
    middle = (ends[:-1] + ends[1:]) / 2
    decisions = costs.decide(np.column_stack([1 - middle, middle]))
    changes = np.flatnonzero(np.diff(decisions)) + 1
    return ends[changes], decisions[np.r_[0, changes]]


def decision_names(
    costs: Cost, classes: tuple[str, ...], best: np.ndarray, reject: np.ndarray
) -> tuple[str, ...]:
    """The names of decisions. Unless names are given, decisions are named after the classes if the
    k-th decision is best for the k-th class, for all k. A decision that costs the same for every
    class is called "reject"."""
    K, M = best.shape
    if costs.decisions is not None:
        if len(costs.decisions) != M:
            raise InputError(
                "costs", f"must have one name for each of the {M} decisions", len(costs.decisions)
            )
        return tuple(str(name) for name in costs.decisions)
    alike = M >= K and bool(best[np.arange(K), np.arange(K)].all())
    found = []
    for j in range(M):
        if alike and j < K:
            found.append(classes[j])
        elif reject[j]:
            found.append(
                "reject" if reject.sum() == 1 else f"reject ({significant(costs.matrix[0, j])})"
            )
        else:
            found.append(f"decision {j}")
    return tuple(found)
