"""The loss budget: expected score = calibration + grouping + the rest (papers 1 and 2, by the law
of total variance)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration.paired import half_width, mean_influence, paired_counts, quantile, unit_terms
from ..calibration.resampling import percentile, sampling_units
from ..calibration.views import lens_rows
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.selecting import select_calibrator
from ..choices.lenses import Binary, Classwise, Full, Lens, OneVsRest, TopLabel
from ..choices.scores import NAMED
from ..data.arrays import as_array, named_columns
from ..data.inputs import RowOptions, rows_of
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.expected_scores import estimate_score
from ..states.evidence import Others
from .features import features_of
from .level_sets import PARTS
from .loss import GroupingLoss, grouping_loss
from .region_table import Region
from .regions import WHOLE

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

ENOUGH_ROWS = 500  # of the average class, for a budget over all classes
MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Budget:
    """Where the expected score goes. `total` is `calibration` + `grouping` + `rest`, exactly.

    total : the mean score: over all classes, of the whole forecast; else of the event that the lens
        shows (Brier: (p - y)^2).
    calibration : what a calibrator removed on rows it was not fitted to (`removed`), plus the
        calibration loss still left after it.
    grouping : a lower bound of what more is lost because rows with the same recalibrated output
        differ (a better model could remove it).
    rest : irreducible noise, and grouping loss that the regions do not see.
    removed : the score of the outputs less that of the recalibrated ones, paired; `calibrator`
        names the calibrator ("" if the outputs were not recalibrated).
    score, lens : which score is split, and what it is of: the whole forecast, or one event.
    found : the grouping loss of the recalibrated outputs, with its table of regions.
    after : the budget of the recalibrated outputs: the same grouping and the same rest.
    """

    total: Estimate
    calibration: Estimate
    grouping: Estimate
    rest: Estimate
    score: str
    lens: Lens
    found: GroupingLoss
    definition: str
    removed: Estimate
    calibrator: str = ""
    after: Budget | None = None

    def __repr__(self) -> str:
        lines = [self.definition]
        names = ("calibration", "grouping", "rest", "total")
        budgets = [self] if self.after is None else [self, self.after]
        titles = ("original", "after calibration")[: len(budgets)]
        lines.append(f"{'':24}" + "".join(f"{name:>34}" for name in titles))
        for name in names:
            label = {"grouping": "grouping (at least)"}.get(name, name)
            lines.append(
                f"{label:24}" + "".join(f"{_cell(getattr(b, name), b.total):>34}" for b in budgets)
            )
        return "\n".join(lines)

    def badly_served(self, most: int) -> list[Region]:
        """The regions whose recalibrated probability is wrong, the largest losses first. Of two
        classes, which mirror each other, the second's. A bin of outputs that was not split is left
        out: that it is wrong is miscalibration."""
        table, classes = self.found.regions, list(self.found.lower_bound.per_class)
        whole = {WHOLE, *(f"class {name}: {WHOLE}" for name in classes)}
        mirrored = f"class {classes[0]}: " if len(classes) == 2 else None
        found: list[Region] = []
        for place in np.flatnonzero(table.verdict != ""):
            region = table[int(place)]
            if (
                len(found) < most
                and region.rule not in whole
                and not (mirrored and region.rule.startswith(mirrored))
            ):
                found.append(region)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("total", "calibration", "grouping", "rest", "removed")
        parts: dict[str, Any] = {name: getattr(self, name).to_dict() for name in names}
        parts |= {"calibrator": self.calibrator, "definition": self.definition}
        return parts | {"after": None if self.after is None else self.after.to_dict()}


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
    calibrator: Calibrator | CalibrationLoss | Literal["best", "none"] | None = None,
    bins: Any = 15,
    regions: Any = "tree",
    region_ratio: float = 30,
    resamples: int = 200,
    seed: int = 0,
    others: Others | None = None,
    **options: Unpack[RowOptions],
) -> Budget:
    """How the expected score splits into what calibration, a better use of the features, and
    nothing known would remove.

    The outputs are recalibrated out of fold, and the grouping loss is that of the recalibrated
    outputs, as Perez-Lebel et al. 2023 (Section 5) do with isotonic regression. Of several classes,
    rows are binned by the probability of one class at a time; without recalibration, rows of one
    bin that differ in their other probabilities would make repairable miscalibration look like
    grouping.

    calibration = (score before - score after) + calibration loss left after; grouping and rest are
    those of the recalibrated outputs, so that the budgets before and after agree by construction.

    features, bins, regions, region_ratio, resamples : as in `grouping_loss`.
    lens : `Classwise()`, whose budget is that of the full score, if there are at most 20 classes
        with 500 rows each on average; else `TopLabel()`. A budget says which. The event stays that
        of the original outputs.
    calibrator : as in `calibration_loss`, whose default is not used where rows are too few for
        folds; "best" for the one that `select_calibrator` takes without features; what
        `calibration_loss` returned; or "none" for the budget of the outputs themselves, which of
        several classes may count miscalibration as grouping.
    others : the rows of which these are a sample, see `grouping_loss`. With a calibrator the budget
        is that of the sample.

    Calibration left and grouping are estimated without their finite-sample bias, so that either may
    come out slightly below zero. Intervals resample rows (or clusters), all parts together, with
    calibrators and regions held fixed.

    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(4000)
    >>> found = loss_budget(world.y, world.scores, world.features, resamples=20)
    >>> abs(found.calibration + found.grouping + found.rest - found.total) < 1e-12
    True
    >>> found.calibrator, float(found.rest) == float(found.after.rest)
    ('BiasCorrectedTemperature', True)
    """
    if score not in NAMED:
        raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
    if isinstance(calibrator, str) and calibrator not in ("best", "none"):
        raise InputError(
            "calibrator", 'must be a calibrator, None, "best" or "none"', repr(calibrator)
        )
    if (
        calibrator is not None
        and not isinstance(calibrator, (str, CalibrationLoss))
        and calibrator.takes is not None
    ):
        rule = f"must not take {calibrator.takes}: what it removes is not miscalibration alone"
        raise InputError("calibrator", rule, type(calibrator).__name__)
    sample_words = ""
    if (source := as_source(y_true, y_proba, **options)) is not None:
        evidence = Passing().evidence(source)
        predictions, others = evidence.sample, evidence.others
        sample_words = evidence.sample_words
    else:
        predictions = rows_of(y_true, y_proba, **options)
    lens = budget_lens(predictions) if lens is None else lens
    features = features_of(predictions) if features is None else features
    choices: dict[str, Any] = {"bins": bins, "regions": regions, "region_ratio": region_ratio}
    choices |= {"resamples": resamples, "seed": seed}
    if calibrator is None:
        calibrator = _usual_calibration(predictions, seed)
    if calibrator == "none":
        judged = _Judged.of(predictions, None, lens, score)
        # All parts are of the same rows: of a single event the total, and of clusters the grouping
        # loss, are the sample's.
        others = others if isinstance(lens, Classwise) and predictions.clusters is None else None
        found = grouping_loss(
            predictions, features=features, lens=lens, score=score, others=others, **choices
        )
        total = None if others is None else estimate_score(others.summary, NAMED[score])
        return _budget(
            judged, found, score, lens, sample_words if others is None else "", choices, total
        )
    if calibrator == "best":
        calibrator = select_calibrator(
            replace(predictions, features=None), score=score, seed=seed
        ).calibrator
    if not isinstance(calibrator, CalibrationLoss):
        calibrator = calibration_loss(predictions, calibrator=calibrator, seed=seed, interval=None)
    judged = _Judged.of(predictions, calibrator, lens, score)
    features = None if features is None else _taken(features, judged.places)
    found = grouping_loss(judged.rows, features=features, lens=judged.lens, score=score, **choices)
    return _budget(judged, found, score, lens, sample_words, choices, None)


def _usual_calibration(predictions: Predictions, seed: int) -> CalibrationLoss | Literal["none"]:
    """The usual calibrator out of fold; "none" where the rows cannot be split into folds."""
    try:
        return calibration_loss(predictions, seed=seed, interval=None)
    except InputError as problem:
        if problem.argument != "cv":
            raise
        return "none"


def budget_lens(predictions: Predictions) -> Lens:
    """All classes where there are rows enough for each; else the top label."""
    K = predictions.n_classes
    enough = K <= MOST_CLASSES and len(survey(predictions).good) >= ENOUGH_ROWS * K
    return Classwise() if enough and not predictions.pairs else TopLabel()


def _taken(features: Any, rows: np.ndarray) -> Any:
    """Some rows of features, in whatever form they come."""
    columns = named_columns(features, "features")
    if columns is not None:
        return {name: column[rows] for name, column in columns.items()}
    return as_array(features, "features")[rows]


@dataclass(frozen=True, eq=False)
class _Judged:
    """The rows whose grouping loss is measured, and the score of each before and after
    recalibration.

    rows, lens : recalibrated (or original) outputs, and the lens that shows the event in them.
    places : of these rows among all. share : of each row in the mean, 0 for bad rows.
    calibrator : its name, "" for none.
    """

    rows: Predictions
    lens: Lens
    places: np.ndarray
    before: np.ndarray
    after: np.ndarray
    share: np.ndarray
    calibrator: str = ""

    @classmethod
    def of(
        cls, predictions: Predictions, repaired: CalibrationLoss | None, lens: Lens, score: str
    ) -> _Judged:
        if repaired is None:
            scores, share = _scores(predictions, score, lens)
            return cls(predictions, lens, np.arange(len(predictions)), scores, scores, share)
        before, share = _scores(predictions.take(repaired.rows), score, lens)
        rows, inner = _recalibrated(predictions, repaired, lens)
        after, _ = _scores(rows, score, inner)
        return cls(rows, inner, repaired.rows, before, after, share, repaired.calibrator)

    def mean(self, values: np.ndarray, definition: str) -> Estimate:
        """A mean over rows with its interval by linearisation, by cluster where rows have
        clusters."""
        value = math.inf if np.isinf(values).any() else float(self.share @ values)
        influence = mean_influence(values, self.share)
        terms = unit_terms(influence, self.share, self.rows.cluster_numbers)
        half = half_width(terms, quantile(self.rows.cluster_numbers))
        n = int((self.share > 0).sum())
        return Estimate(value, low=value - half, high=value + half, n=n, definition=definition)

    def resampled(self, values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Means of values in the resamples that `grouping_loss` takes."""
        units = sampling_units(len(self.share), seed, self.rows.cluster_numbers)
        counts = paired_counts(int(units.max()) + 1, resamples, seed)[1:]
        with np.errstate(invalid="ignore"):
            sums = np.bincount(units, self.share * values)
            return np.asarray(counts @ sums / (counts @ np.bincount(units, self.share)))


def _recalibrated(
    predictions: Predictions, repaired: CalibrationLoss, lens: Lens
) -> tuple[Predictions, Lens]:
    """The recalibrated rows, and the lens that shows in them the event of the original outputs."""
    posteriors, original = np.clip(repaired.posteriors, 0, 1), predictions.take(repaired.rows)
    kept: dict[str, Any] = {
        name: getattr(original, name) for name in ("sample_weight", "columns", "clusters")
    }
    if isinstance(lens, TopLabel) and not predictions.pairs:
        # The event is that the class which the original outputs chose is right, also where the
        # recalibrated outputs would choose another.
        chosen = original.probabilities().argmax(axis=1)
        confidence = posteriors[np.arange(len(chosen)), chosen]
        return Predictions.from_confidence(confidence, original.codes == chosen, **kept), lens
    if predictions.pairs:
        return Predictions.from_confidence(posteriors[:, 1], original.codes == 1, **kept), lens
    if not isinstance(lens, (Full, Classwise, OneVsRest, Binary)):
        rule = "recalibration may change the event; use Classwise(), TopLabel(), OneVsRest(c) or Binary()"
        raise InputError("lens", f'{rule}, or calibrator="none"', repr(lens))
    return Predictions(original.codes, posteriors, tolerance=1e-6, **kept), lens


def _scores(predictions: Predictions, score: str, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """The score of each row, of the whole forecast or of the event alone, and the share of each.

    Rows that do not count have a share of 0.
    """
    views, rule = lens_rows(predictions, lens), NAMED[score]
    first = views[0]
    if isinstance(lens, (Full, Classwise)):
        outputs = (
            first.view.outputs
            if len(views) == 1
            else np.column_stack([seen.view.outputs for seen in views])
        )
        values = rule.score(outputs, predictions.codes[first.rows])
    else:
        values = rule.one_dimensional().divergence(
            first.view.labels, np.clip(first.view.outputs, 0, 1)
        )
    scores, share = np.zeros((2, len(predictions)))
    scores[first.rows], share[first.rows] = values, first.weights / first.weights.sum()
    return scores, share


def _budget(
    judged: _Judged,
    found: GroupingLoss,
    score: str,
    lens: Lens,
    words: str,
    choices: dict[str, Any],
    total: Estimate | None,
) -> Budget:
    """The budget, and that of the recalibrated outputs if there are any.

    total : of all rows, if these are a sample of which `found` has counted all; then no resample
        has all parts, and the interval of the rest takes them as independent.
    """
    how = (
        f"recalibrated by {judged.calibrator} out of fold"
        if judged.calibrator
        else "not recalibrated"
    )
    words = f"loss budget of the {score} score, {lens!r}, {how}{words}"
    left, grouping = found.calibration_loss, found.lower_bound
    before = judged.mean(judged.before, f"total, {words}") if total is None else total
    after = (
        judged.mean(judged.after, f"total after recalibration, {words}")
        if judged.calibrator
        else before
    )
    with np.errstate(invalid="ignore"):
        removed = judged.mean(judged.before - judged.after, f"removed by recalibration, {words}")
    rest = Estimate(after - left - grouping, n=after.n, definition=f"the rest, {words}")
    calibration = Estimate(removed + left, n=after.n, definition=f"calibration, {words}")
    if total is None and found.deviations is not None:
        deviations = dict(zip(PARTS, found.deviations.T, strict=True))
        resampled = [
            judged.resampled(x, choices["resamples"], choices["seed"])
            for x in (judged.before, judged.after)
        ]
        old, new = (x - x.mean() for x in resampled)
        _set_interval(calibration, old - new + deviations["calibration_loss"])
        _set_interval(rest, new - deviations["calibration_loss"] - deviations["lower_bound"])
    else:
        half = math.sqrt(
            sum(((part.high - part.low) / 2) ** 2 for part in (before, left, grouping))
        )
        rest.low, rest.high, calibration.low, calibration.high = (
            rest - half,
            rest + half,
            left.low,
            left.high,
        )
    if not judged.calibrator:
        return Budget(before, left, grouping, rest, score, lens, found, words, removed)
    none = Estimate(0.0, n=after.n, definition="nothing removed")
    later = Budget(
        after, left, grouping, rest, score, lens, found, f"{words}, after recalibration", none
    )
    return Budget(
        before,
        calibration,
        grouping,
        rest,
        score,
        lens,
        found,
        words,
        removed,
        judged.calibrator,
        later,
    )


def _set_interval(x: Estimate, deviations: np.ndarray) -> None:
    finite = deviations[np.isfinite(deviations)]
    if math.isfinite(x) and len(finite):
        x.low, x.high = percentile(finite + float(x))
