"""Dense outputs: maps [n, K, ...] of images, sequences or volumes, read as rows of pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import Columns

CHUNK_VALUES = 2**20  # outputs gathered at a time for scattered rows
SHAPES = "labels [n, ...] need outputs [n, K, ...], or [n, 1, ...] for the second of two classes"


class PixelRows:
    """Maps [n, K, ...] as a matrix [n x pixels, K], image after image. Nothing is copied until rows
    are indexed; then those rows are, as a C-ordered array.

    >>> maps = PixelRows(np.arange(12.0).reshape(2, 3, 1, 2))
    >>> maps.shape, maps[1:3].tolist()
    ((4, 3), [[1.0, 3.0, 5.0], [6.0, 8.0, 10.0]])
    """

    ndim = 2

    def __init__(self, maps: np.ndarray) -> None:
        self._maps, self.dtype = maps, maps.dtype
        self.pixels = math.prod(maps.shape[2:])
        self.shape = len(maps) * self.pixels, int(maps.shape[1])
        self.size, self.nbytes = maps.size, maps.nbytes

    def min(self) -> Any:
        """The least value; NaN if there is one."""
        return self._maps.min()

    def __len__(self) -> int:
        return self.shape[0]

    def part(self, first: int, last: int) -> Columns | None:
        """A range of rows by column and without a copy; None if it spans images, or if the classes
        of an image are not contiguous arrays."""
        image, begin = divmod(first, self.pixels)
        end = min(last, len(self)) - image * self.pixels
        if end > self.pixels or self.dtype not in (np.float32, np.float64):
            return None
        planes = self._maps[image]
        if not all(plane.flags.c_contiguous and plane.flags.aligned for plane in planes):
            return None
        return Columns([plane.reshape(-1)[begin:end] for plane in planes])

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, tuple):
            return np.asarray(self[rows[0]][(slice(None), *rows[1:])])
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            return self._between(first, last) if step == 1 else self[np.arange(first, last, step)]
        places = np.asarray(rows)
        return self._at(np.flatnonzero(places) if places.dtype == bool else places)

    def _between(self, first: int, last: int) -> np.ndarray:
        found = np.empty((max(0, last - first), self.shape[1]), self.dtype)
        at = first
        while at < last:
            image, begin = divmod(at, self.pixels)
            count = min(self.pixels - begin, last - at)
            planes = self._maps[image].reshape(self.shape[1], -1)
            found[at - first : at - first + count] = planes[:, begin : begin + count].T
            at += count
        return found

    def _at(self, rows: np.ndarray) -> np.ndarray:
        found = np.empty((*rows.shape, self.shape[1]), self.dtype)
        step = max(1, CHUNK_VALUES // self.shape[1])
        flat, out = rows.reshape(-1), found.reshape(-1, self.shape[1])
        for first in range(0, len(flat), step):
            image, pixel = np.divmod(flat[first : first + step], self.pixels)
            place: tuple[Any, ...] = np.unravel_index(pixel, self._maps.shape[2:])
            out[first : first + step] = self._maps[(image, slice(None), *place)]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


def pixel_rows(outputs: np.ndarray, labels: np.ndarray, argument: str) -> Any:
    """Outputs of dense labels [n, ...] as rows: a matrix, or a vector for a single channel. Raises
    if the shapes do not fit.

    >>> pixel_rows(np.zeros((2, 1, 4, 4)), np.zeros((2, 4, 4)), "probs").shape
    (32,)
    """
    if outputs.shape == labels.shape or outputs.shape == (len(labels), 1, *labels.shape[1:]):
        return outputs.reshape(-1)
    if outputs.shape[:1] + outputs.shape[2:] != labels.shape:
        raise InputError(
            argument, SHAPES, f"labels have shape {labels.shape}, outputs {outputs.shape}"
        )
    return PixelRows(outputs)


def per_pixel(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values of images [n], or of pixels [n, ...], as one value per pixel. Other shapes are
    returned unchanged.

    >>> per_pixel(np.array(["a", "b"]), (2, 1, 2)).tolist()
    ['a', 'a', 'b', 'b']
    """
    if values.shape == shape:
        return values.reshape(-1)
    return np.repeat(values, math.prod(shape[1:])) if values.shape == shape[:1] else values
