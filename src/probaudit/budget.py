"""The loss budget: expected score = calibration + grouping + the rest (papers 1 and 2, by the law of total variance)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from .calibration_loss import calibration_loss
from .engines.choosing import Passing, as_source
from .errors import InputError
from .estimates.clusters import ClusteredRows
from .estimates.estimate import Estimate
from .estimates.region_table import Region
from .estimates.scores import Z95, estimate_score
from .features import features_of
from .grouping_loss import GroupingLoss, grouping_loss
from .lenses import Classwise, Lens, TopLabel
from .metrics import RowOptions, rows_of
from .predictions import Predictions
from .regions import WHOLE
from .scores import NAMED
from .selecting import select_calibrator
from .statistics.evidence import Others
from .viewing import look, survey

if TYPE_CHECKING:
    from .calibrators.base import Calibrator

ENOUGH_ROWS = 500  # of the average class, for a budget over all classes
MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Budget:
    """Where the expected score goes. `total` is `calibration` + `grouping` + `rest`, exactly.

    total : the mean score: over all classes, of the whole forecast; else of the event that the lens shows (Brier: (p - y)^2).
    calibration : what a perfect map of the outputs would remove (a calibrator could).
    grouping : what more the regions of the features show to be lost, at least: a lower bound (a better model could).
    rest : irreducible noise, and grouping loss that the regions do not see.
    found : the grouping loss it rests on, with its table of regions.
    after : the same after calibration, out of fold.
    """

    total: Estimate
    calibration: Estimate
    grouping: Estimate
    rest: Estimate
    found: GroupingLoss
    definition: str
    after: Budget | None = None

    def __repr__(self) -> str:
        lines = [self.definition]
        names = ("calibration", "grouping", "rest", "total")
        budgets = [self] if self.after is None else [self, self.after]
        lines.append(f"{'':24}" + "".join(f"{name:>34}" for name in ("as it is", "after calibration")[: len(budgets)]))
        for name in names:
            label = {"grouping": "grouping (at least)"}.get(name, name)
            lines.append(f"{label:24}" + "".join(f"{_cell(getattr(b, name), b.total):>34}" for b in budgets))
        return "\n".join(lines)

    def badly_served(self, most: int) -> list[Region]:
        """The regions whose stated probability is found to be wrong, the largest losses first. Of two classes, which mirror
        each other, the second's. A bin of outputs that was not parted is left out: that it is wrong is miscalibration."""
        table, classes = self.found.regions, list(self.found.lower_bound.per_class)
        whole = {WHOLE, *(f"class {name}: {WHOLE}" for name in classes)}
        mirrored = f"class {classes[0]}: " if len(classes) == 2 else None
        found: list[Region] = []
        for place in np.flatnonzero(table.verdict != ""):
            region = table[int(place)]
            if len(found) < most and region.rule not in whole and not (mirrored and region.rule.startswith(mirrored)):
                found.append(region)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        parts = {name: getattr(self, name).to_dict() for name in ("total", "calibration", "grouping", "rest")}
        return parts | {"definition": self.definition, "after": None if self.after is None else self.after.to_dict()}


def _cell(part: Estimate, total: Estimate) -> str:
    span = f" [{part.low:.4f}, {part.high:.4f}]" if math.isfinite(part.low) else ""
    share = f" {part / total:4.0%}" if total else ""
    return f"{float(part):.4f}{span}{share}"


def loss_budget(
    y_true: Any,
    y_proba: Any = None,
    features: Any = None,
    *,
    score: Literal["brier", "log"] = "brier",
    lens: Lens | None = None,
    calibrator: Calibrator | Literal["best", "none"] | None = None,
    bins: Any = 15,
    regions: Any = "tree",
    region_ratio: float = 30,
    resamples: int = 200,
    seed: int = 0,
    others: Others | None = None,
    **options: Unpack[RowOptions],
) -> Budget:
    """How the expected score splits into what calibration, a better use of the features, and nothing known would remove.

    features, bins, regions, region_ratio, resamples, others : as in `grouping_loss`. With others, the budget after calibration
        is that of the sample; so is the total of a single event.
    lens : `Classwise()`, whose budget is that of the full score, if there are at most 20 classes with 500 rows each on average;
        else `TopLabel()`. A budget says which.
    calibrator : for the budget after calibration, which is cross-validated; as in `calibration_loss`; "best" for the one that
        `select_calibrator` takes; "none" to leave that budget out.

    Calibration and grouping are estimated without what chance adds, so that either may come out slightly below zero. The rest
    is what remains of the total, so that the sum is exact; its interval takes the three as independent.

    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(4000)
    >>> found = loss_budget(world.y, world.scores, world.features, calibrator="none", resamples=20)
    >>> abs(found.calibration + found.grouping + found.rest - found.total) < 1e-12
    True
    """
    if score not in NAMED:
        raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
    if (source := as_source(y_true, y_proba, **options)) is not None:
        evidence = Passing().evidence(source)
        predictions, others = evidence.sample, evidence.others
    else:
        predictions = rows_of(y_true, y_proba, **options)
    chosen = budget_lens(predictions) if lens is None else lens
    choices = {"bins": bins, "regions": regions, "region_ratio": region_ratio, "resamples": resamples, "seed": seed}
    features = features_of(predictions) if features is None else features
    now = _budget(predictions, features, score, chosen, choices, others)
    if calibrator == "none":
        return now
    if calibrator == "best":
        calibrator = select_calibrator(predictions, score=score, seed=seed).calibrator
    elif isinstance(calibrator, str):
        raise InputError("calibrator", 'must be a calibrator, None, "best" or "none"', repr(calibrator))
    repaired = calibration_loss(predictions, calibrator=calibrator, seed=seed, interval=None)
    rows = repaired.rows
    weights = None if predictions.sample_weight is None else predictions.sample_weight[rows]
    after = Predictions(
        predictions.codes[rows],
        np.clip(repaired.posteriors, 0, 1),
        sample_weight=weights,
        clusters=None if predictions.clusters is None else predictions.clusters[rows],
        columns=None if predictions.columns is None else {name: column[rows] for name, column in predictions.columns.items()},
    )
    later = _budget(after, None if features is None else _taken(features, rows), score, chosen, choices)
    return Budget(now.total, now.calibration, now.grouping, now.rest, now.found, now.definition, later)


def budget_lens(predictions: Predictions) -> Lens:
    """All classes where there are rows enough for each; else the top label."""
    K = predictions.n_classes
    enough = K <= MOST_CLASSES and len(survey(predictions).good) >= ENOUGH_ROWS * K
    return Classwise() if enough and not predictions.pairs else TopLabel()


def _taken(features: Any, rows: np.ndarray) -> Any:
    """Some rows of features, in whatever form they come."""
    if isinstance(features, dict):
        return {name: np.asarray(column)[rows] for name, column in features.items()}
    if hasattr(features, "iloc"):
        return features.iloc[rows]
    return features[rows] if hasattr(features, "__getitem__") else np.asarray(features)[rows]


def _budget(
    predictions: Predictions, features: Any, score: Any, lens: Lens, choices: dict[str, Any], others: Others | None = None
) -> Budget:
    found = grouping_loss(predictions, features=features, lens=lens, score=score, others=others, **choices)
    if others is not None and isinstance(lens, Classwise):
        good, clustered = survey(predictions).good, None
        if predictions.clusters is not None:
            clustered = ClusteredRows(predictions, good, len(good) / others.summary.rows)
        total = estimate_score(others.summary, NAMED[score], clustered=clustered)
    else:
        total = _total(predictions, score, lens)
    rest = float(total) - float(found.calibration_loss) - float(found.lower_bound)
    parts = (total, found.calibration_loss, found.lower_bound)
    half = math.sqrt(sum(((part.high - part.low) / 2) ** 2 for part in parts))
    words = f"loss budget of the {score} score, {lens!r}"
    remainder = Estimate(rest, low=rest - half, high=rest + half, n=total.n, definition=f"the rest, {words}")
    return Budget(total, found.calibration_loss, found.lower_bound, remainder, found, words)


def _total(predictions: Predictions, score: str, lens: Lens) -> Estimate:
    """The mean score: of the whole forecast over all classes, or of the event alone."""
    views = look(predictions, lens)
    rule = NAMED[score]
    if isinstance(lens, Classwise):
        share = views[0].weights / views[0].weights.sum()
        values = rule.score(np.column_stack([seen.view.outputs for seen in views]), predictions.codes[views[0].rows])
    else:
        (seen,) = views
        share, p = seen.weights / seen.weights.sum(), np.clip(seen.view.outputs, 0, 1)
        values = rule.one_dimensional().divergence(seen.view.labels, p)
    mean = float(share @ values)
    half = Z95 * float(np.sqrt((share**2 * (values - mean) ** 2).sum())) if math.isfinite(mean) else math.nan
    if predictions.clusters is not None:
        half *= ClusteredRows(predictions, views[0].rows).clusters.widening(values - mean)
    return Estimate(mean, low=mean - half, high=mean + half, n=len(values), definition=f"mean {score} score, {lens!r}")
