"""The calibrators, from the simplest to the most flexible. To add one:

1. Write a subclass of `Calibrator` in a module of this package (see the contract in `base.py`).
2. Add an `Entry` below: the class can then be imported, saved, selected and named in `--method`.
3. Register its ONNX map in `export/onnx_maps.py`.
4. List its options in `tests/calibrators/test_calibrator_contract.py`, and in `test_onnx.py`.
5. Name it in README.md. Pages, `--method`, `select_calibrator` and audits read the table below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError

if TYPE_CHECKING:
    from .base import Calibrator

CONTROL = "mean_replacement"
ANY = math.inf
# Slow calibrators are not default candidates: those with K^2 parameters for more than FEW_CLASSES,
# those with a fit for each class for more than SOME_CLASSES.
FEW_CLASSES = 20
SOME_CLASSES = 200
# Structured scaling gains nothing with two classes (benchmarks/structured_scaling.py --two).
MULTICLASS = 3


@dataclass(frozen=True)
class Method:
    """A calibrator with its options, under the name that `select_calibrator` and `--method` use.

    gloss : what it does, for readers who do not know it.
    options : keyword arguments of the class. base : the class fitted in each group.
    default_from, default_up_to : the numbers of classes for which it is a default candidate; up to
        0 for never.
    role : only a "candidate" can be chosen. A "comparison" and the "control" are only shown.
    """

    name: str
    gloss: str
    options: Mapping[str, Any] = field(default_factory=dict)
    base: str | None = None
    default_from: int = 2
    default_up_to: float = 0
    role: Literal["candidate", "comparison", "control"] = "candidate"


@dataclass(frozen=True)
class Entry:
    """A calibrator class, its module in this package, and its methods.

    needs : what the class uses besides outputs, as its `takes`; repeated here so that the class
        need not be imported. It is a default candidate if one of them is given.
    overlapping : whether groups may be given in several columns.
    """

    kind: str
    module: str
    methods: tuple[Method, ...] = ()
    needs: tuple[Literal["features", "groups"], ...] = ()
    overlapping: bool = False


ENTRIES = (
    Entry(
        "Identity",
        "identity",
        (Method("identity", "the outputs stay as they are", default_up_to=ANY),),
    ),
    Entry(
        "TemperatureScaling",
        "temperature",
        (Method("temperature", "divides the logits by one number", default_up_to=ANY),),
    ),
    Entry(
        "EnsembleTemperature",
        "temperature",
        (
            Method(
                "ensemble_temperature",
                "mixes temperature-scaled, original and uniform probabilities",
                default_up_to=ANY,
            ),
        ),
    ),
    Entry("PlattScaling", "linear", (Method("platt", "a logistic curve of the log odds"),)),
    Entry(
        "BiasCorrectedTemperature",
        "temperature",
        (
            Method(
                "bias_corrected_temperature",
                "temperature scaling plus a constant for each class",
                default_up_to=ANY,
            ),
        ),
    ),
    Entry(
        "BetaCalibration",
        "beta",
        (Method("beta", "a curve of three parameters for each class", default_up_to=FEW_CLASSES),),
    ),
    Entry(
        "StructuredVectorScaling",
        "structured",
        (
            Method(
                "structured_vector",
                "a scale and a constant for each class, kept near temperature scaling",
                default_from=MULTICLASS,
                default_up_to=SOME_CLASSES,
            ),
        ),
    ),
    Entry(
        "VectorScaling",
        "linear",
        (Method("vector", "a scale and a constant for each class", default_up_to=FEW_CLASSES),),
    ),
    Entry(
        "IsotonicCalibration",
        "isotonic",
        (
            Method("isotonic", "a curve of steps that never falls", default_up_to=SOME_CLASSES),
            Method(
                "isotonic_centred",
                "a curve that never falls, with straight lines between its steps",
                {"centred": True},
            ),
            # its probabilities of 0 make the log loss infinite
            Method(
                "isotonic_plain",
                "a curve of steps that never falls, with probabilities of 0 and 1",
                {"finite": False},
                default_up_to=SOME_CLASSES,
                role="comparison",
            ),
        ),
    ),
    Entry(
        "VennAbers",
        "venn_abers",
        (Method("venn_abers", "isotonic regression fitted anew with each row"),),
    ),
    Entry(
        "IRM", "isotonic", (Method("irm", "one curve that never falls, for all classes together"),)
    ),
    Entry(
        "HistogramBinning",
        "binning",
        (
            Method(
                "histogram",
                "the observed rate in the bin of each probability",
                default_up_to=SOME_CLASSES,
            ),
        ),
    ),
    Entry("BBQ", "binning", (Method("bbq", "a weighted mean of many histograms"),)),
    Entry(
        "StructuredMatrixScaling",
        "structured",
        (
            Method(
                "structured_matrix",
                "a linear map of the logits of all classes, kept near temperature scaling",
                default_from=MULTICLASS,
                default_up_to=FEW_CLASSES,
            ),
        ),
    ),
    Entry(
        "DirichletCalibration",
        "dirichlet",
        (
            Method(
                "dirichlet",
                "a linear map of the log-probabilities of all classes",
                default_up_to=FEW_CLASSES,
            ),
        ),
    ),
    Entry(
        "MatrixScaling", "linear", (Method("matrix", "a linear map of the logits of all classes"),)
    ),
    Entry(
        "GaussianProcessCalibration",
        "gaussian_process",
        (Method("gaussian_process", "a smooth curve of the log-probability"),),
    ),
    Entry(
        "PerGroup",
        "combining",
        (
            Method("per_group", "one temperature for each group", default_up_to=ANY),
            Method(
                "per_group_bias",
                "one temperature, and a constant for each class, for each group",
                base="BiasCorrectedTemperature",
                default_up_to=ANY,
            ),
        ),
        needs=("groups",),
    ),
    Entry(
        "GroupCalibration",
        "group_calibration",
        (
            Method(
                "group_calibration",
                "learns groups from the features and fits a temperature in each",
                default_up_to=ANY,
            ),
        ),
        needs=("features",),
    ),
    Entry(
        "MultiCalibration",
        "multicalibration",
        (
            Method(
                "multicalibration",
                "corrects the mean probabilities of groups, which may overlap, one by one",
                default_up_to=SOME_CLASSES,
            ),
        ),
        needs=("features", "groups"),
        overlapping=True,
    ),
    Entry(
        "MeanReplacement",
        "mean_replacement",
        (Method(CONTROL, "every row gets the mean confidence", default_up_to=ANY, role="control"),),
    ),
    Entry("Chain", "combining"),
    Entry("PriorCorrection", "priors"),
)
CLASSES = {entry.kind: entry.module for entry in ENTRIES}
METHODS = {method.name: (entry, method) for entry in ENTRIES for method in entry.methods}


def calibrator_class(kind: str) -> type[Calibrator]:
    """The class of a registered calibrator."""
    module = import_module(f".{CLASSES[kind]}", __package__)
    registered: type[Calibrator] = getattr(module, kind)
    return registered


def calibrator_named(name: str) -> Calibrator:
    """A new calibrator by its method name.

    >>> calibrator_named("temperature").words()
    'temperature scaling'
    """
    if name not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}", repr(name))
    entry, method = METHODS[name]
    options = dict(method.options)
    if method.base is not None:
        options["base"] = calibrator_class(method.base)()
    return calibrator_class(entry.kind)(**options)
