"""The loss budget: expected score = calibration + grouping + rest (Perez-Lebel et al. 2023; Ferrer
& Ramos 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration.resampling import (
    draw_units,
    half_width,
    mean_influence,
    percentile,
    quantile,
    sampling_units,
    unit_terms,
)
from ..calibration.views import lens_rows
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.selection import select_calibrator
from ..choices.definitions import Definition
from ..choices.lenses import Binary, Classwise, Full, Lens, OneVsRest, TopLabel, checked_lens
from ..choices.scores import NAMED, as_score
from ..data.arrays import as_array, data_frame, named_columns
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import Argument, InputError
from ..estimate import Estimate
from ..scoring.expected_scores import estimate_score
from ..states.evidence import Others
from ..text import ShownAsTable, TextTable, interval_text, number, percent
from .event_loss import PARTS
from .features import features_of
from .loss import GroupingLoss, grouping_loss
from .region_table import Region

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator

ENOUGH_ROWS = 500  # of the average class, for a budget over all classes
MOST_CLASSES = 20
LABELS = {
    "calibration": "calibration",
    "grouping": "hidden groups (at least)",
    "rest": "the rest",
    "total": "total",
}


@dataclass(frozen=True, eq=False, repr=False)
class Budget(ShownAsTable):
    """The parts of the expected score. `total` is `calibration` + `grouping` + `rest`, exactly.

    total : the mean score, of the whole forecast or of the event of the lens (Brier: (p - y)^2).
    calibration : what a calibrator removes from rows it was not fitted to (`removed`), plus the
        calibration loss left after it.
    grouping : a lower bound of the loss to hidden groups: rows with the same recalibrated output
        and different probabilities. A better model could remove it. If the calibrator used features
        or groups, it removed part of this loss, and `grouping` is what is left.
    rest : irreducible noise, and grouping loss that the regions do not reveal.
    removed : the score of the outputs minus that of the recalibrated outputs, paired.
    calibrator, calibrator_words : the class of the calibrator, and its name for people; "" if the
        outputs were not recalibrated.
    score, lens : the score, and whether it is that of the whole forecast or of one event.
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
    calibrator_words: str = ""
    after: Budget | None = None

    def _text_table(self) -> TextTable:
        budgets = [self] if self.after is None else [self, self.after]
        titles = ("original", "after calibration")[: len(budgets)]
        by = f", recalibrated by {self.calibrator_words} out of fold" if self.calibrator else ""
        rows = [
            [label, *(cell for one in budgets for cell in _budget_cells(getattr(one, part), one))]
            for part, label in LABELS.items()
        ]
        headers = [name for title in titles for name in (title, "95% interval", "share")]
        return TextTable(f"Loss budget of the {self.score_words()}{by}", ["", *headers], rows)

    def to_frame(self) -> Any:
        """A row for each part, before and after calibration, as a pandas DataFrame."""
        budgets = {"original": self} | ({} if self.after is None else {"calibrated": self.after})
        lines = [
            (stage, part, float(x), x.low, x.high)
            for stage, one in budgets.items()
            for part, x in ((name, getattr(one, name)) for name in LABELS)
        ]
        names = ("outputs", "part", "value", "low", "high")
        return data_frame(dict(zip(names, map(list, zip(*lines, strict=True)), strict=True)))

    def misjudged(self, most: int) -> list[Region]:
        """The groups that the model misjudges after recalibration, the largest losses first.

        Two classes mirror each other, so only regions of the second are listed. Bins that were not
        split are left out: their error is miscalibration.
        """
        table, classes = self.found.regions, list(self.found.lower_bound.per_class)
        mirrored = classes[:1] if len(classes) == 2 else []
        regions = (table[int(place)] for place in np.flatnonzero(table.verdict != ""))
        wrong = (region for region in regions if region.split and region.of_class not in mirrored)
        return list(islice(wrong, most))

    def score_words(self, *, pairs: bool = False) -> str:
        """The score in words: that of the whole forecast, or of the lens's event."""
        score = as_score(self.score).words()
        if isinstance(self.lens, (Classwise, Full)):
            return score
        return f"{score} of the {self.lens.words(pairs=pairs)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("total", "calibration", "grouping", "rest", "removed")
        parts: dict[str, Any] = {name: getattr(self, name).to_dict() for name in names}
        parts |= {"calibrator": self.calibrator, "definition": self.definition}
        return parts | {"after": None if self.after is None else self.after.to_dict()}


def _budget_cells(part: Estimate, budget: Budget) -> list[str]:
    """A part, its interval and its share of the total."""
    share = percent(part / budget.total) if budget.total else ""
    return [number(part), interval_text(part.low, part.high), share]


@takes_row_options
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
    """Split the expected score into the part that recalibration removes, the part that a better use
    of the features could remove, and the rest.

    The outputs are recalibrated out of fold, and the grouping loss is that of the recalibrated
    outputs. Perez-Lebel et al. 2023 (Section 5) do so with isotonic regression. With several
    classes, rows are binned by the probability of one class at a time. Without recalibration, rows
    of a bin that differ in the other probabilities would make miscalibration look like grouping
    loss.

    calibration = (score before - score after) + calibration loss left after. Grouping and rest are
    those of the recalibrated outputs, so the budgets before and after agree by construction.

    features, bins, regions, region_ratio, resamples : as in `grouping_loss`.
    lens : `Classwise()`, whose budget is that of the full score, if there are at most 20 classes
        with 500 rows each on average; else `TopLabel()`. The definition of a budget names it. The
        event is that of the original outputs.
    calibrator : as in `calibration_loss`, whose default is skipped if there are too few rows for
        folds; "best" for the choice of `select_calibrator` without features; a result of
        `calibration_loss`, by any calibrator; or "none" for the budget of the original outputs,
        which with several classes may count miscalibration as grouping loss.
    others : all rows, if these are a sample of them, see `grouping_loss`. With a calibrator, the
        budget is that of the sample.

    The remaining calibration loss and the grouping loss are corrected for finite-sample bias, so
    either may be slightly below zero. Intervals resample rows (or clusters), all parts together,
    with fixed calibrators and regions.

    >>> from probaudit.simulate import neural_outputs
    >>> world = neural_outputs(4000)
    >>> found = loss_budget(world.y, world.scores, world.features, resamples=20)
    >>> abs(found.calibration + found.grouping + found.rest - found.total) < 1e-12
    True
    >>> found.calibrator, float(found.rest) == float(found.after.rest)
    ('BiasCorrectedTemperature', True)
    """
    _check_options(score, calibrator)
    sample_words = ""
    if (source := as_source(y_true, y_proba, **options)) is not None:
        evidence = Passing().evidence(source)
        predictions, others = evidence.sample, evidence.others
        sample_words = evidence.sample_words
    else:
        predictions = rows_of(y_true, y_proba, **options)
        predictions.check_index("features", features)
    lens = budget_lens(predictions) if lens is None else checked_lens(lens)
    features = features_of(predictions) if features is None else features
    choices: dict[str, Any] = {"bins": bins, "regions": regions, "region_ratio": region_ratio}
    choices |= {"resamples": resamples, "seed": seed}
    recalibration = _recalibration(predictions, calibrator, score, seed)
    scored = _ScoredRows.of(predictions, recalibration, lens, score)
    if recalibration is not None:
        features = None if features is None else _taken(features, scored.places)
        others = None
    # All parts must be of the same rows. For a single event the total is that of the sample, and
    # with clusters so is the grouping loss.
    elif not isinstance(lens, Classwise) or predictions.clusters is not None:
        others = None
    found = grouping_loss(
        scored.rows, features=features, lens=scored.lens, score=score, others=others, **choices
    )
    total = None if others is None else estimate_score(others.summary, NAMED[score])
    how = "not recalibrated"
    if scored.calibrator:
        name = Definition.of_name(scored.calibrator, scored.calibrator_words)
        how = "recalibrated by " + name + " out of fold"
    words = Definition(f"loss budget of the {as_score(score).words()}", lens, how)
    words += sample_words if others is None else ""
    return _assemble_budget(scored, found, words, score=score, lens=lens, total=total, **choices)


def _check_options(score: Any, calibrator: Any) -> None:
    if score not in NAMED:
        raise InputError("score", f"must be one of {', '.join(NAMED)}", repr(score))
    if calibrator is None or isinstance(calibrator, CalibrationLoss):
        return
    if isinstance(calibrator, str):
        if calibrator not in ("best", "none"):
            rule = 'must be a calibrator, None, "best" or "none"'
            raise InputError("calibrator", rule, repr(calibrator))
    elif calibrator.takes:
        used = " or ".join(calibrator.takes)
        rule = f"must not use {used}, as it would remove more than miscalibration"
        raise InputError("calibrator", rule, type(calibrator).__name__)


def _recalibration(
    predictions: Predictions, calibrator: Any, score: str, seed: int
) -> CalibrationLoss | None:
    """The recalibrated outputs; None to leave the outputs uncalibrated."""
    if isinstance(calibrator, CalibrationLoss):
        return calibrator
    if calibrator is None:
        return _default_recalibration(predictions, seed)
    if isinstance(calibrator, str) and calibrator == "none":
        return None
    if isinstance(calibrator, str):
        plain = replace(predictions, features=None)
        calibrator = select_calibrator(plain, score=score, seed=seed).calibrator
    return calibration_loss(predictions, calibrator=calibrator, seed=seed, interval=None)


def _default_recalibration(predictions: Predictions, seed: int) -> CalibrationLoss | None:
    """The default calibrator out of fold; None if the rows cannot be split into folds."""
    try:
        return calibration_loss(predictions, seed=seed, interval=None)
    except InputError as problem:
        if problem.argument != "cv":
            raise
        return None


def budget_lens(predictions: Predictions) -> Lens:
    """All classes if there are enough rows for each; else the top label."""
    K = predictions.n_classes
    enough = K <= MOST_CLASSES and len(survey(predictions).good) >= ENOUGH_ROWS * K
    return Classwise() if enough and not predictions.pairs else TopLabel()


def _taken(features: Any, rows: np.ndarray) -> Any:
    """The features of some rows, in any supported form."""
    columns = named_columns(features, "features")
    if columns is not None:
        return {name: column[rows] for name, column in columns.items()}
    return as_array(features, "features")[rows]


@dataclass(frozen=True, eq=False)
class _ScoredRows:
    """The rows of a budget, and the score of each before and after recalibration.

    rows, lens : recalibrated (or original) outputs, and the lens for their event.
    places : the positions of these rows among all.
    share : the share of each row in the mean; 0 for bad rows.
    calibrator, calibrator_words : see `Budget`.
    """

    rows: Predictions
    lens: Lens
    places: np.ndarray
    before: np.ndarray
    after: np.ndarray
    share: np.ndarray
    calibrator: str = ""
    calibrator_words: str = ""

    @classmethod
    def of(
        cls, predictions: Predictions, repaired: CalibrationLoss | None, lens: Lens, score: str
    ) -> _ScoredRows:
        if repaired is None:
            scores, share = _row_scores(predictions, score, lens)
            return cls(predictions, lens, np.arange(len(predictions)), scores, scores, share)
        before, share = _row_scores(predictions.take(repaired.rows), score, lens)
        rows, inner = _recalibrated(predictions, repaired, lens)
        after, _ = _row_scores(rows, score, inner)
        return cls(
            rows=rows,
            lens=inner,
            places=repaired.rows,
            before=before,
            after=after,
            share=share,
            calibrator=repaired.calibrator,
            calibrator_words=repaired.calibrator_words,
        )

    def mean(self, values: np.ndarray, definition: str) -> Estimate:
        """A mean over rows with its interval by linearisation, cluster-robust if there are
        clusters."""
        value = math.inf if np.isinf(values).any() else float(self.share @ values)
        influence = mean_influence(values, self.share)
        terms = unit_terms(influence, self.share, self.rows.cluster_numbers)
        half = half_width(terms, quantile(self.rows.cluster_numbers))
        n = int((self.share > 0).sum())
        return Estimate(value, low=value - half, high=value + half, n=n, definition=definition)

    def deviations(self, values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
        """Means of values in the resamples that `grouping_loss` takes, minus their mean."""
        units = sampling_units(len(self.share), seed, self.rows.cluster_numbers)
        counts = draw_units(int(units.max()) + 1, resamples, seed)
        with np.errstate(invalid="ignore"):
            sums = np.bincount(units, self.share * values)
            means = np.asarray(counts @ sums / (counts @ np.bincount(units, self.share)))
            return means - means.mean()


def _recalibrated(
    predictions: Predictions, repaired: CalibrationLoss, lens: Lens
) -> tuple[Predictions, Lens]:
    """The recalibrated rows, and the lens for the event of the original outputs in them."""
    posteriors, original = np.clip(repaired.posteriors, 0, 1), predictions.take(repaired.rows)
    kept: dict[str, Any] = {
        name: getattr(original, name) for name in ("sample_weight", "columns", "clusters")
    }
    if isinstance(lens, TopLabel) and not predictions.pairs:
        # The event is that the most probable class of the original outputs is right, even if the
        # recalibrated outputs have another.
        chosen = original.probabilities().argmax(axis=1)
        confidence = posteriors[np.arange(len(chosen)), chosen]
        return Predictions.from_confidence(confidence, original.codes == chosen, **kept), lens
    if predictions.pairs:
        return Predictions.from_confidence(posteriors[:, 1], original.codes == 1, **kept), lens
    if not isinstance(lens, (Full, Classwise, OneVsRest, Binary)):
        rule = (
            "with recalibration must be Classwise(), TopLabel(), OneVsRest(c), Binary() or Full()"
        )
        way_out = ("or pass ", Argument("calibrator", '"none"'))
        raise InputError("lens", rule, repr(lens), way_out=way_out)
    return Predictions(original.codes, posteriors, tolerance=1e-6, **kept), lens


def _row_scores(predictions: Predictions, score: str, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """The score of each row, of the whole forecast or of the event, and the share of each row.

    Bad rows have a share of 0.
    """
    views, rule = lens_rows(predictions, lens), NAMED[score]
    first = views[0]
    if isinstance(lens, (Full, Classwise)):
        outputs = (
            first.view.outputs
            if len(views) == 1
            else np.column_stack([shown.view.outputs for shown in views])
        )
        values = rule.score(outputs, predictions.codes[first.rows])
    else:
        values = rule.one_dimensional().divergence(
            first.view.labels, np.clip(first.view.outputs, 0, 1)
        )
    scores, share = np.zeros((2, len(predictions)))
    scores[first.rows], share[first.rows] = values, first.weights / first.weights.sum()
    return scores, share


def _assemble_budget(
    scored: _ScoredRows,
    found: GroupingLoss,
    words: str,
    *,
    score: str,
    lens: Lens,
    total: Estimate | None,
    resamples: int,
    seed: int,
    **_: Any,
) -> Budget:
    """The budget, and that of the recalibrated outputs if there are any.

    total : the score of all rows, if the rows are a sample and `found` counts all rows. Resamples
        of the sample then lack some parts, and the interval of the rest assumes independent parts.
    """
    left, grouping = found.calibration_loss, found.lower_bound
    before = scored.mean(scored.before, "total, " + words) if total is None else total
    after = before
    if scored.calibrator:
        after = scored.mean(scored.after, "total after recalibration, " + words)
    with np.errstate(invalid="ignore"):
        removed = scored.mean(scored.before - scored.after, "removed by recalibration, " + words)
    rest = Estimate(after - left - grouping, n=after.n, definition="the rest, " + words)
    calibration = Estimate(removed + left, n=after.n, definition="calibration, " + words)
    if total is None and found.deviations is not None:
        deviations = dict(zip(PARTS, found.deviations.T, strict=True))
        old, new = (
            scored.deviations(values, resamples, seed) for values in (scored.before, scored.after)
        )
        _set_interval(calibration, old - new + deviations["calibration_loss"])
        _set_interval(rest, new - deviations["calibration_loss"] - deviations["lower_bound"])
    else:
        squares = (((part.high - part.low) / 2) ** 2 for part in (before, left, grouping))
        half = math.sqrt(sum(squares))
        rest.low, rest.high = rest - half, rest + half
        calibration.low, calibration.high = left.low, left.high
    shared: Any = {"grouping": grouping, "rest": rest, "score": score, "lens": lens, "found": found}
    if not scored.calibrator:
        return Budget(total=before, calibration=left, definition=words, removed=removed, **shared)
    later = Budget(
        total=after,
        calibration=left,
        definition=words + ", after recalibration",
        removed=Estimate(0.0, n=after.n, definition="nothing removed"),
        **shared,
    )
    return Budget(
        total=before,
        calibration=calibration,
        definition=words,
        removed=removed,
        calibrator=scored.calibrator,
        calibrator_words=scored.calibrator_words,
        after=later,
        **shared,
    )


def _set_interval(x: Estimate, deviations: np.ndarray) -> None:
    finite = deviations[np.isfinite(deviations)]
    if math.isfinite(x) and len(finite):
        x.low, x.high = percentile(finite + float(x))
