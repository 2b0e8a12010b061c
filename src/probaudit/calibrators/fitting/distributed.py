"""Fit calibrators on a Dask cluster: workers sum over blocks of rows and send only the sums."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...engines.cluster import PartitionedRows, connected, each_block
from ...states import Plan
from .streaming import C, fit_in_passes

if TYPE_CHECKING:
    from distributed import Client


def fit_on_cluster(
    calibrator: C, source: PartitionedRows, plan: Plan, *, client: Client | None = None
) -> C:
    """A copy of a calibrator, fitted to all rows of a source in repeated passes.

    The blocks do not depend on the partitions of the source. They are those of the fit in memory,
    so that the results are identical.
    """
    with connected(client) as client:
        rows = max(part.end for part in source.parts)
        return fit_in_passes(calibrator, plan, rows, partial(each_block, client, source))
