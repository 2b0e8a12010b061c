"""Diagrams: plain data first, then two thin drawers.

Nothing is loaded until a diagram is named; matplotlib and altair, not until one is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = {
    "AlignedReliability": "aligned",
    "CalibrationSharpness": "sharpness",
    "CalibrationSharpnessDisplay": "displays",
    "ClasswiseDisplay": "displays",
    "ClasswiseReliability": "classwise",
    "DecisionRegions": "decisions",
    "DecisionRegionsDisplay": "displays",
    "Diagram": "diagram",
    "Display": "displays",
    "GroupErrors": "group_errors",
    "GroupErrorsDisplay": "displays",
    "GroupingDiagram": "grouping",
    "GroupingDisplay": "displays",
    "IntervalWise": "interval_wise",
    "IntervalWiseDisplay": "displays",
    "LossBudget": "budget",
    "LossBudgetDisplay": "displays",
    "PartitionComposition": "composition",
    "PartitionCompositionDisplay": "displays",
    "PartitionSweep": "sweep",
    "Picture": "picture",
    "Reliability": "reliability",
    "ReliabilityDisplay": "displays",
    "RiskCurveDisplay": "displays",
    "RiskCurves": "risk",
    "ScoreIntervals": "score_intervals",
    "ScoreIntervalsDisplay": "displays",
    "SmoothCalibration": "smooth_curve",
    "SmoothCalibrationDisplay": "displays",
    "SweepDisplay": "displays",
    "TopKCalibration": "top_k",
    "TopKDisplay": "displays",
    "calibration_sharpness_diagram": "sharpness",
    "classwise_diagram": "classwise",
    "decision_regions_diagram": "decisions",
    "group_errors_diagram": "group_errors",
    "grouping_diagram": "grouping",
    "interval_wise_diagram": "interval_wise",
    "loss_budget_diagram": "budget",
    "partition_composition_diagram": "composition",
    "reliability_diagram": "reliability",
    "risk_curve_diagram": "risk",
    "score_intervals_diagram": "score_intervals",
    "smooth_calibration_diagram": "smooth_curve",
    "sweep_diagram": "sweep",
    "top_k_diagram": "top_k",
}

__all__ = list(MODULES)


def named(name: str) -> Any:
    """What this package calls so."""
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(name)


def __dir__() -> list[str]:
    return sorted(MODULES)
