"""Mergeable states, and the summary that estimates read."""

from .state import CELLS, Plan, Statistics, weight_exponent
from .summary import ClassSums, Decisions, Grid, Summary

__all__ = ["CELLS", "ClassSums", "Decisions", "Grid", "Plan", "Statistics", "Summary", "weight_exponent"]
