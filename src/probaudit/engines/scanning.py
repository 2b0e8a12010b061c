"""Rows that stay where they are: in files, or in the partitions of a dask DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from ..files.reading import ReadOptions
    from .dask_rows import DaskRows
    from .row_source import RowSource


def scan(source: Any, **options: Unpack[ReadOptions]) -> RowSource | DaskRows:
    """As `read`, but the rows stay where they are, which may be more than memory holds. `audit`
    takes what it gives.

    source : a .parquet, .arrow, .csv or .tsv file, a folder of them, a pattern such as
        "day-*.parquet" or "runs/**/*.csv", or a list of paths, taken in the order of their paths;
        or a dask DataFrame. Folders called name=value give columns, as for `read`.
    options : as for `read`.
    """
    if hasattr(source, "__dask_graph__"):
        from .dask_rows import DaskRows

        return DaskRows.of_frame(source, **options)
    from .row_source import scan as scan_files

    return scan_files(source, **options)
