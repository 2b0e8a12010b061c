"""Error messages for bad rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..data.arrays import is_missing
from ..data.classes import are_names
from ..data.label_hints import label_hint
from ..data.predictions import IGNORED, Block
from ..errors import Argument, InputError, WayOut

if TYPE_CHECKING:
    from .plan import Plan

DROP = Argument("on_bad_rows", '"drop"')
LEAVE_OUT: WayOut = ("leave these rows out with ", DROP)
ROUNDED: WayOut = (
    "if rows are rounded, raise ",
    Argument("tolerance"),
    " or leave them out with ",
    DROP,
)
# the same for calibrators, which have no options for bad rows
DIVIDE: WayOut = ("if rows are rounded, divide each by its sum",)
RULES = ("label", "weight", "value", "sum")  # the kernels' status codes 1, 2, 3, 4


def broken_rules(block: Block, status: np.ndarray) -> np.ndarray:
    """The status that a kernel found for each row of a block, but 0 where the label is ignored.
    Kernels know it as a bad label, but these rows break no rule."""
    return np.where(block.labels == IGNORED, 0, status)


def explain(plan: Plan, block: Block, index: int, status: int) -> InputError:
    """The error for a row of a block, given the status that a kernel found."""
    rule, row = RULES[status - 1], block.first_row + index
    values = block.values[index].astype(np.float64)

    def name(part: str) -> str:
        return plan.names.get(part, part)

    if rule == "label":
        label = block.raw_labels[index]
        label = label.item() if isinstance(label, np.generic) else label
        missing = is_missing(label) or label == ""
        shown = "label is missing" if missing else f"label {label!r}"
        words, classes = f"must be one of the classes {_listed(plan.classes)}", plan.classes
        if isinstance(label, (int, float)) and not missing and are_names(classes):
            words = (
                "a label that is a number must be the position of its class, from 0 "
                f"({classes[0]!r}) to {len(classes) - 1} ({classes[-1]!r})"
            )
        return InputError(
            name("y"),
            words,
            shown,
            row=row,
            way_out=LEAVE_OUT if missing else label_hint(block.raw_labels, label, classes),
        )
    if rule == "weight" and block.weights is not None:
        rule = "a weight must be finite and not negative"
        return InputError(name("sample_weight"), rule, f"{block.weights[index]}", row=row)
    if rule == "sum":
        logs = plan.kind == "log_probabilities"
        total = float(np.exp(values).sum() if logs else values.sum())
        words = "exponentials sum" if logs else "sums"
        text = f"a row must sum to 1 within {plan.tolerance:g}"
        found = f"{words} to {total:.9g}"
        return InputError(name("probs"), text, found, row=row, way_out=ROUNDED)
    way_out: WayOut = ()
    if plan.kind in ("logits", "log_probabilities"):
        wrong = ~((np.abs(values) <= 2.0**20) | (values == -np.inf))
        text = "outputs must be between -2^20 and 2^20 or -inf, and not all may be -inf"
    else:
        wrong = ~((values >= 0) & (values <= 1 + plan.tolerance))
        text, way_out = "a probability must lie between 0 and 1", _remedy(plan, values)
    column = int(np.argmax(wrong))
    place = f" for class {plan.classes[column]!r}" if len(values) == plan.n_classes else ""
    found = f"{values[column]:.9g}{place}"
    return InputError(name("probs"), text, found, row=row, way_out=way_out)


def _remedy(plan: Plan, values: np.ndarray) -> WayOut:
    """What to do if the outputs are percentages or logits, by the look of a row."""
    if np.isnan(values).any():
        return ("fill in missing probabilities, or leave these rows out with ", DROP)
    if not np.isfinite(values).all():
        return ()
    if (
        values.min() >= 0
        and 1.5 <= values.max() <= 100
        and (len(values) == 1 or abs(values.sum() - 100) <= 1)
    ):
        return ("divide percentages by 100",)
    return () if plan.kind == "pairs" else ("declare logits with ", Argument("from_logits", "True"))


def _listed(classes: tuple[object, ...]) -> str:
    shown = ", ".join(repr(c) for c in classes[:6])
    return shown if len(classes) <= 6 else f"{shown}, ... ({len(classes)} in all)"
