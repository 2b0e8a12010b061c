"""The outputs of rows that lenses show."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def top_label(probs: Array, bits: Array, labels: Array, outputs: Array, hits: Array) -> None:
    most = bits.argmax(axis=1)
    outputs[:] = probs[np.arange(len(probs)), most]
    hits[:] = most == labels


def top_k(probs: Array, bits: Array, labels: Array, outputs: Array, places: Array) -> None:
    k = outputs.shape[1] - 1
    top = np.sort(bits, axis=1)[:, : -k - 1 : -1]
    outputs[:, :k] = np.ascontiguousarray(top).view(probs.dtype)
    total = np.add.accumulate(outputs[:, :k].astype(np.float64), axis=1)[:, -1]
    outputs[:, k] = np.maximum(1 - total, 0.0)
    label = np.take_along_axis(bits, labels[:, None].astype(np.int64), axis=1)
    larger = (top > label).sum(axis=1)
    before = np.arange(bits.shape[1]) < labels[:, None]
    places[:] = np.minimum(k, larger + ((bits == label) & before).sum(axis=1))


def group_sums(probs: Array, member: Array, outputs: Array) -> None:
    sums = np.zeros((outputs.shape[1], len(probs)))
    for group, p in zip(member, probs.T, strict=True):
        sums[group] += p
    outputs[:] = np.minimum(sums, 1.0).T
