"""Calibrators as ONNX: onnxruntime gives what the calibrator gives, on rows that neither has
seen."""

from __future__ import annotations

import builtins
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from probaudit import calibrators
from probaudit.calibrators.export import onnx_export as exporting
from probaudit.calibrators.export.onnx_export import CheckRows, to_onnx
from probaudit.errors import InputError
from tests.conftest import softmax

FAMILIES = {
    "identity": calibrators.Identity,
    "temperature": calibrators.TemperatureScaling,
    "biases": calibrators.BiasCorrectedTemperature,
    "ensemble": calibrators.EnsembleTemperature,
    "ensemble log": lambda **choices: calibrators.EnsembleTemperature(loss="log", **choices),
    "vector": calibrators.VectorScaling,
    "matrix": lambda **choices: calibrators.MatrixScaling(l2=0.01, **choices),
    "dirichlet": calibrators.DirichletCalibration,
    "platt": calibrators.PlattScaling,
    "beta": calibrators.BetaCalibration,
    "beta am": lambda **choices: calibrators.BetaCalibration(parameters="am", **choices),
    "isotonic": calibrators.IsotonicCalibration,
    "isotonic plain": lambda **choices: calibrators.IsotonicCalibration(finite=False, **choices),
    "isotonic centred": lambda **choices: calibrators.IsotonicCalibration(centred=True, **choices),
    "structured vector": calibrators.StructuredVectorScaling,
    "structured matrix": calibrators.StructuredMatrixScaling,
    "venn abers": calibrators.VennAbers,
    "venn abers folds": lambda **choices: calibrators.VennAbers(folds=3, **choices),
    "irm": calibrators.IRM,
    "irm loose": lambda **choices: calibrators.IRM(strict=False, **choices),
    "histogram": calibrators.HistogramBinning,
    "histogram mass": lambda **choices: calibrators.HistogramBinning(
        bins=7, equal="mass", **choices
    ),
    "one bin": lambda **choices: calibrators.HistogramBinning(bins=1, **choices),
    "bbq": calibrators.BBQ,
    "gaussian process": calibrators.GaussianProcessCalibration,
    "mean replacement": calibrators.MeanReplacement,
    "priors": calibrators.PriorCorrection,
    "chain": lambda **choices: calibrators.Chain(
        [calibrators.TemperatureScaling(), calibrators.BetaCalibration()], **choices
    ),
    "chain of curves": lambda **choices: calibrators.Chain(
        [calibrators.IRM(), calibrators.IsotonicCalibration()], **choices
    ),
    "empty chain": calibrators.Chain,
    "per group": calibrators.PerGroup,
    "multicalibration": calibrators.MultiCalibration,
    "multicalibration rounds": lambda **choices: calibrators.MultiCalibration(rounds=9, **choices),
    "groups": lambda **choices: calibrators.GroupCalibration(n_partitions=4, **choices),
    "groups of curves": lambda **choices: calibrators.GroupCalibration(
        calibrators.IsotonicCalibration(), n_groups=3, n_partitions=3, min_rows=100, **choices
    ),
}
each_family = pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())


def world(n, classes, seed=0, size=3.0):
    """Logits that are twice too large, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=size / 2, size=(n, classes))
    y = (softmax(z).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    return 2 * z, y


def ran(model, P, **others):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["probabilities", "label"], {"P": P} | others)


def facts(model):
    return {fact.key: fact.value for fact in model.metadata_props}


def test_every_calibrator_is_here():
    found = {type(make()) for make in FAMILIES.values()}
    named = {getattr(calibrators, name) for name in calibrators.MODULES}
    known = {
        one for one in named if isinstance(one, type) and issubclass(one, calibrators.Calibrator)
    }
    assert found == known - {calibrators.Calibrator}


@each_family
@pytest.mark.parametrize("from_logits", [False, True], ids=["probabilities", "logits"])
@pytest.mark.parametrize("classes", [2, 3, 12])
def test_the_graph_gives_what_the_calibrator_gives(make, from_logits, classes):
    (z, y), (new, _) = world(300, classes), world(500, classes, seed=1, size=8.0)
    P, fresh = (z, new) if from_logits else (softmax(z), softmax(new))
    fit = make(from_logits=from_logits).fit(P, y)
    found, label = ran(to_onnx(fit), fresh)
    expected = fit.predict_proba(fresh)
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() < 1e-12  # measured: 6e-14
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-12
    np.testing.assert_array_equal(label, found.argmax(axis=1))
    if fit.accuracy_preserving:
        np.testing.assert_array_equal(label, fresh.argmax(axis=1))


@each_family
def test_a_class_without_rows(make):
    z, y = world(300, 4)
    P, y = softmax(z), np.where(y == 2, 3, y)
    fit = make(classes=["a", "b", "c", "d"]).fit(P, np.array(list("abcd"))[y])
    fresh = softmax(world(400, 4, seed=1)[0])
    model = to_onnx(fit, check=fresh)
    assert np.abs(ran(model, fresh)[0] - fit.predict_proba(fresh)).max() < 1e-12
    assert json.loads(facts(model)["classes"]) == ["a", "b", "c", "d"]


@each_family
def test_certain_and_tied_rows(make):
    z, y = world(300, 3)
    fit = make().fit(softmax(z), y)
    P = np.array(
        [
            [1, 0, 0],
            [0, 0, 1],
            [0.5, 0, 0.5],
            [0, 0.5, 0.5],
            [0.2, 0.4, 0.4],
            [1 - 2.0**-53, 2.0**-53, 0],
            [1, 5e-324, 0],
        ]
    )
    found, label = ran(to_onnx(fit, check=P), P)
    assert np.abs(found - fit.predict_proba(P)).max() < 1e-12
    if fit.accuracy_preserving:
        np.testing.assert_array_equal(label, P.argmax(axis=1))


@each_family
def test_large_logits(make):
    z, y = world(300, 3)
    fit = make(from_logits=True).fit(z, y)
    P = np.array(
        [
            [1e5, -1e5, 0],
            [1e5, 1e5 - 1, -1e5],
            [-1e5, -1e5, -1e5],
            [0, 0, 0],
            [0, 1e-300, 0],
            [2.0**20, 0, -(2.0**20)],
        ]
    )
    found, _ = ran(to_onnx(fit, check=P), P)
    assert np.abs(found - fit.predict_proba(P)).max() < 1e-9


@pytest.mark.parametrize("name", ["temperature", "matrix", "beta", "isotonic", "bbq", "irm"])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("from_logits", [False, True])
def test_the_first_column_left_out(name, classes, from_logits):
    z, y = world(300, classes)
    P = (z[:, 1:] - z[:, :1]) if from_logits else softmax(z)[:, 1:]
    fit = FAMILIES[name](from_logits=from_logits).fit(P, y)
    found, _ = ran(to_onnx(fit), P)
    assert found.shape == (300, classes)
    assert np.abs(found - fit.predict_proba(P)).max() < 1e-10  # a small remainder has few digits


@pytest.mark.parametrize("name", ["temperature", "vector", "platt", "beta", "histogram"])
def test_float32_has_its_own_least_probability(name):
    z, y = world(300, 3)
    fit = FAMILIES[name]().fit(softmax(z).astype(np.float32), y)
    P = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.2, 0.2, 0.6]], np.float32)
    model = to_onnx(fit, dtype="float32", check=P)
    assert np.abs(ran(model, P)[0] - fit.predict_proba(P)).max() < 1e-12
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("nearly", [1 + 3e-8, 1 - 2e-8])
def test_factors_near_one_are_kept(nearly):
    """onnxruntime takes a factor for 1 if it is so in float32, where it is a single number."""
    z, y = world(300, 3)
    P = 1e5 * np.array([[1, 1 - 1e-5, 0], [-1, -1 + 2e-6, 1]])
    fit = calibrators.TemperatureScaling(from_logits=True).fit(z, y)
    fit.temperature_ = nearly
    assert np.abs(ran(to_onnx(fit), P)[0] - fit.predict_proba(P)).max() < 1e-12
    fit = calibrators.BetaCalibration().fit(softmax(z[:, :2]), z[:, 0] + z[:, 2] < 0)
    fit.curves_ = [np.array([nearly, nearly, 0.0])]
    P = np.array([[1e-30, 1], [0.001, 0.999]])
    np.testing.assert_allclose(ran(to_onnx(fit), P)[0], fit.predict_proba(P), rtol=1e-12)


def test_many_classes():
    z, y = world(400, 1000)
    for name in ("temperature", "isotonic", "irm"):
        fit = FAMILIES[name](from_logits=True, classes=list(range(1000))).fit(z, y)
        assert np.abs(ran(to_onnx(fit), z)[0] - fit.predict_proba(z)).max() < 1e-12


def test_a_long_curve():
    """Tens of thousands of steps are found by halving: the graph grows with their logarithm."""
    rng = np.random.default_rng(0)
    p = rng.random(20000)
    fit = calibrators.HistogramBinning(bins=20000, equal="mass").fit(
        p, (rng.random(20000) < p).astype(int)
    )
    assert fit.curves_[0].shape[1] > 19000
    model = to_onnx(fit, check=p)
    assert len(model.graph.node) < 40 + 5 * 15
    np.testing.assert_array_equal(ran(model, p[:, None])[0], fit.predict_proba(p))


def test_bins_meet_probabilities_on_their_edges():
    """A forest of ten trees: all probabilities are tenths, and so are the edges."""
    rng = np.random.default_rng(0)
    P = rng.multinomial(10, rng.dirichlet(np.ones(3), 2000)) / 10
    y = (P.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(max=2)
    fit = calibrators.HistogramBinning(bins=10).fit(P, y)
    found, _ = ran(to_onnx(fit, check=P), P)
    apart = np.abs(found - fit.predict_proba(P)).max(axis=1) > 1e-9
    edges = np.linspace(0, 1, 11)
    near = np.abs(P[..., None] - edges).min(axis=2).max(axis=1) < 1e-15
    assert not (apart & ~near).any()
    # a single sum of two: no order, no doubt
    binary = calibrators.HistogramBinning(bins=10).fit(P[:, 0], y == 0)
    np.testing.assert_array_equal(
        ran(to_onnx(binary, check=P[:, 0]), P[:, :1])[0], binary.predict_proba(P[:, 0])
    )


@pytest.mark.parametrize("dtype", [str, np.int64, np.uint8, np.float64, bool])
def test_given_groups(dtype):
    z, y = world(600, 3)
    P, rng = softmax(z), np.random.default_rng(0)
    codes = rng.integers(0, 2 if dtype is bool else 5, 600)
    groups = np.char.add("é", codes.astype(str)) if dtype is str else codes.astype(dtype)
    known = codes != 4
    fit = calibrators.PerGroup(calibrators.VectorScaling()).fit(
        P[known], y[known], groups=groups[known]
    )
    model = to_onnx(fit)
    to_onnx(fit, check=(P, groups))
    fed = (
        groups.astype(object)
        if dtype is str
        else groups.astype(np.int64 if dtype is np.uint8 else dtype)
    )
    found, _ = ran(model, P, groups=fed)
    assert np.abs(found - fit.predict_proba(P, groups)).max() < 1e-12
    assert (
        len({tuple(row.round(6)) for row in ran(model, P[:1].repeat(600, axis=0), groups=fed)[0]})
        > 1
    )
    with pytest.raises(InputError, match=r"`check`: .*a tuple \(P, groups\)"):
        to_onnx(fit, check=P)
    with pytest.raises(InputError, match=r"`check`.*its groups must be of the calibrator's type"):
        to_onnx(fit, check=(P, codes if dtype is str else codes.astype(str)))


@pytest.mark.parametrize("base", [None, calibrators.DirichletCalibration()])
def test_learned_groups_with_features(base):
    z, y = world(800, 3)
    X = np.random.default_rng(2).normal(size=(800, 4))
    fit = calibrators.GroupCalibration(base, n_partitions=3, bias=True, from_logits=True).fit(
        z, y, features=X
    )
    model = to_onnx(fit, check=(z, X))
    found, label = ran(model, z, features=X)
    assert np.abs(found - fit.predict_proba(z, X)).max() < 1e-12
    np.testing.assert_array_equal(label, fit.predict(z, X))
    strange = X.copy()
    strange[3, 1] = np.nan
    found, label = ran(model, z, features=strange)
    assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [3]
    assert label[3] == -1
    with pytest.raises(InputError, match=r"a tuple \(P, features\)"):
        to_onnx(fit, check=z)


def test_groups_within_groups():
    """What a calibrator is told besides P is not for its members."""
    z, y = world(600, 3)
    P, rng = softmax(z), np.random.default_rng(0)
    groups, X = rng.choice(["a", "b"], 600), rng.normal(size=(600, 2))
    learned, given = calibrators.GroupCalibration(n_partitions=2), calibrators.PerGroup()
    fit = calibrators.PerGroup(learned).fit(P, y, groups=groups)
    found, _ = ran(to_onnx(fit), P, groups=groups.astype(object))
    assert np.abs(found - fit.predict_proba(P, groups)).max() < 1e-12
    for base in (learned, given):
        fit = calibrators.GroupCalibration(base, n_partitions=2).fit(P, y, features=X)
        assert np.abs(ran(to_onnx(fit), P, features=X)[0] - fit.predict_proba(P, X)).max() < 1e-12


@each_family
def test_bad_rows_come_out_as_nan(make):
    """Whatever `predict_proba` refuses."""
    z, y = world(300, 3)
    fit = make().fit(softmax(z), y)
    good = np.array([[0.2, 0.3, 0.5], [1, 0, 0], [0.2, 0.3, 0.5 + 9e-6]])
    bad = np.array(
        [
            [0.2, 0.3, 0.4],
            [-0.1, 0.6, 0.5],
            [1.2, -0.2, 0],
            [np.nan, 0.5, 0.5],
            [np.inf, 0, 0],
            [0, 0, 0],
        ]
    )
    found, label = ran(to_onnx(fit), np.concatenate([good, bad]))
    np.testing.assert_allclose(found[:3], fit.predict_proba(good), atol=1e-12)
    assert np.isnan(found[3:]).all()
    assert (label[3:] == -1).all()
    for row in bad:
        with pytest.raises(ValueError):
            fit.predict_proba(row[None])


@pytest.mark.parametrize("name", ["temperature", "histogram", "mean replacement", "platt"])
def test_bad_logits_come_out_as_nan(name):
    z, y = world(300, 3)
    model = to_onnx(FAMILIES[name](from_logits=True).fit(z, y))
    found, label = ran(
        model,
        np.array([[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf, 0, 0], [2.1**20, 0, 0], [1, 2, 3]]),
    )
    assert np.isnan(found[:4]).all()
    assert label.tolist() == [-1, -1, -1, -1, 2]


def test_no_rows():
    z, y = world(300, 3)
    for make in FAMILIES.values():
        found, label = ran(to_onnx(make(from_logits=True).fit(z, y)), np.empty((0, 3)))
        assert found.shape == (0, 3)
        assert label.shape == (0,)


def test_metadata_and_file(tmp_path):
    z, y = world(300, 3)
    names = np.array(["b", 'c"', "ä"])
    fit = calibrators.VectorScaling(from_logits=True).fit(z, names[y])
    model = to_onnx(fit, tmp_path / "vector.onnx")
    read = onnx.load(tmp_path / "vector.onnx")
    assert read == model
    assert [path.name for path in tmp_path.iterdir()] == ["vector.onnx"]
    found = facts(read)
    assert found.pop("checked").startswith("1031 rows, largest difference ")
    assert found == {
        "schema": "probaudit.onnx/1",
        "version": read.producer_version,
        "calibrator": "VectorScaling",
        "fingerprint": calibrators.fingerprint(fit),
        "takes": "logits",
        "classes": '["b", "c\\"", "ä"]',
    }
    assert (
        to_onnx(calibrators.from_json(calibrators.to_json(fit))).SerializeToString()
        == model.SerializeToString()
    )
    assert [
        list(value.type.tensor_type.shape.dim)[-1].dim_value
        for value in (*read.graph.input, read.graph.output[0])
    ] == [
        3,
        3,
    ]
    assert [json.loads(facts(to_onnx(calibrators.Identity().fit(softmax(z), y)))["classes"])] == [
        [0, 1, 2]
    ]


def test_names_of_columns_do_not_matter():
    z, y = world(300, 3)
    frame = pd.DataFrame(softmax(z), columns=["a", "b", "c"])
    fit = calibrators.TemperatureScaling().fit(frame, y)
    to_onnx(fit, check=frame)
    np.testing.assert_allclose(
        ran(to_onnx(fit), frame.to_numpy())[0], fit.predict_proba(frame), atol=1e-12
    )


def test_a_graph_that_differs_is_not_handed_out(tmp_path, monkeypatch):
    z, y = world(300, 3)
    fit = calibrators.VectorScaling(from_logits=True).fit(z, y)
    right = exporting._model

    def wrong(onnx, calibrator, dtype):
        other = calibrators.from_json(calibrators.to_json(calibrator))
        other.bias_ = calibrator.bias_ + np.array([1e-7, 0, 0])
        return right(onnx, other, dtype)

    monkeypatch.setattr(exporting, "_model", wrong)
    with pytest.raises(
        RuntimeError,
        match=r"the ONNX model must agree .* gives 0.* and the calibrator 0.* Nothing was written",
    ):
        to_onnx(fit, tmp_path / "vector.onnx")
    assert not list(tmp_path.iterdir())


def test_only_a_jump_of_the_calibrator_excuses_a_difference(monkeypatch):
    """A bin wrong by 1e-6 is found; a probability within rounding of an edge may fall on either
    side."""
    P = np.array([[0.5, 0.5], [0.75, 0.25], [0.25, 0.75]])
    fit = calibrators.HistogramBinning(bins=2).fit(np.repeat(P, 10, axis=0), [0, 1] * 15)
    fit.curves_ = [np.array([[0.0, 0.5], [0.25, 0.75]])]
    moved = calibrators.from_json(calibrators.to_json(fit))
    right = exporting._model
    monkeypatch.setattr(exporting, "_model", lambda onnx, _, dtype: right(onnx, moved, dtype))
    moved.curves_ = [np.array([[0.0, 0.5 + 2.0**-52], [0.25, 0.75]])]
    assert "ignoring 1 at a jump of the calibrator" in facts(to_onnx(fit, check=P))["checked"]
    moved.curves_ = [np.array([[0.0, 0.5 + 2.0**-30], [0.25, 0.75]])]
    with pytest.raises(RuntimeError, match=r"gives 0\.75 and the calibrator 0\.25"):
        to_onnx(fit, check=np.array([[0.5 - 2.0**-31, 0.5 + 2.0**-31]]))
    moved.curves_ = [np.array([[0.0, 0.5], [0.25, 0.75 + 1e-6]])]
    with pytest.raises(RuntimeError, match=r"gives 0\.24999\d* and the calibrator 0\.25"):
        to_onnx(fit, check=P[2:])


def test_a_calibrator_knows_its_own_change():
    z, y = world(300, 3)
    fit = calibrators.TemperatureScaling(from_logits=True).fit(z, y)
    change = CheckRows.of(fit, z, {}).own_change(fit)
    assert 0 < change.max() < 1e-12


def test_refusals(tmp_path):
    z, y = world(300, 3)
    fit = calibrators.TemperatureScaling(from_logits=True).fit(z, y)
    with pytest.raises(
        InputError, match=r"`calibrator`: must be fitted .*\(found: TemperatureScaling\)"
    ):
        to_onnx(calibrators.TemperatureScaling())
    with pytest.raises(
        InputError,
        match=r"`calibrator`: must be a calibrator of probaudit .*CalibratedModel.*`calibrator_`",
    ):
        to_onnx(calibrators.CalibratedModel(LogisticRegression()).fit(z, y))
    with pytest.raises(InputError, match=r"`dtype`: must be .*float16"):
        to_onnx(fit, dtype="float16")
    with pytest.raises(InputError, match=r"`path`.*its folder must exist"):
        to_onnx(fit, tmp_path / "absent" / "a.onnx")
    with pytest.raises(ValueError, match="features"):
        to_onnx(fit, check=z[:, :2])

    class Mine(calibrators.TemperatureScaling):
        pass

    with pytest.raises(InputError, match=r"`calibrator`: must be a calibrator of probaudit.*Mine"):
        to_onnx(Mine(from_logits=True).fit(z, y))
    large = calibrators.PerGroup().fit(softmax(z), y, groups=np.full(300, 2**64 - 1, np.uint64))
    with pytest.raises(InputError, match="must have groups within int64"):
        to_onnx(large)


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_missing_packages(missing, monkeypatch):
    z, y = world(300, 3)
    fit = calibrators.TemperatureScaling(from_logits=True).fit(z, y)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "onnx":
        with pytest.raises(
            ImportError, match=r"ONNX export needs onnx: pip install 'probaudit\[onnx\]'"
        ):
            to_onnx(fit)
    else:
        with pytest.warns(
            UserWarning,
            match=r"not checked: ONNX export needs onnxruntime: pip install 'probaudit\[onnx\]'",
        ) as caught:
            model = to_onnx(fit)
        assert caught[0].filename == __file__
        assert facts(model)["checked"] == "no"


def test_loading_calibrators_does_not_load_onnx(monkeypatch):
    asked = []
    plain = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__", lambda name, *rest: (asked.append(name), plain(name, *rest))[1]
    )
    monkeypatch.delitem(sys.modules, "probaudit.calibrators.export.onnx_export")
    assert calibrators.to_onnx is not to_onnx
    assert not {"onnx", "onnxruntime"} & {name.split(".")[0] for name in asked}
