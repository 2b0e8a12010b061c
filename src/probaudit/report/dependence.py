"""The clusters of an audit's rows, as its sample shows them."""

from __future__ import annotations

from ..estimates.clusters import ClusteredRows
from ..estimates.dependent_event import DependentEvent
from ..lenses import View
from ..statistics.evidence import Evidence
from ..viewing import survey


def clustered_rows(evidence: Evidence) -> ClusteredRows | None:
    """The rows of the sample that count, if rows have clusters."""
    sample = evidence.sample
    if sample.clusters is None:
        return None
    good = survey(sample).good
    fraction = len(good) / evidence.summary.rows if evidence.sampled else 1.0
    if ("clustered", fraction) not in sample.memo:
        sample.memo["clustered", fraction] = ClusteredRows(sample, good, fraction)
    found: ClusteredRows = sample.memo["clustered", fraction]
    return found


def dependent_event(rows: ClusteredRows | None, view: View) -> DependentEvent | None:
    """What all these rows say about an event, if they are in clusters."""
    return None if rows is None else DependentEvent(view, rows.clusters)
