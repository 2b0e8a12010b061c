"""Rows in every form they come in, and every rule they can break."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import probaudit as pb
from probaudit import InputError, Predictions
from probaudit.data.predictions import sum_tolerance

P3 = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1]])
P2 = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])


def refused(call, argument, row=None, words=""):
    with pytest.raises(InputError) as caught:
        call()
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.argument, error.row) == (argument, row), str(error)
    assert words in str(error)


def with_row(row, at=1):
    values = P3.copy()
    values[at] = row
    return values


LABELS = {
    "int64": np.array([0, 1, 2]),
    "int8": np.int8([0, 1, 2]),
    "uint8": np.uint8([0, 1, 2]),
    "uint64": np.uint64([0, 1, 2]),
    "big-endian": np.array([0, 1, 2], ">i4"),
    "float16": np.float16([0, 1, 2]),
    "float64": np.float64([0, 1, 2]),
    "longdouble": np.longdouble([0, 1, 2]),
    "objects": np.array([0, 1, 2], object),
    "float objects": np.array([0.0, 1.0, 2.0], object),
    "column": np.array([[0], [1], [2]]),
    "strided": np.array([0, 9, 1, 9, 2, 9])[::2],
    "pandas nullable": pd.Series([0, 1, 2], dtype="Int64"),
    "pandas category": pd.Series([0, 1, 2], dtype="category"),
    "polars": pl.Series([0, 1, 2], dtype=pl.UInt8),
    "arrow": pa.chunked_array([[0, 1], [2]]),
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_labels_that_are_column_numbers(y):
    rows = Predictions(y, P3)
    assert rows.codes.tolist() == [0, 1, 2]
    assert rows.codes.dtype == np.int64
    assert rows.classes == (0, 1, 2)
    assert pb.log_score(y, P3) == pb.log_score([0, 1, 2], P3)


BIG = 2**63
NAMED = {
    "strings, unsorted": (["a", "b", "c"], ["c", "a", "b"], [1, 2, 0]),
    "string objects": (np.array(["a", "b", "c"], object), ["c", "a", "b"], [1, 2, 0]),
    "string dtype": (
        np.array(["a", "b", "c"], np.dtypes.StringDType()),
        ["c", "a", "b"],
        [1, 2, 0],
    ),
    "bytes": (np.array([b"a", b"b", b"c"]), ["c", "a", "b"], [1, 2, 0]),
    "text of other lengths": (["a", "longer", "bb"], ["bb", "a", "longer"], [1, 2, 0]),
    "classes as array": (["a", "b", "c"], np.array(["c", "a", "b"]), [1, 2, 0]),
    "classes as index": (["a", "b", "c"], pd.Index(["c", "a", "b"]), [1, 2, 0]),
    "integers, unsorted": ([5, 7, -9], [-9, 5, 7], [1, 2, 0]),
    "integers as floats": ([5.0, 7.0, -9.0], [-9, 5, 7], [1, 2, 0]),
    "floats": ([0.5, 1.5, 2.5], [2.5, 0.5, 1.5], [1, 2, 0]),
    "a class absent from the labels": (["a", "a", "c"], ["c", "b", "a"], [2, 2, 0]),
    "close big integers": ([2**53 + 1, 2**53, 0], [0, 2**53, 2**53 + 1], [2, 1, 0]),
    "close uint64": (
        np.array([BIG - 1, BIG - 2, BIG + 5], np.uint64),
        [BIG - 2, BIG - 1, BIG + 5],
        [1, 0, 2],
    ),
    "beyond 64 bits": ([10**30, 1, 10**30 + 1], [1, 10**30 + 1, 10**30], [2, 0, 1]),
    "wrapped uint64 is no class": (np.array([2**64 - 1, 1, 2], np.uint64), [-1, 1, 2], [-1, 1, 2]),
    "close to a class only as float": (np.array([2.0**53, 0, 1]), [0, 1, 2**53 + 1], [-1, 0, 1]),
    "classes too large for a float": (np.array([0.0, 1.0, 2.0]), [2, 1, 10**400], [-1, 1, 0]),
    "strangers": (["a", "z", ""], ["a", "b", "c"], [0, -1, -1]),
    "missing": (np.array(["a", None, np.nan], object), ["a", "b", "c"], [0, -1, -1]),
    "unhashable": (np.array(["a", {}, []], object), ["a", "b", "c"], [0, -1, -1]),
}


@pytest.mark.parametrize(("y", "classes", "codes"), NAMED.values(), ids=NAMED)
def test_labels_are_found_in_the_classes(y, classes, codes):
    rows = Predictions(y, P3, classes=classes)
    assert rows.codes.tolist() == codes
    assert rows.classes == tuple(classes)
    assert not any(isinstance(c, np.generic) for c in rows.classes)


@pytest.mark.parametrize(
    "y", [[True, False, True], pa.array([True, False, True]), pl.Series([True, False, True])]
)
def test_boolean_labels_of_two_classes(y):
    rows = Predictions(y, [0.9, 0.2, 0.4])
    assert (rows.classes, rows.codes.tolist(), rows.n_classes) == ((False, True), [1, 0, 1], 2)


def test_classes_absent_from_the_data_keep_their_columns():
    found = pb.audit(["a", "a", "c"], P3, classes=["a", "b", "c"])
    assert found.to_dict()["class_rows"] == [2, 0, 1]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (3, "label 3"),
        (-1, "label -1"),
        (0.5, "label 0.5"),
        (np.nan, "is missing"),
        (np.inf, "label inf"),
        (1e300, "1e+300"),
        (None, "is missing"),
        (10**30, "label 1000"),
        (2**64, "label 18446744073709551616"),
        (2**32, "label 4294967296"),
        (pd.NA, "label is missing"),
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_labels_outside_the_classes(label, words, at):
    y = [0, 1, 2]
    y[at] = label
    refused(lambda: pb.log_score(y, P3), "y_true", at, words)
    assert pb.log_score(y, P3, on_bad_rows="drop") == pb.log_score(
        np.delete([0, 1, 2], at), np.delete(P3, at, 0)
    )


NULL_LABELS = {
    "pandas category": pd.Series(["a", None, "b"], dtype="category"),
    "pandas string": pd.Series(["a", None, "b"], dtype="string"),
    "polars": pl.Series(["a", None, "b"]),
    "polars categorical": pl.Series(["a", None, "b"], dtype=pl.Categorical),
    "arrow": pa.array(["a", None, "b"]),
    "arrow dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "masked": np.ma.masked_array(["a", "b", "b"], mask=[0, 1, 0]),
}


@pytest.mark.parametrize("y", NULL_LABELS.values(), ids=NULL_LABELS)
def test_null_labels_are_bad_rows(y):
    refused(lambda: pb.log_score(y, P2, classes=["a", "b"]), "y_true", 1)
    assert pb.log_score(y, P2, classes=["a", "b"], on_bad_rows="drop").n == 2


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b", "c"],
        np.array(["0", "1", "2"]),
        np.array([None, "a", 1], object),
        [b"0", b"1", b"2"],
    ],
)
def test_text_needs_classes(y):
    refused(lambda: pb.log_score(y, P3), "y_true", words="Pass `classes`")


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["a", "b"], "one name for each of the 3"),
        (["a", "a", "b"], "must not repeat"),
        ([0, False, 1], "must not repeat"),
        ({"a", "b", "c"}, "sequence"),
        ("abc", "sequence"),
        (3, "sequence"),
        ([["a"], ["b"], ["c"]], "single value"),
        ([("a", []), "b", "c"], "single value"),
        ([], "one name for each"),
    ],
)
def test_classes_that_give_no_order(classes, words):
    refused(lambda: Predictions(["a", "b", "c"], P3, classes=classes), "classes", words=words)


BAD_VALUES = {
    "nan": (with_row([0.5, np.nan, 0.5]), 1, "nan for class 1"),
    "inf": (with_row([0.5, 0.5, np.inf]), 1, "inf for class 2"),
    "minus inf": (with_row([-np.inf, 0.5, 0.5]), 1, "-inf for class 0"),
    "negative": (with_row([0.5, 0.6, -0.1]), 1, "-0.1 for class 2"),
    "above 1": (with_row([0.0, 1.5, 0.0], at=2), 2, "1.5 for class 1"),
    "sum": (with_row([0.5, 0.2, 0.2], at=0), 0, "sums to 0.9"),
    "None": (with_row([0.5, None, 0.5]), 1, "nan for class 1"),
    "pandas null": (
        pd.DataFrame(with_row([0.5, np.nan, 0.5])).astype("Float64"),
        1,
        "nan for class 1",
    ),
    "polars null": (
        pl.DataFrame({"a": [0.7, None, 0.5], "b": [0.2, 0.7, 0.4], "c": [0.1] * 3}),
        1,
        "nan for class 0",
    ),
    "masked": (
        np.ma.masked_array(P3, mask=[[0, 0, 0], [0, 0, 1], [0, 0, 0]]),
        1,
        "nan for class 2",
    ),
}


@pytest.mark.parametrize(("values", "row", "words"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_rows_that_are_no_probabilities(values, row, words):
    refused(lambda: pb.log_score([0, 1, 2], values), "y_proba", row, words)
    good = np.delete([0, 1, 2], row)
    assert pb.log_score([0, 1, 2], values, on_bad_rows="drop") == pb.log_score(good, P3[good])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (3, 2, 2), ()])
def test_shapes_without_rows_or_classes(shape):
    refused(lambda: Predictions([0, 1, 1], np.ones(shape)), "probs")


def test_a_single_column_is_that_of_the_second_class():
    one = Predictions([0, 1, 1], np.array([[0.2], [0.7], [0.6]]))
    assert one.probs.tolist() == [0.2, 0.7, 0.6]
    assert one.n_classes == 2


OTHER_RULES = {
    "y short": ({"y": [0, 1]}, "y", "needs one label per row of `probs` (3)"),
    "y matrix": ({"y": np.zeros((3, 2))}, "y", "one label per row"),
    "y scalar": ({"y": 1}, "y", "one label per row"),
    "weights short": ({"sample_weight": [1.0]}, "sample_weight", "one weight per row (3)"),
    "weights matrix": ({"sample_weight": np.ones((3, 1))}, "sample_weight", "one weight per row"),
    "weights text": ({"sample_weight": ["a", "b", "c"]}, "sample_weight", "must hold numbers"),
    "features vector": ({"features": [1, 2, 3]}, "features", "[rows, features]"),
    "features short": ({"features": np.ones((2, 2))}, "features", "with 3 rows"),
    "column short": (
        {"columns": {"age": [1]}},
        "columns",
        "column 'age' needs one value per row (3)",
    ),
    "column scalar": ({"columns": {"age": 1}}, "columns", "column 'age'"),
    "columns list": ({"columns": [1, 2, 3]}, "columns", "mapping"),
    "columns frame": ({"columns": pd.DataFrame({"age": [1, 2]})}, "columns", "column 'age'"),
    "on_bad_rows": ({"on_bad_rows": "ignore"}, "on_bad_rows", "'ignore'"),
    "two kinds": (
        {"from_logits": True, "from_log_probs": True},
        "from_log_probs",
        "together with `from_logits`",
    ),
    "pairs of logits": (
        {"probs": P3[:, 0], "pairs": True, "from_logits": True},
        "probs",
        "a confidence must be a probability",
    ),
    "pairs of a matrix": ({"pairs": True}, "probs", "one number per row"),
    **{f"tolerance {t}": ({"tolerance": t}, "tolerance", "[0, 1)") for t in (-0.1, 1, np.nan, "x")},
}


@pytest.mark.parametrize(("arguments", "argument", "words"), OTHER_RULES.values(), ids=OTHER_RULES)
def test_arguments_that_break_a_rule(arguments, argument, words):
    refused(
        lambda: Predictions(**{"y": [0, 1, 2], "probs": P3, **arguments}), argument, words=words
    )


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, None])
def test_bad_weights(weight):
    weights = [1.0, weight, 2.0]
    refused(lambda: pb.log_score([0, 1, 2], P3, sample_weight=weights), "sample_weight", 1)
    kept = pb.log_score([0, 2], P3[[0, 2]], sample_weight=[1.0, 2.0])
    assert pb.log_score([0, 1, 2], P3, sample_weight=weights, on_bad_rows="drop") == kept


def test_dropped_rows_are_counted_by_rule():
    values = np.array([[0.5, 0.5], [np.nan, 0.5], [0.5, 0.6], [2.0, -1.0], [0.5, 0.5], [0.5, 0.5]])
    weights = [1, 1, 1, 1, -1, 1]
    found = pb.audit([0, 0, 0, 0, 0, 7], values, sample_weight=weights, on_bad_rows="drop")
    assert found.to_dict()["dropped_rows"] == {"label": 1, "weight": 1, "value": 2, "sum": 1}
    refused(lambda: pb.audit([7, 7], P2[:2], on_bad_rows="drop"), "y_proba", words="no row is left")


@pytest.mark.parametrize(
    ("dtype", "gap", "good"),
    [
        (np.float64, 0.9e-5, True),
        (np.float64, 1.2e-5, False),
        (np.float32, 0.9e-5, True),
        (np.float32, 1.2e-5, False),
        (np.float16, 2.0**-7, True),
        (np.float16, 2.0**-7 + 2.0**-11, False),
    ],
)
def test_row_sums_are_held_to_the_tolerance_of_the_format(dtype, gap, good):
    values = np.array([[0.5, 0.5 - gap]], dtype)
    if good:
        assert pb.log_score([0], values).n == 1
    else:
        refused(lambda: pb.log_score([0], values), "y_proba", 0, "sums to")
    assert pb.log_score([0], values, tolerance=0.1).n == 1


def test_tolerance_survives_the_conversion_and_the_choice_of_rows():
    class Tensor(np.ndarray):
        dtype = "torch.bfloat16"

    assert sum_tolerance(np.float64([0.5])) == 1e-5
    assert sum_tolerance(P3.view(Tensor)) == 8 * 2.0**-7
    rows = Predictions([0, 1, 2], P3.astype(np.float16))
    assert rows.take([0]).tolerance == rows.tolerance == 2.0**-7


@pytest.mark.parametrize("dtype", [int, bool, np.uint8])
def test_integers_are_probabilities_too(dtype):
    assert pb.log_score([0, 1, 2], np.eye(3, dtype=dtype)) == 0
    assert pb.log_score([0, 1, 1], np.array([0, 1, 1], dtype)) == 0


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("K", [2, 300])
def test_few_rows(n, K):
    y = np.arange(n) * (K - 1)
    assert pb.log_score(y, np.full((n, K), 1 / K)) == pytest.approx(np.log(K), rel=1e-12)


def test_declared_kinds_agree():
    expected = pb.log_score([0, 1, 2], P3)
    assert pb.log_score([0, 1, 2], np.log(P3), from_log_probs=True) == pytest.approx(
        expected, rel=1e-12
    )
    assert pb.log_score([0, 1, 2], np.log(P3) + 3, from_logits=True) == pytest.approx(
        expected, rel=1e-12
    )
    p = P2[:, 1]
    expected = pb.log_score([0, 1, 1], P2)
    assert pb.log_score([0, 1, 1], p) == expected
    assert pb.log_score([0, 1, 1], np.log(p / (1 - p)), from_logits=True) == pytest.approx(
        expected, rel=1e-12
    )


def test_confidence_and_correctness():
    rows = Predictions.from_confidence([0.9, 0.6], [True, False], sample_weight=[1, 2])
    assert (rows.kind, rows.codes.tolist(), len(rows)) == ("pairs", [1, 0], 2)
    assert "confidence" in repr(rows)
    refused(
        lambda: Predictions.from_confidence([[0.9, 0.1]], [1]),
        "confidence",
        words="one number per row",
    )
    refused(
        lambda: Predictions.from_confidence([0.9, 0.1], [1]), "correct", words="`confidence` (2)"
    )


@pytest.mark.parametrize(
    "pick",
    [[2, 0], np.array([True, False, True]), slice(None, None, 2)],
    ids=["index", "mask", "slice"],
)
def test_take(pick):
    rows = Predictions(
        ["a", "b", "c"],
        P3,
        classes=["c", "a", "b"],
        sample_weight=[1, 2, 3],
        features=np.arange(6).reshape(3, 2),
        columns={"age": [30, 40, 50]},
        on_bad_rows="drop",
        names={"y": "truth"},
    )
    some, order = rows.take(pick), np.arange(3)[pick]
    np.testing.assert_array_equal(some.probs, P3[order])
    np.testing.assert_array_equal(some.codes, rows.codes[order])
    np.testing.assert_array_equal(some.sample_weight, [1.0 + i for i in order])
    np.testing.assert_array_equal(some.features, rows.features[order])
    np.testing.assert_array_equal(some.columns["age"], [30 + 10 * i for i in order])
    assert (some.classes, some.on_bad_rows, some.name("y")) == (rows.classes, "drop", "truth")
    refused(lambda: rows.take([]), "probs", words="at least one row")


def test_predictions_are_frozen_and_survive_pickling():
    rows = Predictions(["a", "b", "c"], P3, classes=["c", "a", "b"], columns={"age": [1, 2, 3]})
    for name in ("y", "probs", "classes", "codes"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(rows, name, None)
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(again.codes, rows.codes)
    np.testing.assert_array_equal(again.probs, rows.probs)
    assert (again.classes, again.tolerance, repr(again)) == (
        rows.classes,
        rows.tolerance,
        repr(rows),
    )


def test_input_error_survives_pickling():
    error = InputError("y", "must be a class", "label 7", row=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.argument, again.rule, again.value, again.row) == (
        str(error),
        "y",
        "must be a class",
        "label 7",
        3,
    )


def test_features_may_be_columns_by_name():
    rows = Predictions([0, 1], [0.2, 0.7], features={"age": [30, 40], "height": [1.7, 1.8]})
    assert rows.feature_names == ("age", "height")
    assert rows.features.tolist() == [[30, 1.7], [40, 1.8]]
    mixed = Predictions([0, 1], [0.2, 0.7], features={"age": [30, 40], "site": ["north", "south"]})
    assert mixed.features.tolist() == [[30, "north"], [40, "south"]]
    with pytest.raises(InputError, match="height"):
        Predictions([0, 1], [0.2, 0.7], features={"age": [30, 40], "height": [1.7]})


def test_unknown_options_are_refused():
    calls = {
        "score": lambda **options: pb.log_score(["a", "c"], P3[:2], **options),
        "audit": lambda **options: pb.audit(["a", "c"], P3[:2], **options),
        "compare": lambda **options: pb.compare(
            {"one": P3[:2], "two": P3[:2]}, ["a", "c"], **options
        ),
    }
    for call in calls.values():
        with pytest.raises(TypeError, match=r"has no argument `weights`\. Use `sample_weight`\."):
            call(weights=[1, 2])
        with pytest.raises(
            TypeError, match=r"has no argument `xyz` \(found: 1\)\. Arguments are .*, classes, "
        ):
            call(xyz=1)
    refused(
        lambda: pb.log_score(["a", "d"], P3[:2], classes=["a", "b"]),
        "classes",
        words="each of the 3 classes",
    )


def test_files_and_frames_are_read_first(tmp_path):
    frame = pd.DataFrame({"label": [0, 1, 2]} | {f"p_{k}": P3[:, k] for k in range(3)})
    frame.to_parquet(tmp_path / "x.parquet")
    for source in (frame, str(tmp_path / "x.parquet"), tmp_path / "x.parquet"):
        refused(
            lambda source=source: pb.audit(source),
            "y_true",
            words="Load files and frames with `read(...)` first",
        )
    refused(
        lambda: pb.log_score(pb.scan(tmp_path / "x.parquet")),
        "y_true",
        words="scanned rows go only to audit",
    )
    refused(lambda: pb.log_score([0, 1, 2]), "y_proba", words="is required")


@pytest.mark.parametrize(
    ("probs", "words"),
    [
        ([[0.333, 0.333, 0.333]], 'raise `tolerance` or leave them out with `on_bad_rows="drop"`'),
        ([[33.3, 33.3, 33.4]], "Divide percentages by 100"),
        ([40.0], "Divide percentages by 100"),
        ([[2.5, -1.0, 0.0]], "Declare logits with `from_logits=True`"),
        ([140.0], "Declare logits with"),
    ],
)
def test_outputs_that_are_not_probabilities_raise_with_a_way_out(probs, words):
    refused(lambda: pb.log_score([0], probs), "y_proba", 0, words)


def test_a_gap_is_no_logit():
    with pytest.raises(InputError) as caught:
        pb.log_score([0], [[np.nan, 0.5, 0.5]])
    assert "must lie between 0 and 1 (row 0: nan for class 0)" in str(caught.value)
    assert "logits" not in str(caught.value)


@pytest.mark.parametrize(
    "frame_of", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
@pytest.mark.parametrize("before", ["", "p_"])
def test_a_frame_with_the_classes_in_another_order_is_refused(frame_of, before):
    outputs = {"cat": [0.7, 0.1], "dog": [0.2, 0.1], "owl": [0.1, 0.8]}
    y, classes = ["cat", "owl"], list(outputs)
    frame = frame_of({f"{before}{name}": outputs[name] for name in ("owl", "cat", "dog")})
    rule = f"columns must be in the order of the classes: {before}cat, {before}dog, {before}owl"
    found = rf"\(found: {before}owl, {before}cat, {before}dog\). Reorder the columns."
    with pytest.raises(InputError, match=f"^`probs`: {rule} {found}"):
        Predictions(y, frame, classes=classes)
    with pytest.raises(InputError, match=f"^`y_proba`: {rule}"):
        pb.log_score(y, frame, classes=classes)
    expected = -np.log([0.7, 0.8]).mean()
    assert pb.log_score(y, frame, classes=["owl", "cat", "dog"]) == pytest.approx(expected)
    assert (
        pb.log_score(
            y, frame_of({f"{before}{name}": outputs[name] for name in classes}), classes=classes
        )
        == expected
    )
    assert (
        pb.log_score(
            y, frame_of({"x": [0.7, 0.1], "y": [0.2, 0.1], "z": [0.1, 0.8]}), classes=classes
        )
        == expected
    )


def test_a_frame_with_column_numbers_in_another_order_is_refused():
    frame = pd.DataFrame([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    assert pb.log_score([0, 2], frame) == pytest.approx(-np.log([0.7, 0.8]).mean())
    with pytest.raises(InputError, match="must be in the order of the classes: 0, 1, 2"):
        pb.log_score([0, 2], frame[[2, 0, 1]])
    with pytest.raises(InputError, match="found: True, False"):
        Predictions([True, False], pd.DataFrame({True: [0.9, 0.1], False: [0.1, 0.9]}))


def test_clusters_are_one_value_for_each_row() -> None:
    rows = pb.Predictions([1, 0, 1], [0.9, 0.2, 0.4], clusters=["b", "a", "b"])
    assert rows.cluster_numbers is not None
    assert rows.cluster_numbers.tolist() == [0, 1, 0]
    assert rows.take([0, 2]).clusters.tolist() == ["b", "b"]
    cases = (
        ([1, 2], None, "needs one value per row"),
        ([1.0, np.nan, 2], 1, "every row needs a cluster"),
    )
    for clusters, row, words in cases:

        def call(clusters: list[float] = clusters) -> pb.Predictions:
            return pb.Predictions([1, 0, 1], [0.9, 0.2, 0.4], clusters=clusters)

        refused(call, "clusters", row, words)
    refused(
        lambda: pb.log_score(rows, clusters=[1, 2, 3]),
        "clusters",
        words="together with Predictions",
    )


NAMES = ["cat", "dog", "owl"]


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_labels_that_are_numbers_are_positions_of_named_classes(y):
    rows = Predictions(y, P3, classes=NAMES)
    assert rows.codes.tolist() == [0, 1, 2]
    assert pb.log_score(rows) == pb.log_score(NAMES, P3, classes=NAMES)


def test_booleans_are_positions_of_two_named_classes():
    assert Predictions([True, False], P2[:2], classes=["no", "yes"]).codes.tolist() == [1, 0]


def test_ignored_labels_are_no_positions():
    rows = Predictions([2, 255, 0], P3, classes=NAMES, ignore_label=255)
    assert rows.codes.tolist()[::2] == [2, 0]
    assert pb.log_score(rows).n == 2


@pytest.mark.parametrize(
    ("y", "classes", "words"),
    [
        ([0, 3, 9], NAMES, "position of its class, from 0 ('cat') to 2 ('owl') (row 1: label 3)"),
        ([0, -1, 9], NAMES, "To leave out and count rows with this label, pass `ignore_label=-1`"),
        ([1, 3, 2], NAMES, "(row 1: label 3). If labels count from 1, subtract 1."),
        (["cat", "1", "owl"], NAMES, "Convert labels to numbers"),
        ([0, 1, 2], ["0", "1", "2"], "must be one of the classes '0', '1', '2' (row 0: label 0)"),
        ([0, 1, 2], ["cat", "7", "owl"], "must be one of the classes 'cat', '7', 'owl'"),
        ([0.0, np.nan, 2.0], NAMES, "'cat', 'dog', 'owl' (row 1: label is missing)"),
    ],
    ids=["too large", "negative", "from one", "text", "numbers as text", "one number", "missing"],
)
def test_labels_that_are_no_positions(y, classes, words):
    with pytest.raises(InputError) as caught:
        pb.log_score(y, P3, classes=classes)
    assert words in str(caught.value)


def test_positions_in_fits_and_states():
    y = np.array([0, 1, 2] * 20)
    P = np.tile(P3, (20, 1))
    by_number = pb.calibrators.TemperatureScaling(classes=NAMES).fit(P, y)
    by_name = pb.calibrators.TemperatureScaling(classes=NAMES).fit(P, np.array(NAMES)[y])
    assert by_number.classes_.tolist() == NAMES
    assert by_number.temperature_ == by_name.temperature_
    state = pb.statistics(classes=NAMES, part=0).update(y, P)
    named = pb.statistics(classes=NAMES, part=0).update(np.array(NAMES)[y], P)
    assert state.to_bytes() == named.to_bytes()
    with pytest.raises(InputError, match="must be one of `classes`"):
        pb.calibrators.TemperatureScaling(classes=NAMES).fit(P, y + 1)


def test_positions_of_models_whose_classes_have_different_orders():
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    first = Predictions(y, P, classes=NAMES)
    other = Predictions(2 - y, P[:, ::-1], classes=NAMES[::-1])
    found = pb.compare({"a": first, "b": other}, repair=False)
    assert found.estimates["a"]["log_score"] == found.estimates["b"]["log_score"]
    wrong = Predictions(y, P[:, ::-1], classes=NAMES[::-1])
    with pytest.raises(InputError, match="labels must equal those of 'a'"):
        pb.compare({"a": first, "b": wrong}, repair=False)
