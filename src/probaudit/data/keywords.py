"""Unknown keywords: an error that names the spelling which the function has."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

# Words for the same thing, here and in other packages. A word stands for those of the first line
# that a function has.
SYNONYMS = tuple(
    frozenset(line.split())
    for line in (
        "partition bins n_bins num_bins nbins n_bin strategy binning",
        "normalize normalise normalized normalised",
        "sample_weight weight weights sample_weights",
        "classes labels class_names label_names target_names",
        "event pos_label positive_class positive",
        "y_true y y_test labels target targets",
        "y_proba y_prob y_pred y_score y_hat probs proba probabilities p",
        "columns groups group by sensitive_features",
        "regions groups columns group by",
        "clusters cluster cluster_id",
        "from_logits logits",
        "from_log_probs log_probs",
        "distance norm metric",
        "score metric loss scoring",
        "candidates methods method calibrators",
        "calibrator method calibrators",
        "cv folds n_folds n_splits k_folds",
        "resamples n_resamples n_bootstrap n_boot bootstrap iterations",
        "seed random_state rng",
        "threads n_jobs n_threads num_threads workers",
        "tolerance tol atol rtol",
        "ignore_label ignore_index",
        "on_bad_rows errors drop_bad_rows dropna",
        "where mask subset filter",
        "interval ci confidence_interval intervals",
        "costs cost cost_matrix",
        "thresholds threshold",
        "lens lenses classwise kind average",
        "models model predictions",
        "title name",
    )
)
# How to write an argument that is not a plain value; {} is the number that was given.
FORMS = {"partition": "EqualWidth({})", "lens": "Classwise()", "lenses": "[Classwise()]"}
COLUMNS = ("label", "probs", "logits", "log_probs", "confidence", "correct", "weight")
# Names that other packages and papers give to functions of this one, and how to write those.
ELSEWHERE = {
    "ece expected_calibration_error ECE": "calibration_error",
    "mce max_calibration_error maximum_calibration_error": "calibration_error(..., worst=True)",
    "classwise_ece static_calibration_error sce": "calibration_error(..., lens=Classwise())",
    "ace adaptive_calibration_error": "calibration_error(..., partition=EqualMass(15))",
    "log_loss nll cross_entropy negative_log_likelihood": "log_score",
    "brier brier_loss brier_score_loss": "brier_score",
    "auc auroc roc_auc roc_auc_score": "validation_table",
    "aurc": "risk_coverage",
    "calibration_curve plot reliability_curve reliability_plot": "diagrams.reliability_diagram",
    "calibrate recalibrate calibrator": "select_calibrator",
    "load open read_csv read_parquet": "read",
}
CLOSE = 0.7  # similarity from which a word counts as misspelt


def with_known_keywords(function: Function, others: Iterable[str] = ()) -> Function:
    """The function, with a TypeError for an unknown keyword that names the right one.

    others : keywords that `function` takes as **options.

    >>> score = with_known_keywords(lambda y_true, y_proba, *, normalize=False: 0.5)
    >>> score([1], [0.9], normalise=True)
    Traceback (most recent call last):
    TypeError: <lambda>() has no argument `normalise` (found: True). Use `normalize`.
    """
    parameters = signature(function).parameters.values()
    known = [one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD]
    known += [name for name in others if name not in known]
    names = frozenset(known)

    places = [
        one.name
        for one in parameters
        if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    unlimited = any(one.kind is Parameter.VAR_POSITIONAL for one in parameters)

    @wraps(function)
    def checked(*given: Any, **keywords: Any) -> Any:
        if len(given) > len(places) and not unlimited:
            raise _too_many(function.__name__, places, known, len(given))
        if not names.issuperset(keywords):
            raise _unknown(function.__name__, known, given, keywords)
        return function(*given, **keywords)

    return cast(Function, checked)


def _unknown(
    function: str, known: list[str], given: tuple[Any, ...], keywords: Mapping[str, Any]
) -> TypeError:
    """The error for the first unknown keyword."""
    name = next(name for name in keywords if name not in known)
    value = keywords[name]
    plain = value is None or isinstance(value, (str, int, float))
    found = f" (found: {value!r})" if plain else ""
    if given and name in COLUMNS and is_table(given[0]):
        columns = [f"{key}={keywords[key]!r}" for key in COLUMNS if key in keywords]
        read = f"{function}(read(data, {', '.join(columns)}))"
        way_out = f"Name the columns of a frame or file in `read`: {read}."
    elif name == "ax" and function.endswith("_diagram"):
        way_out = f"Pass it to the result: {function}(...).plot(ax=ax)."
    else:
        way_out = _way_out(name, value, known)
    return TypeError(f"{function}() has no argument `{name}`{found}. {way_out}")


def _too_many(function: str, places: list[str], known: list[str], found: int) -> TypeError:
    """The error for more arguments without names than a function takes."""
    unnamed = " and ".join(f"`{name}`" for name in places) or "no argument"
    others = ", ".join(name for name in known if name not in places)
    way_out = f"Name the others: {others}." if others else "It takes no others."
    return TypeError(
        f"{function}() takes {unnamed} without a name (found: {found} arguments). {way_out}"
    )


def absent(
    module: str, names: Iterable[str], parts: Iterable[ModuleType]
) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module: an AttributeError that says where a name is, in one of the
    `parts` of the module or under another of its `names`.

    >>> absent("probaudit", ["log_score"], [])("log_loss")
    Traceback (most recent call last):
    AttributeError: module 'probaudit' has no attribute 'log_loss'. Use `log_score`.
    """
    known = list(names)

    def missing(name: str) -> NoReturn:
        error = f"module {module!r} has no attribute {name!r}"
        if name.startswith("_"):
            raise AttributeError(error)
        inside = [part.__name__ for part in parts if name in dir(part)]
        usual = [use for words, use in ELSEWHERE.items() if name in words.split()]
        for use in [f"{part.rpartition('.')[2]}.{name}" for part in inside] + usual:
            raise AttributeError(f"{error}. Use `{use}`.")
        near = difflib.get_close_matches(name, known, 1, CLOSE)
        near = near or [one for one in known if one.casefold().startswith(name.casefold())]
        raise AttributeError(f"{error}. Use `{near[0]}`." if len(near) == 1 else error)

    return missing


def _way_out(name: str, value: Any, known: list[str]) -> str:
    lines = (line.intersection(known) for line in SYNONYMS if name in line)
    same = next(filter(None, lines), None) or difflib.get_close_matches(name, known, 1, CLOSE)
    if not same:
        return f"Arguments are {', '.join(known)}."
    return f"Use {' or '.join(_spelt(word, value) for word in sorted(same))}."


def _spelt(word: str, value: Any) -> str:
    """An argument as code; with an example of its value, if that is not a plain one."""
    form = FORMS.get(word)
    if form is None:
        return f"`{word}`"
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"`{word}={form.format(value if whole else 15)}`"


def is_table(data: Any) -> bool:
    """Whether the data is a frame, or the path of a file."""
    return isinstance(data, (str, Path)) or hasattr(data, "columns")
