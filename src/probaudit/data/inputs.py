"""The input gate: what functions of (y_true, y_proba) take, as `Predictions`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ..errors import InputError
from .predictions import OnBadRows, Predictions


class RowOptions(TypedDict, total=False):
    """How rows are given, for every function of (y_true, y_proba).

    sample_weight : one weight per row, not negative.
    clusters : one value per row; rows with the same value are dependent, see `Predictions`.
    labels, or classes : the class of each column, in order. Without it, labels are the column
        numbers 0..K-1.
    from_logits, from_log_probs : what `y_proba` holds, if not probabilities. Never guessed.
    on_bad_rows : "error" (default), or "drop" to leave out rows that break a rule.
    tolerance : how far a row may sum from 1; 1e-5 unless the format is coarser (see
        `predictions.sum_tolerance`).
    """

    sample_weight: Any
    clusters: Any
    labels: Sequence[Any] | None
    classes: Sequence[Any] | None
    from_logits: bool
    from_log_probs: bool
    on_bad_rows: OnBadRows
    tolerance: float | None


def rows_of(
    y_true: Any,
    y_proba: Any = None,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    labels: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    from_logits: bool = False,
    from_log_probs: bool = False,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
    features: Any = None,
    columns: Any = None,
    **unknown: Any,
) -> Predictions:
    """The rows as `Predictions`, named in messages as the arguments of these functions are.

    Rows that are `Predictions` already, as `read` gives them, stand alone: they bring all the rest.
    """
    check_options(unknown)
    names = {
        "y": "y_true",
        "probs": "y_proba",
        "classes": "labels" if classes is None else "classes",
    }
    labels = class_order_of(labels, classes)
    if isinstance(y_true, Predictions):
        given = {
            "y_proba": y_proba,
            "sample_weight": sample_weight,
            "clusters": clusters,
            names["classes"]: labels,
            "features": features,
            "columns": columns,
        }
        extra = [name for name, value in given.items() if value is not None]
        extra += [
            name
            for name, value in (("from_logits", from_logits), ("from_log_probs", from_log_probs))
            if value
        ]
        if extra:
            raise InputError(extra[0], "must not be given beside rows that are Predictions already")
        return y_true
    if y_proba is None:
        raise _without_outputs(y_true)
    return Predictions(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        clusters=clusters,
        classes=labels,
        from_logits=from_logits,
        from_log_probs=from_log_probs,
        on_bad_rows=on_bad_rows,
        tolerance=tolerance,
        features=features,
        columns=columns,
        names=names,
    )


def check_options(options: Iterable[str]) -> None:
    """Raise for an option that no function of (y_true, y_proba) has, with the one that was meant,
    maybe."""
    known = list(RowOptions.__annotations__)
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            raise TypeError(
                f"unknown option `{name}`; "
                + (f"did you mean `{near[0]}`?" if near else f"rows have {', '.join(known)}")
            )


def class_order_of(
    labels: Sequence[Any] | None, classes: Sequence[Any] | None
) -> Sequence[Any] | None:
    """The class of each column, by either name."""
    if labels is not None and classes is not None:
        raise InputError("labels", "is the same as `classes`; give one of them")
    return labels if classes is None else classes


def _without_outputs(y_true: Any) -> InputError:
    """The error for labels without outputs, or for what is no labels at all."""
    if isinstance(y_true, (str, Path)) or hasattr(y_true, "columns"):
        return InputError(
            "y_true", "files and frames must be read first: `read(...)`", type(y_true).__name__
        )
    if hasattr(y_true, "classes"):
        rule = (
            "scanned rows go to `audit`, `calibration_error`, `grouping_loss` or `loss_budget`; "
            "for all else, `read(...)`"
        )
        return InputError("y_true", rule, repr(y_true))
    return InputError("y_proba", "is needed, unless the first argument is Predictions")
