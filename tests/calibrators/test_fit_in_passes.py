"""Calibrators fitted to files in passes learn what they learn in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probaudit as pb
from probaudit import InputError
from probaudit.calibrators import (
    BetaCalibration,
    BiasCorrectedTemperature,
    DirichletCalibration,
    EnsembleTemperature,
    GroupCalibration,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    load,
)
from probaudit.calibrators.fitting import streaming
from probaudit.calibrators.fitting.streaming import fit_stream, fits_in_passes
from probaudit.calibrators.selection import fit_calibrator
from probaudit.cli.commands import app
from probaudit.data.work import Progress
from probaudit.engines.choosing import scan
from probaudit.states import Plan, evidence
from tests.conftest import softmax

N = 1_500
PLAIN = [
    VectorScaling(),
    MatrixScaling(),
    StructuredVectorScaling(),
    StructuredMatrixScaling(),
    PlattScaling(),
    BetaCalibration(),
    DirichletCalibration(),
]
CHOICES = [
    MatrixScaling(l2=0.01),
    MatrixScaling(l2=0.01, penalty="odir"),
    PlattScaling(smooth=False),
    BetaCalibration(parameters="ab"),
    BetaCalibration(parameters="am", monotone=False),
    DirichletCalibration(odir=(1e-3, 1e-2), l2=1e-3, ref_row=True),
]


def world(classes: int, scale: float = 0.6) -> pd.DataFrame:
    """Rows whose outputs z should have been `scale` z and some biases."""
    rng = np.random.default_rng(classes)
    z = 2 * rng.normal(size=(N, classes))
    y = (scale * z + 0.4 * rng.normal(size=classes) + rng.gumbel(size=z.shape)).argmax(axis=1)
    outputs = {"p": softmax(z), "z": z, "f": softmax(z).astype(np.float32)}
    columns = {
        f"{name}_{k}": values[:, k] for name, values in outputs.items() for k in range(classes)
    }
    return pd.DataFrame({"label": y, **columns, "w": rng.exponential(size=N)})


def spoilt(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that do not sum to 1, and rows without weight."""
    each = np.arange(N)
    return rows.assign(
        p_0=np.where(each % 90 == 5, 7.0, rows["p_0"]), w=np.where(each % 70 == 1, 0.0, rows["w"])
    )


ROWS = {
    "two classes": (world(2), {"probs": "p_*"}),
    "one column": (world(2), {"probs": "p_1"}),
    "one logit": (world(2), {"logits": "z_1"}),
    "three classes": (world(3), {"probs": "p_*"}),
    "float32": (world(4), {"probs": "f_*"}),
    "logits": (world(3), {"logits": "z_*"}),
    "weights": (world(3), {"probs": "p_*", "weight": "w"}),
    "dropped": (spoilt(world(3)), {"probs": "p_*", "weight": "w", "on_bad_rows": "drop"}),
    "falling": (world(3, -0.5), {"probs": "p_*"}),
    "a class without rows": (world(4).query("label != 2"), {"probs": "p_*"}),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Small blocks, and searches that start from a sample, as with many rows."""
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.BLOCK_VALUES", 2**10)
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.LEAST_SAMPLE", 32)


def in_files(rows: pd.DataFrame, folder):
    """Three files whose groups of rows do not end where blocks do."""
    folder.mkdir(exist_ok=True)
    for name, part in zip("abc", (rows[:611], rows[611:800], rows[800:]), strict=True):
        part.to_parquet(folder / f"{name}.parquet", row_group_size=217)
    return folder


def learned(calibrator) -> dict[str, np.ndarray]:
    found = {name: getattr(calibrator, name) for name in calibrator._fitted}
    return {
        name: np.concatenate(value) if isinstance(value, list) else np.asarray(value)
        for name, value in found.items()
    }


def assert_alike(found, expected):
    for name, value in learned(expected).items():
        np.testing.assert_allclose(
            learned(found)[name], value, rtol=0, atol=1e-7 * np.abs(value).max(), err_msg=name
        )
    probe = np.random.default_rng(0).dirichlet(np.ones(len(found.classes_)), 50)
    probe = np.log(probe) if found.from_logits else probe
    some = slice(1, None) if expected.n_features_in_ < len(found.classes_) else slice(None)
    wanted = expected.predict_proba(
        probe[:, some] - probe[:, :1] * (found.from_logits and some.start == 1)
    )
    np.testing.assert_allclose(found.predict_proba(probe), wanted, rtol=0, atol=1e-8)
    one, other = found.fit_report_, expected.fit_report_
    assert (one.converged, one.n) == (other.converged, other.n)
    assert one.score_before == pytest.approx(other.score_before, rel=1e-13)
    assert one.score_after == pytest.approx(other.score_after, rel=1e-9)
    # a step more or less may come of rounding
    assert one.status.split(" in ")[0] == other.status.split(" in ")[0]


# what the first method shows for all
SIMPLER = {"one column", "three classes", "float32", "a class without rows"}
CASES = [
    (method, name)
    for k, method in enumerate(PLAIN)
    for name in ROWS
    if k == 0 or name not in SIMPLER
] + [(method, name) for method in CHOICES for name in ("dropped", "falling")]


@pytest.mark.parametrize(("method", "name"), CASES, ids=repr)
def test_a_stream_teaches_what_memory_does(tmp_path, method, name):
    rows, options = ROWS[name]
    folder = in_files(rows, tmp_path / "rows")
    found, expected = (
        fit_stream(method, scan(folder, **options)),
        fit_calibrator(pb.read(folder, **options), method),
    )
    assert_alike(found, expected)
    if "weight" not in options:  # the blocks are the same, and so is every bit
        for name, value in learned(expected).items():
            np.testing.assert_array_equal(learned(found)[name], value)


@pytest.mark.parametrize("method", [PlattScaling(), BetaCalibration()], ids=repr)
def test_all_classes_share_passes(tmp_path, monkeypatch, method):
    passes = []
    each = streaming._each_of_source

    def counted(*args):
        passes[-1] += 1
        return each(*args)

    monkeypatch.setattr(streaming, "_each_of_source", counted)
    for classes in (3, 12):
        passes.append(0)
        fit_stream(method, scan(in_files(world(classes), tmp_path / str(classes)), probs="p_*"))
    assert max(passes) <= 20  # with one class after the other, twelve would need a hundred


def test_which_calibrators_learn_from_sums(tmp_path):
    assert all(
        map(fits_in_passes, [*PLAIN, *CHOICES, TemperatureScaling(), BiasCorrectedTemperature()])
    )
    source = scan(in_files(world(2), tmp_path / "rows"), probs="p_*")
    for other in (IsotonicCalibration(), EnsembleTemperature(), GroupCalibration()):
        assert not fits_in_passes(other)
        with pytest.raises(InputError, match=type(other).__name__):
            fit_stream(other, source)


@pytest.mark.parametrize(
    "method",
    [
        MatrixScaling(l2=-1),
        MatrixScaling(penalty="l1"),
        BetaCalibration(parameters="abc"),
        DirichletCalibration(odir=-1),
    ],
    ids=repr,
)
def test_choices_are_checked_before_any_row_is_read(method):
    def read(job, rows):
        raise AssertionError("a row was read")

    plan = Plan.of(pb.Predictions([0, 1], np.full((2, 2), 0.5)))
    with pytest.raises(InputError):
        streaming.fit_in_passes(method, plan, 2, read)


@pytest.mark.parametrize(
    "method", [VectorScaling(), PlattScaling(), DirichletCalibration()], ids=repr
)
def test_blocks_and_threads_change_rounding_only(monkeypatch, method):
    rows = world(3)
    P, y = rows[["p_0", "p_1", "p_2"]].to_numpy(), rows["label"].to_numpy()
    many = fit_calibrator(pb.Predictions(y, P), method)
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.default_threads", lambda: 1)
    np.testing.assert_array_equal(
        fit_calibrator(pb.Predictions(y, P), method).predict_proba(P), many.predict_proba(P)
    )
    monkeypatch.setattr("probaudit.calibrators.fitting.softmax_sums.BLOCK_VALUES", 2**20)
    np.testing.assert_allclose(
        fit_calibrator(pb.Predictions(y, P), method).predict_proba(P),
        many.predict_proba(P),
        atol=1e-8,
    )


def test_progress_of_each_pass(tmp_path, monkeypatch):
    passes = []

    class Counted(Progress):
        def __init__(self, total, show):
            super().__init__(total, False)
            passes.append([total, show, 0])

        def advance(self, rows):
            passes[-1][2] += rows

    monkeypatch.setattr(streaming, "Progress", Counted)
    fit_stream(
        TemperatureScaling(),
        scan(in_files(world(2), tmp_path / "rows"), probs="p_*"),
        progress=True,
    )
    assert len(passes) > 3
    assert passes == [[N, True, N]] * len(passes)


def test_the_command_line_fits_to_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "SAMPLE_ROWS", 200)
    folder = in_files(world(2), tmp_path / "rows")
    done = CliRunner().invoke(
        app,
        [
            "calibrate",
            str(folder),
            "--probs",
            "p_*",
            "--method",
            "platt",
            "-o",
            str(tmp_path / "c.json"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "sample of 200 of 1,500 rows" in done.output
    assert_alike(
        load(tmp_path / "c.json"), fit_calibrator(pb.read(folder, probs="p_*"), PlattScaling())
    )
