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

    options : keyword arguments of the class. base : the class fitted in each group.
    default_from, default_up_to : the numbers of classes for which it is a default candidate; up to
        0 for never.
    role : only a "candidate" can be chosen. A "comparison" and the "control" are only shown.
    """

    name: str
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
    Entry("Identity", "identity", (Method("identity", default_up_to=ANY),)),
    Entry("TemperatureScaling", "temperature", (Method("temperature", default_up_to=ANY),)),
    Entry(
        "EnsembleTemperature", "temperature", (Method("ensemble_temperature", default_up_to=ANY),)
    ),
    Entry("PlattScaling", "linear", (Method("platt"),)),
    Entry(
        "BiasCorrectedTemperature",
        "temperature",
        (Method("bias_corrected_temperature", default_up_to=ANY),),
    ),
    Entry("BetaCalibration", "beta", (Method("beta", default_up_to=FEW_CLASSES),)),
    Entry(
        "StructuredVectorScaling",
        "structured",
        (Method("structured_vector", default_from=MULTICLASS, default_up_to=SOME_CLASSES),),
    ),
    Entry("VectorScaling", "linear", (Method("vector", default_up_to=FEW_CLASSES),)),
    Entry(
        "IsotonicCalibration",
        "isotonic",
        (
            Method("isotonic", default_up_to=SOME_CLASSES),
            Method("isotonic_centred", {"centred": True}),
            # its probabilities of 0 make the log loss infinite
            Method(
                "isotonic_plain",
                {"finite": False},
                default_up_to=SOME_CLASSES,
                role="comparison",
            ),
        ),
    ),
    Entry("VennAbers", "venn_abers", (Method("venn_abers"),)),
    Entry("IRM", "isotonic", (Method("irm"),)),
    Entry("HistogramBinning", "binning", (Method("histogram", default_up_to=SOME_CLASSES),)),
    Entry("BBQ", "binning", (Method("bbq"),)),
    Entry(
        "StructuredMatrixScaling",
        "structured",
        (Method("structured_matrix", default_from=MULTICLASS, default_up_to=FEW_CLASSES),),
    ),
    Entry("DirichletCalibration", "dirichlet", (Method("dirichlet", default_up_to=FEW_CLASSES),)),
    Entry("MatrixScaling", "linear", (Method("matrix"),)),
    Entry("GaussianProcessCalibration", "gaussian_process", (Method("gaussian_process"),)),
    Entry(
        "PerGroup",
        "combining",
        (
            Method("per_group", default_up_to=ANY),
            Method("per_group_bias", base="BiasCorrectedTemperature", default_up_to=ANY),
        ),
        needs=("groups",),
    ),
    Entry(
        "GroupCalibration",
        "group_calibration",
        (Method("group_calibration", default_up_to=ANY),),
        needs=("features",),
    ),
    Entry(
        "MultiCalibration",
        "multicalibration",
        (Method("multicalibration", default_up_to=SOME_CLASSES),),
        needs=("features", "groups"),
        overlapping=True,
    ),
    Entry(
        "MeanReplacement",
        "mean_replacement",
        (Method(CONTROL, default_up_to=ANY, role="control"),),
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
