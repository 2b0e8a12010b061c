"""Diagrams: plain data first, then two thin drawers.

A module is imported when one of its names is first used; matplotlib is imported when a diagram is
drawn.

To add a diagram, write a module with two names and add one entry to `DIAGRAMS` below:

1. A subclass of `Diagram`: a frozen dataclass of the numbers, with `columns()` (the numbers as
   columns of equal length) and `picture()` (panels of marks, with title, caption and description).
   Both drawers, `save`, `to_frame` and the report then work.
2. A function `..._diagram(y_true, y_proba=None, *, ...)` that computes it.

The entry has the name of the function, its module, the name of the class, and a name for the
scikit-learn display, which needs no code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The registry: function, its module, the class of its result, and the name of its display.
DIAGRAMS = {
    "calibration_sharpness_diagram": (
        "sharpness",
        "CalibrationSharpness",
        "CalibrationSharpnessDisplay",
    ),
    "classwise_diagram": ("classwise", "ClasswiseReliability", "ClasswiseDisplay"),
    "decision_curve_diagram": ("net_benefit", "DecisionCurves", "DecisionCurveDisplay"),
    "decision_regions_diagram": ("decisions", "DecisionRegions", "DecisionRegionsDisplay"),
    "group_errors_diagram": ("group_errors", "GroupErrors", "GroupErrorsDisplay"),
    "grouping_diagram": ("grouping", "GroupingDiagram", "GroupingDisplay"),
    "interval_wise_diagram": ("interval_wise", "IntervalWise", "IntervalWiseDisplay"),
    "loss_budget_diagram": ("budget", "LossBudget", "LossBudgetDisplay"),
    "partition_composition_diagram": (
        "composition",
        "PartitionComposition",
        "PartitionCompositionDisplay",
    ),
    "reliability_diagram": ("reliability", "Reliability", "ReliabilityDisplay"),
    "risk_coverage_diagram": ("selective", "SelectivePrediction", "RiskCoverageDisplay"),
    "risk_curve_diagram": ("risk", "RiskCurves", "RiskCurveDisplay"),
    "score_intervals_diagram": ("score_intervals", "ScoreIntervals", "ScoreIntervalsDisplay"),
    "smooth_calibration_diagram": (
        "smooth_curve",
        "SmoothCalibration",
        "SmoothCalibrationDisplay",
    ),
    "sweep_diagram": ("sweep", "PartitionSweep", "SweepDisplay"),
    "top_k_diagram": ("top_k", "TopKCalibration", "TopKDisplay"),
}
DISPLAYS = {display: function for function, (_, _, display) in DIAGRAMS.items()}
MODULES = {
    "AlignedReliability": "aligned",
    "AlignedSharpness": "aligned_sharpness",
    "Diagram": "diagram",
    "Display": "displays",
    "ErrorsByModel": "model_errors",
    "FoldCurves": "folds",
    "LensTable": "lens_table",
    "OverlaidReliability": "overlaid",
    "PairedDifferences": "paired_differences",
    "Picture": "picture",
}
for _function, (_module, _numbers, _) in DIAGRAMS.items():
    MODULES |= {_function: _module, _numbers: _module}

__all__ = sorted({*MODULES, *DISPLAYS})


def named(name: str) -> Any:
    """The function, class or display of this name."""
    if name in DISPLAYS:
        from .displays import display_class

        return display_class(name, DISPLAYS[name])
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __getattr__(name: str) -> Any:
    if name not in MODULES and name not in DISPLAYS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(name)


def __dir__() -> list[str]:
    return __all__
