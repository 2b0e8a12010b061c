"""The input gate: every function of (y_true, y_proba) turns its arguments into `Predictions`."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc
from textwrap import indent
from typing import Any, TypedDict

from ..errors import InputError
from .keywords import Function, is_table, with_known_keywords
from .predictions import OnBadRows, Predictions


class RowOptions(TypedDict, total=False):
    """Options that every function of (y_true, y_proba) takes.

    sample_weight : one weight per row, not negative.
    clusters : one value per row. Rows with the same value are dependent, such as the visits of one
        patient; intervals, tests and folds then treat each cluster as one unit.
    classes : the class of each column, in order. Without it, `y_true` must hold the column numbers
        0..K-1.
    event : the class whose probability is judged as a risk. By default the second of two classes,
        in measures and diagrams of a single event; calibration errors judge the most probable
        class unless an event is named. Scores of all classes do not depend on it.
    from_logits, from_log_probs : True if `y_proba` holds logits, or log-probabilities. Never
        guessed from the values.
    on_bad_rows : "error" (default) stops at the first invalid row; "drop" leaves invalid rows out
        and counts them.
    tolerance : how far the sum of a row may be from 1. 1e-5 by default, more for coarse number
        formats such as float16.
    ignore_label : rows with this label are left out and counted, such as pixels without a class
        (255) or padded tokens (-100).

    Dense outputs [n, K, ...] with labels [n, ...] are rows too: one per pixel, and each image is
    one cluster unless `clusters` are given.
    """

    sample_weight: Any
    clusters: Any
    classes: Sequence[Any] | None
    event: Any
    from_logits: bool
    from_log_probs: bool
    on_bad_rows: OnBadRows
    tolerance: float | None
    ignore_label: Any


def takes_row_options(function: Function) -> Function:
    """A function with the options of `RowOptions`: documents them, before the examples, and refuses
    other keywords.

    >>> @takes_row_options
    ... def score(y_true, y_proba, **options):
    ...     '''A score.'''
    >>> "from_logits" in score.__doc__
    True
    """
    text = cleandoc(function.__doc__ or "")
    words, examples, rest = text.partition("\n\n>>> ")
    _, _, options = cleandoc(RowOptions.__doc__ or "").partition("\n\n")
    listed = f"Options for the rows:\n\n{indent(options, '    ')}" if options else ""
    function.__doc__ = f"{words}\n\n{listed}{examples}{rest}"
    return with_known_keywords(function, RowOptions.__annotations__)


def rows_of(
    y_true: Any,
    y_proba: Any = None,
    *,
    sample_weight: Any = None,
    clusters: Any = None,
    classes: Sequence[Any] | None = None,
    event: Any = None,
    from_logits: bool = False,
    from_log_probs: bool = False,
    on_bad_rows: OnBadRows = "error",
    tolerance: float | None = None,
    ignore_label: Any = None,
    features: Any = None,
    columns: Any = None,
) -> Predictions:
    """The rows as `Predictions`. Error messages call them `y_true` and `y_proba`.

    `Predictions`, as returned by `read`, are passed alone: they have their own outputs and options.
    """
    if isinstance(y_true, Predictions):
        given = {
            "y_proba": y_proba,
            "sample_weight": sample_weight,
            "clusters": clusters,
            "classes": classes,
            "event": event,
            "features": features,
            "columns": columns,
            "ignore_label": ignore_label,
        }
        extra = [name for name, value in given.items() if value is not None]
        extra += [
            name
            for name, value in (("from_logits", from_logits), ("from_log_probs", from_log_probs))
            if value
        ]
        if extra:
            raise InputError(extra[0], "must not be given together with Predictions")
        return y_true
    if y_proba is None or (is_table(y_true) and isinstance(y_proba, str)):
        raise _without_outputs(y_true)
    if isinstance(y_proba, Predictions):
        rule = "must be outputs, as Predictions have labels of their own"
        raise InputError("y_proba", rule, repr(y_proba), way_out=("pass the Predictions alone",))
    return Predictions(
        y_true,
        y_proba,
        sample_weight=sample_weight,
        clusters=clusters,
        classes=classes,
        event=event,
        from_logits=from_logits,
        from_log_probs=from_log_probs,
        on_bad_rows=on_bad_rows,
        tolerance=tolerance,
        ignore_label=ignore_label,
        features=features,
        columns=columns,
        names={"y": "y_true", "probs": "y_proba", "classes": "classes"},
    )


def check_equal_weights(rows: Predictions, what: str, instead: str) -> None:
    """Raise if rows have weights, which `what` cannot take; `instead` : a measure that can.

    >>> rows = Predictions([0, 1], [0.5, 1], sample_weight=[1, 2])
    >>> check_equal_weights(rows, "this test", "`log_score`")
    Traceback (most recent call last):
    probaudit.errors.InputError: `sample_weight`: this test needs rows of equal weight (found: 2 \
weights). Leave out the weights, or use `log_score`, which takes them.
    """
    if rows.sample_weight is not None:
        way_out = (f"leave out the weights, or use {instead}, which takes them",)
        rule, found = f"{what} needs rows of equal weight", f"{len(rows.sample_weight)} weights"
        raise InputError("sample_weight", rule, found, way_out=way_out)


def _without_outputs(y_true: Any) -> InputError:
    """The error for labels without outputs, or for a file, frame or scanned source."""
    if is_table(y_true):
        return InputError(
            "y_true",
            "must be labels or Predictions",
            type(y_true).__name__,
            way_out=("load files and frames with `read(...)` first",),
        )
    if hasattr(y_true, "classes"):
        return InputError(
            "y_true",
            "scanned rows go only to audit, calibration_error, grouping_loss and loss_budget",
            repr(y_true),
            way_out=("load the rows with `read(...)`",),
        )
    return InputError("y_proba", "is required, unless the first argument is Predictions")
