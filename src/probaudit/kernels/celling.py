"""Sums of many outputs over the rows of each cell."""

from __future__ import annotations

from .compiling import kernel


@kernel
def add_rows(outputs, labels, weights, cell, sums, hits):
    """sums[c] += w outputs[i] and hits[c, label] += w for the rows i of each cell c; sums and hits are [m, d]."""
    for i in range(outputs.shape[0]):
        w, row, total = weights[i], outputs[i], sums[cell[i]]
        for k in range(row.size):
            total[k] += w * row[k]
        hits[cell[i], labels[i]] += w
