"""From a model and data to predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..data.keywords import with_known_keywords
from ..data.predictions import Predictions
from ..engines.row_source import RowSource
from ..errors import InputError
from .answers import answered, in_memory, parquet_path, to_file
from .batches import Batches
from .estimators import forward_of_estimator, is_estimator
from .forward import PENULTIMATE, Forward, Outputs, forward_of_function

if TYPE_CHECKING:
    from torch.nn import Module


@overload
def collect(
    model: Any,
    data: Any,
    *,
    layer: str | Module | None = ...,
    outputs: Outputs | None = ...,
    classes: Sequence[Any] | None = ...,
    batch: Callable[[Any], Any] | None = ...,
    batch_size: int | None = ...,
    to: None = ...,
    progress: bool | None = ...,
) -> Predictions: ...


@overload
def collect(
    model: Any,
    data: Any,
    *,
    layer: str | Module | None = ...,
    outputs: Outputs | None = ...,
    classes: Sequence[Any] | None = ...,
    batch: Callable[[Any], Any] | None = ...,
    batch_size: int | None = ...,
    to: str | Path,
    progress: bool | None = ...,
) -> RowSource: ...


@with_known_keywords
def collect(
    model: Any,
    data: Any,
    *,
    layer: str | Module | None = PENULTIMATE,
    outputs: Outputs | None = None,
    classes: Sequence[Any] | None = None,
    batch: Callable[[Any], Any] | None = None,
    batch_size: int | None = None,
    to: str | Path | None = None,
    progress: bool | None = None,
) -> Predictions | RowSource:
    """Ask a model for its outputs and features, and return them with the labels, ready for `audit`.

    model : a PyTorch module, a fitted scikit-learn classifier or pipeline, or any callable that
        returns outputs, or a pair (outputs, features), for a batch of inputs. A module is asked on
        its own device, in evaluation mode and without gradients.
    data : a loader, which gives batches (inputs, labels) or (inputs, labels, columns); or one such
        tuple with all rows. `columns` are other values per row, as a frame or a mapping of names to
        arrays. Inputs that are a tuple, list or mapping become the arguments of a module.
    layer : where features come from; None for no features. For a module, "penultimate" is the input
        of the linear layer whose output is that of the model; a model without such a layer is
        refused. The name of a layer, or the layer itself, stands for its output. For a pipeline,
        "penultimate" is the input of its last step; the name of another step stands for its output.
        The features of other classifiers are their inputs.
    outputs : what the model returns: "logits", "probabilities" or "log_probabilities". By default
        logits for a module. For a classifier, these are `decision_function`, `predict_proba` (the
        default) and `predict_log_proba`. For a callable, it must be declared. A single column
        belongs to the second of two classes.
    classes : the class of each column, in order. If classes are text and labels are numbers, labels
        are column numbers. Not given for a classifier, which has `classes_`.
    batch : a function that turns a batch of the loader into (inputs, labels) or (inputs, labels,
        columns), for loaders with other batches.
    batch_size : the rows of a batch if `data` is a tuple; 1,024 by default.
    to : a .parquet file. Batches are then written as they come, and a source as of `scan` is
        returned. Only a few batches are in memory at a time.
    progress : whether to show a progress bar; by default on a terminal.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> collect(GaussianNB().fit(X, y), (X, y))
    Predictions(150 rows, 3 classes, probabilities)
    """
    batches = Batches(data, batch, batch_size)
    path = None if to is None else parquet_path(to)
    with _forward(model, layer, outputs) as forward:
        if forward.classes is not None:
            if classes is not None:
                raise InputError("classes", "must not be given for a model with `classes_`")
            classes = forward.classes
        parts = answered(forward, batches, classes, progress)
        if path is None:
            return in_memory(list(parts), forward.outputs, classes)
        return to_file(path, parts, forward.outputs, classes)


def _forward(model: Any, layer: Any, outputs: str | None) -> AbstractContextManager[Forward]:
    torch = sys.modules.get("torch")  # a module can exist only if torch is imported
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_models import forward_of_module

        return forward_of_module(model, layer, outputs)
    if is_estimator(model):
        return nullcontext(forward_of_estimator(model, layer, outputs))
    if callable(model):
        return nullcontext(forward_of_function(model, layer, outputs))
    rule = "must be a PyTorch module, a scikit-learn classifier, or a callable"
    raise InputError("model", rule, type(model).__name__)
