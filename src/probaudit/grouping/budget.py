"""The loss budget: expected score = calibration + grouping + rest (Perez-Lebel et al. 2023; Ferrer
& Ramos 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..calibration.resampling import percentile
from ..calibrators.calibration_loss import CalibrationLoss, calibration_loss
from ..calibrators.selection import select_calibrator
from ..choices.definitions import Definition
from ..choices.lenses import Classwise, Full, Lens, TopLabel, checked_lens
from ..choices.scores import NAMED, as_score
from ..data.arrays import as_array, data_frame, named_columns
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..engines.choosing import Passing, as_source
from ..engines.good_rows import survey
from ..errors import InputError
from ..estimate import Estimate
from ..scoring.expected_scores import estimate_score
from ..states.evidence import Others
from ..text import ShownAsTable, TextTable, interval_text, number, percent
from .event_loss import PARTS
from .features import features_of
from .loss import GroupingLoss, grouping_loss
from .region_table import Region
from .scored_rows import ScoredRows

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
        calibration error after it (`left`).
    grouping : a lower bound of the loss to hidden groups: rows with the same recalibrated output
        and different probabilities. A better model could remove it. If the calibrator used features
        or groups, it removed part of this loss, and `grouping` is what is left.
    rest : irreducible noise, and grouping loss that the regions do not reveal.
    removed : the score of the outputs minus that of the recalibrated outputs, paired.
    calibrator, calibrator_words : the class of the calibrator, and its name for people; "" if the
        outputs were not recalibrated.
    score, whole : the score, and whether it is that of the whole forecast or of one event.
    lens : the event, or the events whose remaining error and hidden groups are measured. If the
        score is that of the whole forecast, the loss of one event is a lower bound.
    relative : whether all parts are divided by the score of the base-rate forecast.
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
    whole: bool = False
    relative: bool = False

    @property
    def left(self) -> Estimate:
        """The calibration error of the recalibrated outputs, or of the original ones if they were
        not recalibrated."""
        return self.calibration if self.after is None else self.after.calibration

    @property
    def finite(self) -> bool:
        """Whether no part is infinite, as some can be by the log loss."""
        return all(map(math.isfinite, (self.total, self.removed, self.left, self.rest)))

    def relative_to(self, total: Estimate, after: Estimate | None = None) -> Budget:
        """The budget on the scale of a normalised score, whose value for the base-rate forecast is
        1. Intervals take the score of the base-rate forecast as known.

        total : the normalised score of the original outputs, with `naive`; it becomes the total.
        after : that of the recalibrated outputs; by default the total, less the share of it that
            this budget says is removed.
        """
        share = float(self.removed / self.total)
        later = total * (1 - share) if after is None else float(after)
        scaled: Any = {"scale": total.naive, "words": ", divided by that of the base-rate forecast"}
        left, grouping = (
            part.moved_to(part / total.naive, **scaled) for part in (self.left, self.grouping)
        )
        rest = self.rest.moved_to(later - left - grouping, **scaled)
        shared: Any = {"grouping": grouping, "rest": rest, "relative": True}
        if self.after is None:
            return replace(self, total=total, calibration=left, **shared)
        removed = total - later
        total_after = self.after.total.moved_to(later, **scaled) if after is None else after
        return replace(
            self,
            total=total,
            removed=self.removed.moved_to(removed, **scaled),
            calibration=self.calibration.moved_to(removed + left, **scaled),
            after=replace(self.after, total=total_after, calibration=left, **shared),
            **shared,
        )

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

        Two classes mirror each other, so only regions of the second are listed, and not called
        that. Bins that were not split are left out: their error is miscalibration.
        """
        table, classes = self.found.regions, list(self.found.lower_bound.per_class)
        mirrored = classes[:1] if len(classes) == 2 else []
        regions = (table[int(place)] for place in np.flatnonzero(table.verdict != ""))
        wrong = (region for region in regions if region.split and region.of_class not in mirrored)
        name = f"class {classes[1]}: " if mirrored else ""
        return [one._replace(rule=one.rule.removeprefix(name)) for one in islice(wrong, most)]

    def score_words(self, *, pairs: bool = False) -> str:
        """The score in words: that of the whole forecast, or of the lens's event."""
        score = as_score(self.score).words()
        if self.whole:
            return score
        return f"{score} of the {self.lens.words(pairs=pairs)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        names = ("total", "calibration", "grouping", "rest", "removed", "left")
        parts: dict[str, Any] = {"score": self.score, "relative": self.relative}
        parts |= {name: getattr(self, name).to_dict() for name in names}
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
    lens : an event, whose score is split. The event is that of the original outputs. By default
        the score of the whole forecast is split, and hidden groups are searched under
        `Classwise()`, if there are at most 20 classes with 500 rows each on average, else under
        `TopLabel()`. What they cost that event is a lower bound of what they cost the whole
        forecast (see `_bound_of_whole`).
    calibrator : as in `calibration_loss`, whose default is skipped if there are too few rows for
        folds; "best" for the choice of `select_calibrator` without features; a result of
        `calibration_loss`, by any calibrator; or "none" for the budget of the original outputs,
        which with several classes may count miscalibration as grouping loss.
    others : all rows, if these are a sample of them, see `grouping_loss`. With a calibrator, the
        budget is that of the sample.

    The remaining calibration loss and the grouping loss are corrected for finite-sample bias. If
    the correction exceeds one of them, it is 0 (`found` has the value below 0). Intervals resample
    rows (or clusters), all parts together, with fixed calibrators and regions.

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
    whole = lens is None or isinstance(lens, (Classwise, Full))
    lens = budget_lens(predictions) if lens is None else checked_lens(lens)
    features = features_of(predictions) if features is None else features
    choices: dict[str, Any] = {"bins": bins, "regions": regions, "region_ratio": region_ratio}
    choices |= {"resamples": resamples, "seed": seed}
    recalibration = _recalibration(predictions, calibrator, score, seed)
    scored = ScoredRows.of(predictions, recalibration, lens, score, whole=whole)
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
    bound = _bound_of_whole(score, lens, predictions.n_classes) if whole else 1.0
    what = f"loss budget of the {as_score(score).words()}"
    what += (
        "" if not whole or isinstance(lens, (Classwise, Full)) else " with bounds from one event"
    )
    words = Definition(what, lens, how)
    words += sample_words if others is None else ""
    shared = {"score": score, "lens": lens, "found": found, "whole": whole}
    return _assemble_budget(scored, words, shared, bound=bound, total=total, **choices)


def _bound_of_whole(score: str, lens: Lens, classes: int) -> float:
    """A factor by which the loss of an event is at most that of the whole forecast.

    The log loss of an event, a function of the class, is at most that of the class (data-processing
    inequality of the Kullback-Leibler divergence). If the probability of the event is wrong by d,
    those of the other classes are wrong by -d in total, which adds at least d^2 / (K - 1).

    >>> _bound_of_whole("brier", TopLabel(), 2)
    2.0
    """
    if isinstance(lens, (Classwise, Full)) or score == "log":
        return 1.0
    return classes / (classes - 1)


def _bounded(x: Estimate, factor: float) -> Estimate:
    """A debiased loss times a factor; it and its interval are at least 0."""
    low, high = (max(factor * end, 0.0) if math.isfinite(end) else end for end in x.interval)
    value = max(factor * x, 0.0) if not math.isnan(x) else math.nan
    return Estimate(
        value, low=low, high=high, n=x.n, definition=x.definition, per_class=x.per_class
    )


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


def _assemble_budget(
    scored: ScoredRows,
    words: str,
    shared: dict[str, Any],
    *,
    bound: float,
    total: Estimate | None,
    resamples: int,
    seed: int,
    **_: Any,
) -> Budget:
    """The budget, and that of the recalibrated outputs if there are any.

    shared : the fields that both budgets share. bound : see `_bound_of_whole`.
    total : the score of all rows, if the rows are a sample and `found` counts all rows. Resamples
        of the sample then lack some parts, and the interval of the rest assumes independent parts.
    """
    found: GroupingLoss = shared["found"]
    left, grouping = (_bounded(x, bound) for x in (found.calibration_loss, found.lower_bound))
    before = scored.mean(scored.before, "total, " + words) if total is None else total
    after = before
    if scored.calibrator:
        after = scored.mean(scored.after, "total after recalibration, " + words)
    with np.errstate(invalid="ignore"):
        removed = scored.mean(scored.before - scored.after, "removed by recalibration, " + words)
    rest = Estimate(after - left - grouping, n=after.n, definition="the rest, " + words)
    calibration = Estimate(removed + left, n=after.n, definition="calibration, " + words)
    if total is None and found.deviations is not None:
        deviations = dict(zip(PARTS, bound * found.deviations.T, strict=True))
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
    shared |= {"grouping": grouping, "rest": rest}
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
