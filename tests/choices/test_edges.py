"""The edges of bins: one rule for rows and for the fine grid, right for the decimals that people
write."""

from __future__ import annotations

import numpy as np
import pytest

import probaudit as pb
from probaudit.calibration.cells import gather_class_cells
from probaudit.data.columns import Columns
from probaudit.states import CELLS, COARSE_CELLS, Plan
from probaudit.states.evidence import EvidenceState

DTYPES = (np.float64, np.float32)
BINS = [bins for bins in range(1, CELLS + 1) if CELLS % bins == 0]


def edges(bins: int, dtype: type) -> np.ndarray:
    return np.array([k / bins for k in range(bins + 1)], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_at_an_edge_are_in_the_bin_above_it(dtype):
    for bins in BINS:
        number, p = np.arange(bins + 1), edges(bins, dtype)
        assert pb.EqualWidth(bins).cells(p).tolist() == [*range(bins), bins - 1]
        assert pb.EqualWidth(bins, right=True).cells(p).tolist() == [0, *range(bins)]
        below = pb.EqualWidth(bins).cells((p[1:] * (1 - 1e-6)).astype(dtype))
        assert (below == number[:-1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins", [10, 15, 24, 175])
def test_given_edges_have_the_same_rule(bins, dtype):
    p = edges(bins, dtype)
    for right in (False, True):
        given = pb.Edges(np.arange(bins + 1) / bins, right=right).cells(p)
        assert given.tolist() == pb.EqualWidth(bins, right=right).cells(p).tolist()


def test_errors_of_neighbouring_bins_do_not_cancel():
    """Forecasts of .2 of which 30% happen and of .3 of which 20% do: they were in one bin."""
    p = np.repeat([0.2, 0.3], 1000)
    y = np.r_[np.arange(1000) < 300, np.arange(1000) < 200].astype(int)
    for dtype in DTYPES:
        for exact in (True, False):
            found = pb.calibration_error(
                y, p.astype(dtype), lens=pb.Binary(), partition=pb.EqualWidth(10), exact=exact
            )
            assert float(found) == pytest.approx(0.1, abs=1e-7)


def worlds(K: int, dtype: type) -> np.ndarray:
    """Rows in which the second class has every edge of some bins, and the others what it leaves."""
    p = np.unique(
        np.concatenate([edges(bins, np.float64) for bins in (10, 24, 28, 35, 120, 168)])
    ).astype(dtype)
    rows = np.zeros((len(p), K), dtype)
    rows[:, 1] = p
    rows[:, 0] = 1 - p
    return rows


PATHS = {
    "rows": lambda y, p: pb.Predictions(y, p),
    "columns": lambda y, p: pb.Predictions(y, np.asfortranarray(p)),
    "columns apart": lambda y, p: pb.Predictions(y, Columns([column.copy() for column in p.T])),
    "weights": lambda y, p: pb.Predictions(y, p, sample_weight=np.linspace(0.5, 1, len(y))),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", [2, 3, 20, 40])
def test_the_grid_decides_as_rows_do(K, dtype, path):
    p = worlds(K, dtype)
    y = np.random.default_rng(0).integers(0, 2, len(p))
    given = PATHS[path](y, p)
    state = EvidenceState(Plan.of(given)).update(
        given.block(0, len(p), by_column=path.startswith("columns"))
    )
    found = state.evidence(pb.Predictions(y, p))
    shown = [(found.top, p.max(axis=1))] + [(found.classes[k], p[:, k]) for k in range(min(K, 3))]
    for sums, outputs in shown:
        cells = len(sums.rows)
        for bins in (bins for bins in BINS if cells % bins == 0 and bins <= COARSE_CELLS):
            on_grid = sums.rows.reshape(bins, -1).sum(axis=1)
            assert (
                on_grid.tolist()
                == np.bincount(pb.EqualWidth(bins).cells(outputs), minlength=bins).tolist()
            )
        assert sums.outputs.sum() == pytest.approx(
            float((outputs.astype(np.float64) * sums_weights(path, len(p))).sum()), rel=1e-9
        )


def sums_weights(path: str, n: int) -> np.ndarray:
    return np.linspace(0.5, 1, n) if path == "weights" else np.ones(n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("right", [False, True])
def test_all_classes_in_one_pass_decide_as_one_does(dtype, right):
    p, bins = worlds(70, dtype), pb.EqualWidth(10, right=right)
    y, ones = np.zeros(len(p), np.int64), np.ones(len(p))
    found = gather_class_cells(p, y, ones, p.sum(axis=0, dtype=np.float64), bins)
    for k in range(3):
        assert found.rows[k].tolist() == np.bincount(bins.cells(p[:, k]), minlength=10).tolist()
    joint = bins.cells(p)
    pairs = {
        (a, b) for a, b in zip(joint, bins.cells(p[:, 1]) * 10 + bins.cells(p[:, 0]), strict=True)
    }
    assert len(pairs) == len(set(joint.tolist()))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition": pb.EqualMass(15)},
        {"partition": pb.KDTree()},
        {"lens": pb.Classwise()},
        {"lens": pb.Classwise(), "partition": pb.KDTree()},
        {"lens": pb.Full(), "partition": pb.EqualWidth(3)},
    ],
)
def test_the_order_of_rows_does_not_matter(options, weighted):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(4, 0.3), 3000)
    y, weights = rng.integers(0, 4, 3000), rng.gamma(0.5, size=3000) if weighted else None
    found = set()
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(3000)
        given = None if weights is None else weights[order]
        found.add(float(pb.calibration_error(y[order], p[order], sample_weight=given, **options)))
    assert len(found) == 1
