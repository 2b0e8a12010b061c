"""Sums over the rows of each cell."""

from __future__ import annotations

from .compiling import kernel


@kernel
def add_event_rows(outputs, labels, weights, cell, sums):
    """Add rows, w, w^2, w p and w hit to the sums of each cell, [m, 5]."""
    for i in range(outputs.size):
        w, at = weights[i], sums[cell[i]]
        at[0] += 1
        at[1] += w
        at[2] += w * w
        at[3] += w * outputs[i]
        at[4] += w * labels[i]


@kernel
def add_rows(outputs, labels, weights, cell, sums, products, hits):
    """The same of many outputs: rows, w and w^2 go to the sums, [m, 3], w p to the products and w hit to the hits, [m, d]."""
    for i in range(outputs.shape[0]):
        w, row, at, total = weights[i], outputs[i], sums[cell[i]], products[cell[i]]
        at[0] += 1
        at[1] += w
        at[2] += w * w
        for k in range(row.size):
            total[k] += w * row[k]
        hits[cell[i], labels[i]] += w
