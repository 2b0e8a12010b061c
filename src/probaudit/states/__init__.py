"""Mergeable states, and the summary that estimates read."""

from .audit_state import AuditState
from .events import CELLS, COARSE_CELLS, EventGrid, EventSums
from .evidence import Evidence, sample_size
from .plan import Plan, weight_exponent
from .state import Statistics
from .summary import ClassSums, Decisions, Grid, Summary

__all__ = [
    "CELLS",
    "COARSE_CELLS",
    "AuditState",
    "ClassSums",
    "Decisions",
    "EventGrid",
    "EventSums",
    "Evidence",
    "Grid",
    "Plan",
    "Statistics",
    "Summary",
    "sample_size",
    "weight_exponent",
]
