"""Definitions in the words of a statistician. Estimates carry them as the choices that give the
same number again, such as `EqualWidth(bins=15, right=False)`; pages, captions and tables are read,
not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..choices.lenses import Classwise, Full

if TYPE_CHECKING:
    from ..grouping.budget import Budget

TUPLE = r"(?<!\w)\((?:[^()]|\([^()]*\))*\)"
# the innermost of choices within choices
CALL = re.compile(rf"\b([A-Za-z]\w*)\(((?:[^()]|{TUPLE})*)\)")
PHRASES = {
    "brier score": "Brier score",
    ", brier,": ", Brier score,",
    "gaussian of width": "Gaussian of width",
    "costs zero_one_reject": "where an error costs 1, and to reject less",
    "costs zero_one": "where an error costs 1",
    "whose argmax is right": "whose most probable class is the true one",
    "BiasCorrectedTemperature": "bias-corrected temperature",
}
SCORES = {"brier": "Brier", "log": "log"}
PAIRS = {  # a stated confidence is no class
    "most probable class": "stated confidence",
    "second class": "stated confidence",
    "top-label ECE": "ECE of the stated confidence",
    "summed over classes": "summed over right and wrong",
}


def _bins(words: str) -> Callable[[Mapping[str, str]], str]:
    return lambda given: (
        f"{given['bins']} {words}"
        + (", closed on the right" if given.get("right") == "True" else "")
    )


def _boxes(given: Mapping[str, str]) -> str:
    rows, split = given.get("min_rows", "None"), given.get("split", "'mean'").strip("'")
    least = f"{fraction(float(given['gamma']))} of the rows" if rows == "None" else f"{rows} rows"
    return f"boxes of a k-d tree, split at the {split} while they hold {least}"


def _norm(given: Mapping[str, str]) -> str:
    return (
        "largest difference"
        if given["q"] == "inf"
        else f"{float(given['q']):g}-norm of the difference"
    )


CHOICES: dict[str, str | Callable[[Mapping[str, str]], str]] = {
    "TopLabel": "most probable class",
    "Binary": "second class",
    "Classwise": "each class against all others",
    "OneVsRest": "class in column {index} against all others",
    "Full": "all classes together",
    "TopK": "{k} most probable classes",
    "Groups": "groups of classes",
    "Composed": "{first}, and of that {second}",
    "EqualWidth": _bins("equal bins"),
    "EqualMass": _bins("bins of equal mass"),
    "Edges": "bins between given edges",
    "KDTree": _boxes,
    "Column": "given groups",
    "Whole": "all rows together",
    "Each": "every row by itself",
    "Product": "{first} within {second}",
    "L1": "absolute difference",
    "TVD": "total variation",
    "Lq": _norm,
    "Squared": "squared difference",
    "Divergence": "divergence of the {score} score",
    "InterInterval": "distance from the interval {low} to {high}",
    "IntervalTVD": "total variation outside the interval {low} to {high}",
    "Mahalanobis": "Mahalanobis distance",
    "Brier": "Brier",
    "Log": "log",
    "TreeRegions": "regions of a tree, one for {ratio} rows or more",
    "StumpRegions": "two regions by one feature",
    "KMeansRegions": "{clusters} clusters of the features",
    "array": "given numbers",
}


def fraction(share: float) -> str:
    """
    >>> fraction(0.125), fraction(0.3)
    ('1/8', '0.3')
    """
    whole = round(1 / share)
    return f"1/{whole}" if whole > 1 and 1 / whole == share else f"{share:g}"


def whole_percent(share: float) -> str:
    """Without a sign if nothing is left of it.

    >>> whole_percent(-0.001), whole_percent(-0.014)
    ('0%', '-1%')
    """
    return f"{round(share, 2) + 0.0:.0%}"


def in_words(definition: str, *, pairs: bool = False) -> str:
    """A definition without code; what has no words stays as it is.

    pairs : whether it is of a stated confidence.

    >>> in_words("calibration error, TopLabel(), EqualWidth(bins=15, right=False), L1()")
    'calibration error, most probable class, 15 equal bins, absolute difference'
    >>> in_words("calibration error, TopLabel(), EqualMass(bins=15), L1()", pairs=True)
    'calibration error, stated confidence, 15 bins of equal mass, absolute difference'
    """
    said, before = definition, ""
    while said != before:
        said, before = CALL.sub(_said, said), said
    for code, words in (PHRASES | (PAIRS if pairs else {})).items():
        said = said.replace(code, words)
    return said


def _said(call: re.Match[str]) -> str:
    name, inside = call.groups()
    words = CHOICES.get(name)
    given = dict(part.split("=", 1) for part in re.split(r", (?=\w+=)", inside) if "=" in part)
    try:
        return (
            call[0]
            if words is None
            else words.format(**given)
            if isinstance(words, str)
            else words(given)
        )
    except (KeyError, ValueError):  # a choice of the same name that is somebody else's
        return call[0]


def score_of(budget: Budget, *, pairs: bool = False) -> str:
    """Which score a budget splits: that of the whole forecast, or of the one event that its lens
    shows.

    >>> from types import SimpleNamespace
    >>> from probaudit.choices.lenses import TopLabel
    >>> score_of(SimpleNamespace(score="brier", lens=TopLabel()))
    'Brier score of the most probable class'
    """
    score = f"{SCORES[budget.score]} score"
    whole = isinstance(budget.lens, (Classwise, Full))
    return score if whole else f"{score} of the {in_words(repr(budget.lens), pairs=pairs)}"
