"""Rows that a cluster reads in parts: dask collections, and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from ..choices.scores import Cost
from ..data.arrays import as_array, as_numbers, is_missing
from ..data.predictions import Predictions
from ..errors import InputError
from ..files.layout import ReadOptions, layout_of
from ..files.reading import read
from ..files.row_files import runs_of
from ..files.tables import column_names
from ..states import Plan, weight_exponent
from .cluster import Blocks, Reader, RowPart, computed, connected
from .row_source import Piece, RowSource, numbered

if TYPE_CHECKING:
    from distributed import Client

# values of one part of files; a larger row group is a part by itself
PART_VALUES = 2**23


class PartFacts(NamedTuple):
    """Facts about a part, known before the pass: its number of rows, its largest weight, and the
    first row whose label is not missing."""

    rows: int
    largest: float
    labelled: int | None


@dataclass(frozen=True, eq=False)
class DaskRows:
    """The partitions of a dask DataFrame, or the chunks of dask arrays. Rows are numbered in their
    order.

    read : turns a part into `Predictions`. first : one row whose label is not missing; it has the
        kind, classes and tolerance of all rows.
    """

    parts: tuple[RowPart, ...]
    read: Callable[[Any], Predictions]
    first: Predictions
    weight_exponent: int | None

    @classmethod
    def of_frame(
        cls, frame: Any, *, client: Client | None = None, **options: Unpack[ReadOptions]
    ) -> DaskRows:
        """Rows of a dask DataFrame; `options` are those of `read`. Labels and weights are computed
        immediately, before the pass."""
        frame = frame.rename(
            columns={
                name: text for text, name in column_names(list(frame.columns), "the frame").items()
            }
        )
        layout = layout_of(
            list(frame.columns), lambda name: as_array(frame._meta[name], name), **options
        )
        early = [layout.label] if layout.weight is None else [layout.label, layout.weight]
        whole, some = frame[list(layout.needed)].to_delayed(), frame[early].to_delayed()
        facts_of = partial(_facts_of_frame, label=layout.label, weight=layout.weight)
        return _surveyed(
            whole, some, facts_of, _one_row_of_frame, partial(_read_frame, options), client
        )

    @classmethod
    def of_arrays(
        cls, y: Any, probs: Any, *, client: Client | None = None, **options: Any
    ) -> DaskRows:
        """Rows of dask arrays: labels [n], outputs [n] or [n, K]. `options` are those of
        `Predictions`; `sample_weight`, `features` and `clusters` may be dask arrays too."""
        names = [
            name
            for name in ("sample_weight", "features", "clusters")
            if options.get(name) is not None
        ]
        whole = _chunks_of_rows(
            {"y": y, "probs": probs} | {name: options.pop(name) for name in names}
        )
        some = [
            {name: chunk[name] for name in ("y", "sample_weight") if name in chunk}
            for chunk in whole
        ]
        return _surveyed(
            whole,
            some,
            _facts_of_arrays,
            _one_row_of_arrays,
            partial(_read_arrays, options),
            client,
        )

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.first.class_order

    @property
    def reader(self) -> Reader:
        return partial(_whole, self.read)

    def plan(self, costs: Mapping[str, Cost] | None = None, reject_cost: float = 0.1) -> Plan:
        """The same plan as `Plan.of` for these rows in memory."""
        return replace(
            Plan.of(self.first, costs, reject_cost), weight_exponent=self.weight_exponent
        )


@dataclass(frozen=True, eq=False)
class FileRows:
    """Files, divided into parts of whole row groups. Every worker must find them at the same
    paths."""

    source: RowSource

    @property
    def parts(self) -> tuple[RowPart, ...]:
        most = max(1, PART_VALUES // len(self.source.schema.names))
        pieces = self.source.pieces
        groups = [
            pieces[run.start : run.stop] for run in runs_of([piece.rows for piece in pieces], most)
        ]
        return tuple(
            RowPart(group[0].first_row, sum(piece.rows for piece in group), list(group))
            for group in groups
        )

    @property
    def reader(self) -> Reader:
        return partial(_groups, self.source)


def _whole(read: Callable[[Any], Predictions], content: Any, start: int) -> Blocks:
    yield start, numbered(read, content, start)


def _groups(source: RowSource, content: Sequence[Piece], start: int) -> Blocks:
    for piece in content:
        for first, batch in source.batches(piece):
            yield first, numbered(source.predictions, batch, first)


def _surveyed(
    whole: Sequence[Any],
    some: Sequence[Any],
    facts_of: Callable[[Any], PartFacts],
    one_row: Callable[[Any, int], Any],
    read: Callable[..., Predictions],
    client: Client | None,
) -> DaskRows:
    """Count the rows, and find the largest weight and a row with a label."""
    from dask.delayed import delayed

    with connected(client) as client:
        facts: list[PartFacts] = computed(
            client, [delayed(facts_of, pure=False)(part) for part in some]
        )
        filled = [place for place, found in enumerate(facts) if found.rows] or [0]
        place = next((place for place in filled if facts[place].labelled is not None), filled[0])
        row = facts[place].labelled or 0
        (shown,) = computed(client, [delayed(one_row, pure=False)(whole[place], row)])
    starts = np.cumsum([0, *(found.rows for found in facts)]).tolist()
    first = numbered(read, shown, starts[place] + row)
    decided = partial(read, classes=first.class_order, tolerance=first.row_tolerance)
    largest = np.array([found.largest for found in facts])
    parts = tuple(
        RowPart(start, found.rows, part)
        for start, found, part in zip(starts, facts, whole, strict=False)
    )
    return DaskRows(
        parts, decided, first, None if first.sample_weight is None else weight_exponent(largest)
    )


def _facts(labels: np.ndarray, weights: np.ndarray | None) -> PartFacts:
    largest = (
        0.0 if weights is None else float(np.max(weights, initial=0.0, where=np.isfinite(weights)))
    )
    plain = labels.dtype.kind not in "OfM"
    present = (
        range(len(labels))
        if plain
        else (i for i, label in enumerate(labels.flat) if not is_missing(label))
    )
    return PartFacts(len(labels), largest, next(iter(present), None))


def _facts_of_frame(frame: Any, label: str, weight: str | None) -> PartFacts:
    weights = None if weight is None else as_numbers(frame[weight], weight).astype(np.float64)
    return _facts(as_array(frame[label], label), weights)


def _one_row_of_frame(frame: Any, row: int) -> Any:
    return frame.iloc[row : row + 1]


def _read_frame(options: ReadOptions, frame: Any, **decided: Any) -> Predictions:
    rows = read(frame, **{**options, **decided})
    rows.zero_rounding_errors()
    return rows


def _facts_of_arrays(arrays: Mapping[str, np.ndarray]) -> PartFacts:
    weights = arrays.get("sample_weight")
    return _facts(
        np.asarray(arrays["y"]), None if weights is None else as_numbers(weights, "sample_weight")
    )


def _one_row_of_arrays(arrays: Mapping[str, np.ndarray], row: int) -> Mapping[str, np.ndarray]:
    return {name: array[row : row + 1] for name, array in arrays.items()}


def _read_arrays(
    options: Mapping[str, Any], arrays: Mapping[str, np.ndarray], **decided: Any
) -> Predictions:
    rows = Predictions(**{**arrays, **options, **decided})
    rows.zero_rounding_errors()
    return rows


def _chunks_of_rows(arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Delayed chunks of whole rows, each with the same rows of all arrays, divided like the
    outputs."""
    from dask import array as da

    probs = da.asarray(arrays["probs"])
    unknown = bool(np.isnan(probs.shape[0]))
    columns: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        array = da.asarray(array)
        if array.ndim not in (1, 2):
            raise InputError(name, "must be [rows] or [rows, columns]", f"has shape {array.shape}")
        if not unknown and array.shape[0] != probs.shape[0]:
            raise InputError(
                name, f"needs one entry per row of `probs` ({probs.shape[0]})", array.shape[0]
            )
        if unknown and array.numblocks[0] != probs.numblocks[0]:
            raise InputError(
                name,
                "must have the same chunks of rows as `probs`",
                f"{array.numblocks[0]} chunks, not {probs.numblocks[0]}",
                way_out=("rechunk it, or call `compute_chunk_sizes` on both first",),
            )
        rows = {} if unknown else {0: probs.chunks[0]}
        array = (
            array.rechunk({**rows, 1: -1} if array.ndim == 2 else rows)
            if rows or array.ndim == 2
            else array
        )
        columns[name] = array.to_delayed().reshape(-1).tolist()
    return [dict(zip(columns, chunk, strict=True)) for chunk in zip(*columns.values(), strict=True)]
