"""The clusters of an audit's rows: for the null models of its events, and in words."""

from __future__ import annotations

from collections.abc import Callable

from ..calibration.dependent_event import DependentEvent
from ..calibration.views import event_rows
from ..choices.lenses import Lens, View
from ..data.predictions import ONE_PER_IMAGE
from ..engines.good_rows import survey
from ..scoring.clusters import ClusteredRows
from ..states.evidence import Evidence
from ..text import counted


def clustered_rows(evidence: Evidence) -> ClusteredRows | None:
    """The good rows of the sample with their clusters; None without clusters."""
    sample = evidence.sample
    if sample.clusters is None:
        return None
    good = survey(sample).good
    fraction = len(good) / evidence.summary.rows if evidence.sampled else 1.0
    if ("clustered", fraction) not in sample.memo:
        sample.memo["clustered", fraction] = ClusteredRows(sample, good, fraction)
    clustered: ClusteredRows = sample.memo["clustered", fraction]
    return clustered


def dependent_event(evidence: Evidence, view: Callable[[], View]) -> DependentEvent | None:
    """An event of the sample's rows with their clusters; None without clusters."""
    rows = clustered_rows(evidence)
    return None if rows is None else DependentEvent(view(), rows.clusters)


def lens_event(evidence: Evidence, lens: Lens) -> DependentEvent | None:
    """The event of a lens."""
    return dependent_event(evidence, lambda: event_rows(evidence.sample, lens).view)


def cluster_words(evidence: Evidence) -> str:
    """The number of clusters, and the name of their column, if it has one."""
    rows, name = clustered_rows(evidence), evidence.sample.name("clusters")
    if rows is None:
        return ""
    if name == "clusters":
        return rows.words
    return f"{rows.words} ({name if name == ONE_PER_IMAGE else f'column {name}'})"


def rows_words(evidence: Evidence) -> str:
    """The number of rows, and of their clusters.

    >>> from probaudit import Predictions, audit
    >>> rows = Predictions([1, 0, 1], [0.9, 0.2, 0.7], clusters=["a", "b", "b"])
    >>> rows_words(audit(rows, repair=False).evidence)
    '3 rows in 2 clusters'
    """
    clusters = cluster_words(evidence)
    return counted(evidence.summary.rows) + (f" in {clusters}" if clusters else "")
