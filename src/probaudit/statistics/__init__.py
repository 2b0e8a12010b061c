"""Mergeable states, and the summary that estimates read."""

from .events import CELLS, COARSE_CELLS, EventGrid, EventSums
from .state import Plan, Statistics, weight_exponent
from .summary import ClassSums, Decisions, Grid, Summary

__all__ = [
    "CELLS",
    "COARSE_CELLS",
    "ClassSums",
    "Decisions",
    "EventGrid",
    "EventSums",
    "Grid",
    "Plan",
    "Statistics",
    "Summary",
    "weight_exponent",
]
