"""scikit-learn estimators and pipelines as models: outputs, and transformed features."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.arrays import named_columns
from ..errors import Argument, InputError
from ..text import listed
from .forward import PENULTIMATE, Answer, Forward, Outputs, checked_outputs

METHODS: dict[Outputs, str] = {
    "probabilities": "predict_proba",
    "logits": "decision_function",
    "log_probabilities": "predict_log_proba",
}
MOST_SPARSE = 10_000  # columns of a sparse matrix that are kept as features


def is_estimator(model: Any) -> bool:
    return hasattr(model, "fit") and any(
        hasattr(model, name) for name in ("predict", *METHODS.values())
    )


def forward_of_estimator(model: Any, layer: Any, outputs: str | None) -> Forward:
    """A fitted classifier or pipeline. `outputs` names the method: "probabilities" is
    `predict_proba`, "logits" is `decision_function`, "log_probabilities" is `predict_log_proba`."""
    found = checked_outputs(outputs, "probabilities", "an estimator")
    name, method = type(model).__name__, METHODS[found]
    if not hasattr(model, method):
        others = [kind for kind, other in METHODS.items() if hasattr(model, other)]
        raise InputError(
            "model",
            f'must have {method} for outputs "{found}"',
            name,
            way_out=("pass ", Argument("outputs", f'"{others[0]}"')) if others else (),
        )
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise InputError("model", "must be a fitted classifier, with `classes_`", name)
    if isinstance(classes, list):
        raise InputError("model", "must predict one label per row", f"{len(classes)} labels")
    steps = _steps(model, layer)
    # The last step gets the features that the steps before it computed, instead of computing them
    # again.
    last = steps is not None and len(steps) == len(model.steps) - 1

    def ask(inputs: Any) -> Answer:
        seen = inputs if steps is None else steps.transform(inputs)
        answer = (
            getattr(model.steps[-1][1], method)(seen) if last else getattr(model, method)(inputs)
        )
        return Answer.of(answer, None if layer is None else _features(seen, steps))

    return Forward(ask, found, np.asarray(classes).tolist())


def _steps(model: Any, layer: Any) -> Any:
    """The steps of a pipeline whose output is the features; None if these are the inputs, or if
    there are none."""
    names = [name for name, _ in getattr(model, "steps", ())]
    if layer is None or (layer == PENULTIMATE and len(names) < 2):
        return None
    if layer == PENULTIMATE:
        return model[:-1]
    if layer not in names[:-1]:
        rule = f"must be a step before the last ({listed(names[:-1])})"
        no_step = "a classifier without such steps has no layers"
        raise InputError("layer", rule if len(names) > 1 else no_step, repr(layer))
    return model[: names.index(layer) + 1]


def _features(seen: Any, steps: Any) -> Any:
    """Features as columns by name, if they have names; otherwise as a matrix."""
    if hasattr(seen, "toarray"):
        if seen.shape[1] > MOST_SPARSE:
            raise InputError(
                "layer",
                f"sparse features must have at most {MOST_SPARSE:,} columns",
                seen.shape[1],
                way_out=("name another step, or pass ", Argument("layer", "None")),
            )
        seen = seen.toarray()
    if (named := named_columns(seen, "features")) is not None:
        return named
    matrix = np.asarray(seen)
    names = _names(steps)
    if names is not None and matrix.ndim == 2 and len(names) == matrix.shape[1]:
        return {name: matrix[:, place] for place, name in enumerate(names)}
    return matrix


def _names(steps: Any) -> list[str] | None:
    """The names of transformed features, if the steps know them and inputs had names."""
    if steps is None or not hasattr(steps, "feature_names_in_"):
        return None
    try:
        return [str(name) for name in steps.get_feature_names_out()]
    except (AttributeError, ValueError):  # a step that does not name its outputs
        return None
