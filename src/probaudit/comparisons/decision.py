"""The decision of a comparison: which model to use, an imperative headline, and a sentence that
says in numbers why."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..audits.decision import rates
from ..audits.finding import Level
from ..audits.verdict import METHOD
from ..choices.partitions import EqualWidth
from ..text import capitalised, counted, number, percent, short_number
from .gaps import (
    WORDS,
    amount,
    clearly_better,
    deciding,
    difference_to_reference,
    identical,
    model_names,
    others,
)

if TYPE_CHECKING:
    from .comparison import Comparison

Grade = Literal["use", "recalibrate", "tied", "tied_after", "do_not_use", "cannot_tell"]
GRADES: dict[Grade, str] = {
    "use": "Clear choice",
    "recalibrate": "Recalibrate first",
    "tied": "Tied",
    "tied_after": "Tied after recalibration",
    "do_not_use": "Do not use",
    "cannot_tell": "Cannot tell",
}
LEVELS: dict[Grade, Level] = {
    "use": "good",
    "recalibrate": "warning",
    "tied": "note",
    "tied_after": "note",
    "do_not_use": "bad",
    "cannot_tell": "warning",
}
AFTER, NORMALISED = "log_score.calibrated", "log_score.normalized"
BINS = 15  # as in the ECE
FAR = 0.05  # difference in a bin, from which the sentence mentions it
MATERIAL = 0.01  # share of the log loss from which recalibration is advised, as in an audit


@dataclass(frozen=True)
class Choice:
    """Which model to use.

    headline : in the imperative. sentence : how much better the model is, what it says on average
        and what happened.
    models : the best model, or several that are tied (as they are, or after recalibration).
        compared : the model that the sentence compares the best one with; None if they are tied.
    recalibrate : whether the models should be recalibrated first.
    """

    grade: Grade
    headline: str
    sentence: str
    models: tuple[str, ...]
    score: str
    compared: str | None = None
    clear: bool = True
    recalibrate: bool = False

    @property
    def words(self) -> str:
        """The grade in words."""
        return GRADES[self.grade] if self.clear else "Best, not clearly"

    @property
    def level(self) -> Level:
        return LEVELS[self.grade]

    @property
    def text(self) -> str:
        return f"{self.headline} {self.sentence}".rstrip()


def choose(result: Comparison) -> Choice:
    """The decision by the proper score that decides. Only proper scores rank probabilities."""
    score = deciding(result, result.names)
    best = tuple(name for name in result.names if result.ranks[score][name] == 1)
    lowest = min(best, key=lambda name: float(result.estimates[name][score]))
    ratio = float(result.estimates[lowest][f"{score}.normalized"])
    useless = (
        f"none is better than the base-rate forecast: the best {WORDS[score]}, that of {lowest!r}, "
        f"is {number(ratio, 2)} times as large."
    )
    after = _lowest_after(result)
    if ratio >= 1:
        loss = result.estimates[lowest]["log_score"] / result.estimates[lowest][NORMALISED]
        if after is not None and result.estimates[after][AFTER] < loss:
            return _recalibrated(result, score, best, after, useless)
        sentence = f"{capitalised(useless)} {_agreement(result, lowest)}"
        headline = "Do not use any of these models."
        return Choice("do_not_use", headline, sentence, (lowest,), score)
    if after is not None and _clearly_best_after(result, best, after):
        value = short_number(result.estimates[lowest][score])
        known = f"{model_names(best)} {'has' if len(best) == 1 else 'have'}"
        return _recalibrated(
            result, score, best, after, f"{known} the best {WORDS[score]}, {value}."
        )
    found = _one(result, score, best[0]) if len(best) == 1 else _tied(result, score, best)
    return _on_other_rows(found, [name for name in best if name in result.own_fits])


def _on_other_rows(found: Choice, fitted: list[str]) -> Choice:
    """The decision, unless these rows fitted the calibrators of some of the best models."""
    if not fitted:
        return found
    flattered = f"These rows fitted the calibrator of {model_names(fitted)} and flatter it."
    return replace(
        found,
        grade="cannot_tell",
        headline="Compare these models on other rows.",
        sentence=f"{flattered} {found.sentence}".rstrip(),
        clear=True,
    )


def _recalibrated(
    result: Comparison, score: str, best: tuple[str, ...], after: str, before: str
) -> Choice:
    """Recalibration changes the decision."""
    sentence = (
        f"Without recalibration, {before} After {METHOD}, {after!r} has the lowest log loss, "
        f"{short_number(result.estimates[after][AFTER])}"
    )
    if after not in best:
        known = min(float(result.estimates[name][AFTER]) for name in best)
        sentence += f", against {short_number(known)} of {model_names(best)}"
    headline = "Recalibrate these models before you choose one."
    return Choice("recalibrate", headline, f"{sentence}.", best, score, recalibrate=True)


def _one(result: Comparison, score: str, best: str) -> Choice:
    clear = int(result.lower[score][result.names.index(best)].sum()) == len(result.names) - 1
    removable, rivals = _removable(result, best), _as_good_after(result, best)
    headline = f"Use {best!r}" + (", and recalibrate it first" if removable else "")
    headline += "." if clear else ": no other model is clearly better."
    other, gap = difference_to_reference(result, best, score)
    next_best = best == result.reference and len(result.names) > 2
    than = f"that of {'the next best, ' if next_best else ''}{other!r}"
    value = short_number(result.estimates[best][score])
    if math.isinf(gap):
        sentence = f"Its {WORDS[score]} is {value}; {than} is infinite. "
        sentence += _by_brier_score(result, best, other)
    else:
        sentence = f"Its {WORDS[score]}, {value}, is "
        sentence += f"{amount(gap, result.estimates[other][score])} than {than}."
    tied = (best, *rivals)
    if removable and rivals:
        either = model_names(tied, "or")
        headline = f"Use {either} after recalibration: they are then tied."
        sentence = f"As they are, {best!r} is best: {sentence[0].lower()}{sentence[1:]}"
        sentence += f" {_after_words(result, tied)}"
        return Choice("tied_after", headline, sentence, tied, score, other, clear, recalibrate=True)
    sentence += f" {_agreement(result, best)}{_next_best(result, score, best, other)}"
    if rivals:
        sentence += f" {_after_words(result, tied)}"
    elif removable and _lowest_after(result) is not None:
        value = short_number(result.estimates[best][AFTER])
        sentence += f" {best!r} is also best after recalibration, at {value}."
    return Choice(
        "use", headline, sentence, (best,), score, other, clear, recalibrate=bool(removable)
    )


def _after_words(result: Comparison, tied: tuple[str, ...]) -> str:
    """That some models are tied after recalibration, with their log loss."""
    values = sorted(short_number(result.estimates[name][AFTER]) for name in tied)
    equal = values[0] == values[-1]
    span = values[0] if equal else f"{values[0]} to {values[-1]}"
    return f"After {METHOD}, {model_names(tied)} are tied: their log loss is {span}."


def _next_best(result: Comparison, score: str, best: str, other: str) -> str:
    """The model with the second lowest score, unless it was compared already."""
    order = sorted(result.names, key=lambda name: float(result.estimates[name][score]))
    runner = next(name for name in order if name != best)
    if runner == other:
        return ""
    clear = result.lower[score][result.names.index(best), result.names.index(runner)]
    how = "clearly" if clear else "not clearly"
    value = short_number(result.estimates[runner][score])
    return f" The next best, {runner!r} ({value}), is {how} worse."


def _tied(result: Comparison, score: str, best: tuple[str, ...]) -> Choice:
    either = "Choose either" if len(best) == 2 else "Choose any"
    if all(name == result.reference or identical(result, name) for name in best):
        return Choice("tied", f"{either}: {model_names(best)} are identical.", "", best, score)
    values = sorted(float(result.estimates[name][score]) for name in best)
    sentence = (
        f"{counted(result.rows)} cannot tell their {WORDS[score]} apart: {short_number(values[0])} "
        f"to {short_number(values[-1])}."
    )
    if len(result.names) == 2:
        (model,) = others(result)
        gap = result.differences[model][score]
        sentence = (
            f"{counted(result.rows)} cannot tell them apart: the {WORDS[score]} of {model!r} is "
            f"{amount(gap, result.estimates[result.reference][score])} than that of "
            f"{result.reference!r}."
        )
    headline = f"{either}: {model_names(best)} are tied."
    return Choice("tied", headline, sentence, best, score)


def _removable(result: Comparison, model: str) -> str:
    """The share of the log loss that recalibration removes, if it is material."""
    loss = result.estimates[model].get("calibration_loss.relative")
    if loss is None or not (loss.low > 0 and loss >= MATERIAL):
        return ""
    return percent(loss)


def _agreement(result: Comparison, model: str) -> str:
    """What a model predicts on average, what happened, and what recalibration removes."""
    grid = result.grids[model]
    total = float(grid.weight.sum())
    first, second = rates(float(grid.outputs.sum()) / total, float(grid.targets.sum()) / total)
    text = (
        f"It predicts {first} on average and is right {second} of the time"
        if result.event is None
        else f"It predicts {first} on average, and the event happened in {second} of the rows"
    )
    removable = _removable(result, model)
    if not removable:
        return f"{text}."
    return f"{text}{_worst_bin(result, model)}; {METHOD} removes {removable} of its log loss."


def _worst_bin(result: Comparison, model: str) -> str:
    """Where the model is furthest off, weighted by rows; "" if that is not far."""
    grid = result.grids[model]
    cells = grid.cells(EqualWidth(BINS).grid_cells(grid.place, grid.rows[grid.kept]))
    k = int(np.argmax(cells.rows * np.abs(cells.outputs - cells.targets)))
    stated, observed = float(cells.outputs[k]), float(cells.targets[k])
    if abs(stated - observed) < FAR:
        return ""
    first, second = rates(stated, observed)
    happened = f"it is right {second}" if result.event is None else f"it happened in {second}"
    return f", but where it predicts {first}, {happened}"


def _by_brier_score(result: Comparison, best: str, other: str) -> str:
    """The best model against one with an infinite log loss, by the Brier score."""
    _, gap = difference_to_reference(result, best, "brier_score")
    clear = clearly_better(gap)
    if clear is None:
        return "By the Brier score, the two are tied."
    words = "better" if clear else "worse"
    amounts = amount(gap, result.estimates[other]["brier_score"])
    return f"By the Brier score, {best!r} is {words}: {amounts}."


def _lowest_after(result: Comparison) -> str | None:
    """The model with the lowest log loss after recalibration; None if that of a model is unknown
    or infinite."""
    after = {name: float(result.estimates[name].get(AFTER, math.nan)) for name in result.names}
    known = all(map(math.isfinite, after.values()))
    return min(after, key=lambda name: after[name]) if known else None


def _clearly_best_after(result: Comparison, best: tuple[str, ...], after: str) -> bool:
    """Whether a model is, after recalibration, clearly and materially better than the best ones
    before."""
    return all(_clearly_lower_after(result, after, name) for name in best)


def _as_good_after(result: Comparison, best: str) -> tuple[str, ...]:
    """The other models that are, after recalibration, as good as the best one before: neither is
    clearly and materially better than the other. None if the log loss of a model is unknown."""
    if _lowest_after(result) is None:
        return ()
    rest = (name for name in result.names if name != best)
    return tuple(name for name in rest if not _clearly_lower_after(result, best, name))


def _clearly_lower_after(result: Comparison, first: str, second: str) -> bool:
    """Whether the log loss of a model after recalibration is lower than that of another by a
    material share, and the paired interval of the difference excludes 0."""
    place = result.names.index
    low, high = (float(result.estimates[name][AFTER]) for name in (first, second))
    return bool(result.lower[AFTER][place(first), place(second)]) and low < (1 - MATERIAL) * high
