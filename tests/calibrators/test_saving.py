"""Calibrators as JSON: bit for bit, whole or not at all, and nothing a file can do but be
refused."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import os

import numpy as np
import pytest

from probaudit.calibrators import (
    IRM,
    BetaCalibration,
    BiasCorrectedTemperature,
    CalibratedModel,
    Calibrator,
    Chain,
    DirichletCalibration,
    GroupCalibration,
    IsotonicCalibration,
    PerGroup,
    PlattScaling,
    PriorCorrection,
    TemperatureScaling,
    VectorScaling,
    fingerprint,
    from_json,
    load,
    save,
    to_json,
)
from probaudit.calibrators.export import saving
from probaudit.calibrators.export.saving import _fingerprint
from probaudit.errors import InputError
from tests.calibrators.test_calibrator_contract import KINDS, make, world
from tests.conftest import softmax


@pytest.fixture(scope="module")
def simple() -> Calibrator:
    return BiasCorrectedTemperature(from_logits=True).fit(*world())


def sealed(content: dict) -> str:
    """As a forger would write it: with the fingerprint of the changed contents."""
    return json.dumps(content | {"fingerprint": _fingerprint(content)})


def forged(calibrator: Calibrator, *path: str, value: object) -> str:
    content = json.loads(to_json(calibrator))
    place = content["calibrator"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return sealed(content)


# --- there and back


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 4])
def test_there_and_back_bit_for_bit(kind, classes):
    z, y = world(90, classes)
    for from_logits, P in ((True, z), (False, softmax(z).astype(np.float32))):
        model = make(kind, from_logits=from_logits).fit(P, y)
        text = to_json(model)
        again = from_json(text)
        assert type(again) is type(model)
        np.testing.assert_array_equal(again.predict_proba(P), model.predict_proba(P))
        np.testing.assert_array_equal(again.predict(P), model.predict(P))
        assert to_json(again) == text
        assert again.fit_report_ == model.fit_report_
        assert fingerprint(again) == fingerprint(model) == json.loads(text)["fingerprint"]
        assert again.fit(P, y).fit_report_ == model.fit_report_  # its choices came along


@pytest.mark.parametrize(
    "names",
    [
        np.array(["b", "a", "ü 漢\n\"'\\ \x00x"]),
        np.array([7, -3, 2**40]),
        np.array([True, False]),
        np.array([0.5, 1.0, -0.0]),
        np.array([3, 1, 2], np.int8),
        np.array(["x", "y", "z"], object),
    ],
    ids=["str", "int", "bool", "float", "int8", "object"],
)
@pytest.mark.parametrize("declared", [False, True])
def test_classes_of_every_kind(names, declared):
    z, y = world(60, len(names))
    # scikit-learn takes whole numbers only
    labels = names[y] if names.dtype.kind != "f" else names[y] * 2
    classes = (np.unique(labels) if names.dtype.kind == "f" else names) if declared else None
    model = TemperatureScaling(from_logits=True, classes=classes).fit(z, labels)
    again = from_json(to_json(model))
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert again.predict(z).dtype.kind == model.predict(z).dtype.kind
    np.testing.assert_array_equal(again.predict(z), model.predict(z))


def test_classes_given_in_any_sequence():
    z, y = world()
    for classes in (range(3), (0, 1, 2), np.arange(3)):
        assert from_json(
            to_json(TemperatureScaling(from_logits=True, classes=classes).fit(z, y))
        ).classes == [0, 1, 2]


def test_one_column_and_named_columns_come_along():
    pandas = pytest.importorskip("pandas")
    z, y = world(60, 2)
    one = from_json(to_json(TemperatureScaling(from_logits=True).fit(z[:, 1], y)))
    assert one.predict_proba(z[:, 1]).shape == (60, 2)
    frame = pandas.DataFrame(softmax(z), columns=["p_no", "p_yes"])
    model = TemperatureScaling().fit(frame, y)
    again = from_json(to_json(model))
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict_proba(frame[["p_yes", "p_no"]])


def test_calibrators_inside_calibrators():
    z, y = world(200)
    groups, features = (
        np.array(["north", "south", "east"])[np.arange(200) % 3],
        np.random.default_rng(0).normal(size=(200, 2)),
    )
    chain = Chain(
        [PlattScaling(), Chain([IsotonicCalibration(finite=False)]), PerGroup(VectorScaling())],
        from_logits=True,
    )
    by_group = PerGroup(BetaCalibration(), from_logits=True, min_rows=20)
    learned = GroupCalibration(
        VectorScaling(), n_partitions=3, from_logits=True, start=np.full((3, 2, 2), 0.5)
    )
    for model, extra in (
        (chain, {}),
        (by_group, {"groups": groups}),
        (learned, {"features": features}),
    ):
        model.fit(z, y, **extra)
        again = from_json(to_json(model))
        np.testing.assert_array_equal(
            again.predict_proba(z, **extra), model.predict_proba(z, **extra)
        )
        assert to_json(again) == to_json(model)
    for names in (np.arange(200) % 3, np.arange(200) % 2 == 0, np.arange(200) % 2 / 2):
        model = PerGroup(from_logits=True).fit(z, y, groups=names)
        again = from_json(to_json(model))
        np.testing.assert_array_equal(
            again.predict_proba(z, groups=names), model.predict_proba(z, groups=names)
        )


def test_numbers_that_json_has_not_stay_what_they_are():
    """A log score can be infinite: a certain row was wrong."""
    model = IRM(strict=False).fit([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]], [1, 1, 0])
    assert model.fit_report_.score_before == np.inf
    text = to_json(model)
    assert "Infinity" not in text
    assert from_json(text).fit_report_ == model.fit_report_


# --- the fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_knows_every_number(kind):
    z, y = world(60, 3)
    model = make(kind, from_logits=True).fit(z, y)
    known = {fingerprint(model)}

    def nudge(value):
        if isinstance(value, Calibrator):
            return any(nudge_one(value, name) for name in value._fitted)
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.size:
            flat = value.reshape(-1)
            flat[-1] = np.nextafter(flat[-1], np.inf)
            return True
        return any(nudge(item) for item in value) if isinstance(value, list) else False

    def nudge_one(owner, name):
        value = getattr(owner, name)
        if isinstance(value, float):
            setattr(owner, name, float(np.nextafter(value, np.inf)))
            return True
        return nudge(value)

    changed = 0
    for name in model._fitted:
        other = copy.deepcopy(model)
        if nudge_one(other, name):
            known.add(fingerprint(other))
            changed += 1
    assert len(known) == changed + 1
    assert changed or KINDS[kind][0] in ("Identity", "Chain")


def test_the_fingerprint_knows_classes_and_choices(simple):
    z, y = world()
    named = BiasCorrectedTemperature(from_logits=True).fit(z, np.array(["a", "b", "c"])[y])
    platt = [PlattScaling(smooth=smooth, from_logits=True).fit(z, y) for smooth in (True, False)]
    assert len({fingerprint(model) for model in (simple, named, *platt)}) == 4
    assert fingerprint(BiasCorrectedTemperature(from_logits=True).fit(z, y)) == fingerprint(simple)


# --- what cannot be saved


def test_only_our_own_fitted_calibrators_are_saved():
    z, y = world()

    class Mine(TemperatureScaling):
        pass

    cases = [
        TemperatureScaling(),
        Mine(from_logits=True).fit(z, y),
        Chain([Mine()], from_logits=True).fit(z, y),
        GroupCalibration(from_logits=True, n_partitions=1).learn_groups(z, y),
    ]
    for model in cases:
        with pytest.raises(InputError, match="`calibrator`"):
            to_json(model)


# --- files


def test_files_are_whole_or_absent(simple, tmp_path, monkeypatch):
    path = tmp_path / "cal.json"
    save(simple, path)
    assert to_json(load(path)) == to_json(simple) == path.read_text()
    before = path.read_bytes()

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(InputError, match="disk full"):
        save(PlattScaling(from_logits=True).fit(*world()), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["cal.json"]
    with pytest.raises(InputError, match="folder must exist"):
        save(simple, tmp_path / "nowhere" / "cal.json")
    with pytest.raises(InputError, match="fitted"):
        save(TemperatureScaling(), tmp_path / "unfitted.json")
    assert os.listdir(tmp_path) == ["cal.json"]


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00{")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(saving.MOST_BYTES + 1)  # takes no room on the disk
    for name in ("absent", "binary", "huge", "."):
        with pytest.raises(InputError, match="`path`"):
            load(tmp_path / name)


def test_truncated_and_foreign_texts(simple):
    text = to_json(simple)
    for end in range(0, len(text) - 2, 7):
        with pytest.raises(InputError, match="`text`"):
            from_json(text[:end])
    foreign = [
        "",
        "null",
        "[]",
        "3",
        '"text"',
        "{}",
        '{"schema": "probaudit.audit/1"}',
        '{"schema": ["probaudit.calibrator/1"]}',
    ]
    hostile = [
        "[" * 100_000,
        '{"a":' * 50_000,
        "1" * 5000,
        "NaN",
        '{"schema": "probaudit.calibrator/1"}',
        "\x00",
        "\ud800",
    ]
    for text in (*foreign, *hostile, None, 3):
        with pytest.raises(InputError, match="`text`"):
            from_json(text)


def test_a_changed_digit_is_seen(simple):
    text = to_json(simple)
    digits = [i for i, c in enumerate(text) if c.isdigit() and i > text.index('"learned"')]
    for place in digits[:: max(1, len(digits) // 40)]:
        changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        if json.loads(changed) == json.loads(text):
            continue  # a last digit that no float has
        with pytest.raises(InputError, match="fingerprint"):
            from_json(changed)


@pytest.mark.parametrize(
    "name",
    [
        "CalibratedModel",
        "Calibrator",
        "FitReport",
        "load",
        "save",
        "os.system",
        "object",
        "__class__",
        "",
        None,
        3,
        ["IRM"],
        {},
    ],
)
def test_names_of_other_things(simple, name):
    with pytest.raises(InputError, match="`text`"):
        from_json(forged(simple, "class", value=name))


def array(items, dtype, shape):
    return {"array": items, "dtype": dtype, "shape": shape}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        # a compiled loop would read beyond its end
        (("learned", "bias_"), array([0.0, 0.0], "float64", [2])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "float64", [3, 1])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "float64", [-1])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "float64", [3.0])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "float64", 3)),
        (("learned", "bias_"), array([0.0], "float64", [10**18])),
        (("learned", "bias_"), array(["a", "b", "c"], "str", [3])),
        (("learned", "bias_"), array(["0", "1", "2"], "float64", [3])),
        (("learned", "bias_"), array([True, True, True], "bool", [3])),
        (("learned", "bias_"), array([0.0, 0.0, {"number": "nan"}], "float64", [3])),
        (("learned", "bias_"), array([0.0, 0.0, {"number": "inf"}], "float64", [3])),
        (("learned", "bias_"), array([0.0, 0.0, {"number": "0.5"}], "float64", [3])),
        (("learned", "bias_"), array([0.0, 0.0, 1e400], "float64", [3])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "O", [3])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], "f8,f8", [3])),
        (("learned", "bias_"), array([0.0, 0.0, 0.0], {"names": ["a"], "formats": ["O"]}, [3])),
        (("learned", "bias_"), array([300], "uint8", [1])),
        (("learned", "bias_"), [0.0, 0.0, 0.0]),
        (("learned", "bias_"), None),
        (("learned", "classes_"), array(["a"], "U1000000000", [1])),
        (("learned", "classes_"), array([0, 1, 1], "int64", [3])),
        (("learned", "classes_"), array([0], "int64", [1])),
        (("learned", "classes_"), array([0, 1, 2, 3], "int64", [4])),
        (("learned", "classes_"), array([[0], 1, 2], "object", [3])),
        (("learned", "n_features_in_"), 7),
        (("learned", "n_features_in_"), "3"),
        (("learned", "temperature_"), 0.0),
        (("learned", "temperature_"), "1.0"),
        (("learned", "temperature_"), True),
        (("learned", "temperature_"), {"number": "nan"}),
        (("learned", "temperature_"), {"number": "__import__('os')"}),
        (("learned", "temperature_"), array([1.0], "float64", [1])),
        (("learned", "feature_names_in_"), array(["a", "b"], "object", [2])),
        (("learned", "_transform"), 1.0),
        (("learned", "__class__"), "Identity"),
        (("learned", "fit"), 1.0),
        (("learned",), {}),
        (("learned",), []),
        (("choices", "from_logits"), "yes"),
        (("choices", "unknown"), 1),
        (("choices",), None),
        (("report", "converged"), "yes"),
        (("report", "status"), 3),
        (("report", "n"), 1.5),
        (("report", "extra"), 1),
        (("report",), {}),
    ],
)
def test_forged_parts(simple, path, value):
    with pytest.raises(InputError, match="`text`"):
        from_json(forged(simple, *path, value=value))


def test_forged_parts_of_other_families():
    z, y = world(90, 3)
    features = z[:, :2]
    empty, knots = array([], "float64", [2, 0]), array([0.5, 0.5], "float64", [2, 1])
    isotonic = IsotonicCalibration(from_logits=True).fit(z, y)
    binary = IsotonicCalibration(from_logits=True).fit(*world(60, 2))
    group = GroupCalibration(n_partitions=2, from_logits=True).fit(z, y, features=features)
    outputs = GroupCalibration(n_partitions=2, from_logits=True).fit(z, y)
    chain = Chain([BiasCorrectedTemperature()], from_logits=True).fit(z, y)
    two = json.loads(
        to_json(Chain([BiasCorrectedTemperature()], from_logits=True).fit(*world(60, 2)))
    )["calibrator"]
    unfitted = {"class": "TemperatureScaling", "choices": {"from_logits": False, "classes": None}}
    dirichlet = DirichletCalibration(from_logits=True).fit(z, y)
    prior = PriorCorrection(from_logits=True).fit(z, y)
    by_group = PerGroup(from_logits=True).fit(z, y, groups=np.arange(90) % 2)
    cases = [
        (isotonic, ("learned", "curves_"), [empty, knots, knots]),
        (isotonic, ("learned", "curves_"), [knots, knots]),
        (isotonic, ("learned", "curves_"), [knots, knots, 3]),
        (binary, ("learned", "curves_"), [array([], "float64", [0])]),
        (binary, ("learned", "curves_"), []),
        (IRM(from_logits=True).fit(z, y), ("learned", "knots_"), empty),
        (IRM(from_logits=True).fit(z, y), ("choices", "epsilon"), "small"),
        (group, ("learned", "member_of_"), array([7, 0, 0, 0], "int64", [2, 2])),
        (group, ("learned", "member_of_"), array([0.0, 0.0, 0.0, 0.0], "float64", [2, 2])),
        (group, ("learned", "weights_"), array([0.0] * 8, "float64", [2, 1, 4])),
        (group, ("learned", "grouped_by_"), "stars"),
        (group, ("learned", "members_"), [unfitted]),
        (outputs, ("learned", "weights_"), array([0.0] * 8, "float64", [2, 2, 2])),
        (by_group, ("learned", "member_of_"), array([0, 9], "int64", [2])),
        (by_group, ("learned", "whole_"), None),
        (chain, ("learned", "members_"), two["learned"]["members_"]),  # of two classes, not three
        (chain, ("learned", "members_"), ["TemperatureScaling"]),
        (dirichlet, ("learned", "seen_"), array([0, 1, 9], "int64", [3])),
        (dirichlet, ("learned", "seen_"), array([0, 1], "int64", [2])),
        (prior, ("learned", "deploy_priors_"), array([0.0, 0.0, 0.0], "float64", [3])),
    ]
    with np.errstate(all="ignore"):
        for model, path, value in cases:
            assert to_json(from_json(to_json(model))) == to_json(model)
            with pytest.raises(InputError, match="`text`"):
                from_json(forged(model, *path, value=value))


def test_a_calibrator_without_learning_is_refused(simple):
    content = json.loads(to_json(simple))
    del content["calibrator"]["learned"], content["calibrator"]["report"]
    with pytest.raises(InputError, match="is not fitted"):
        from_json(sealed(content))
    for inside in (array([1.0], "float64", [1]), {"number": "nan"}, [], 3, None):
        with pytest.raises(InputError, match="`text`"):
            from_json(sealed({"schema": saving.SCHEMA, "calibrator": inside}))
    deep = {"class": "Chain", "choices": {"steps": [], "from_logits": False, "classes": None}}
    for _ in range(300):
        deep = {
            "class": "Chain",
            "choices": {"steps": [deep], "from_logits": False, "classes": None},
        }
    with pytest.raises(InputError, match="`text`"):
        from_json(sealed({"schema": saving.SCHEMA, "calibrator": deep}))


def test_saving_knows_no_pickle():
    modules = {
        alias.name
        for node in ast.walk(ast.parse(inspect.getsource(saving)))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert modules == {"hashlib", "json", "math", "numpy"}
    # a model is saved by its own library; its calibrator_ by ours
    assert not issubclass(CalibratedModel, Calibrator)
