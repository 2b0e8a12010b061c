"""Sums over the rows of each cell, to about twice the digits of a float64: rounded once, at the
end, they are the same for every order of the rows."""

from __future__ import annotations

from .compiling import inline, kernel


@inline
def add_term(high, low, j, x):
    """Add x to high[j], and what that addition rounds off to low[j] (Knuth's two-sum; Ogita, Rump &
    Oishi 2005)."""
    s = high[j]
    t = s + x
    b = t - s
    low[j] += (s - (t - b)) + (x - b)
    high[j] = t


@kernel
def add_values(values, cell, high, low):
    """Add values to the sums of cells, [m]."""
    for i in range(values.size):
        add_term(high, low, cell[i], values[i])


@kernel
def add_event_rows(outputs, labels, weights, cell, high, low):
    """Add rows, w, w^2, w p and w hit to the sums of each cell, [m, 5]."""
    for i in range(outputs.size):
        w, at, rest = weights[i], high[cell[i]], low[cell[i]]
        at[0] += 1
        add_term(at, rest, 1, w)
        add_term(at, rest, 2, w * w)
        add_term(at, rest, 3, w * outputs[i])
        add_term(at, rest, 4, w * labels[i])


@kernel
def add_rows(outputs, labels, weights, cell, high, low):
    """The same of many outputs, [m, 3 + 2 d]: rows, w, w^2, the d sums of w p, and those of w
    hit."""
    d = outputs.shape[1]
    for i in range(outputs.shape[0]):
        w, row, at, rest = weights[i], outputs[i], high[cell[i]], low[cell[i]]
        at[0] += 1
        add_term(at, rest, 1, w)
        add_term(at, rest, 2, w * w)
        for k in range(d):
            add_term(at, rest, 3 + k, w * row[k])
        add_term(at, rest, 3 + d + labels[i], w)
