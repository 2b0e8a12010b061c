"""Whatever holds numbers or labels comes out as the same numpy array, and its layout in memory
changes no result."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import probaudit as pb
from probaudit import InputError, Predictions
from probaudit.data.arrays import (
    BFLOAT16_SPACING,
    as_array,
    as_numbers,
    is_missing,
    named_columns,
    row_reduced,
    spacing,
)
from probaudit.data.classes import in_class_order

ROWS = [[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]
MATRIX = np.array(ROWS)


class FakeTensor:
    """As much of a torch tensor as is used; on a device, with a gradient, until detached and
    brought to the cpu."""

    def __init__(self, values, dtype="torch.float32", ready=False):
        self.values, self.dtype, self.ready = np.asarray(values), dtype, ready

    def detach(self):
        return FakeTensor(self.values, self.dtype, ready=True)

    def cpu(self):
        return self

    def float(self):
        return FakeTensor(self.values.astype(np.float32), ready=self.ready)

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        assert self.ready, "can't convert a tensor that requires grad or is not on the cpu"
        assert self.dtype != "torch.bfloat16", "numpy has no bfloat16"
        return self.values


FakeTensor.__module__ = "torch"

MATRICES = {
    "list": ROWS,
    "tuple": tuple(map(tuple, ROWS)),
    "list of arrays": list(MATRIX),
    "numpy": MATRIX,
    "object": MATRIX.astype(object),
    "decimal": [[Decimal(v) for v in row] for row in ROWS],
    "longdouble": MATRIX.astype(np.longdouble),
    "masked, nothing hidden": np.ma.masked_array(MATRIX, mask=False),
    "torch": FakeTensor(MATRIX, "torch.float64"),
    "bfloat16": FakeTensor(MATRIX, "torch.bfloat16"),
    "pandas": pd.DataFrame(MATRIX),
    "pandas nullable": pd.DataFrame(MATRIX).astype("Float64"),
    "pandas arrow": pd.DataFrame(MATRIX).astype("float64[pyarrow]"),
    "pandas mixed": pd.DataFrame(
        {"a": MATRIX[:, 0].astype(np.float32), "b": pd.array(MATRIX[:, 1], "Float64")}
    ),
    "pandas lists": pd.Series(ROWS),
    "polars": pl.DataFrame(ROWS, orient="row"),
    "polars lists": pl.Series(ROWS),
    "polars array": pl.Series(ROWS, dtype=pl.Array(pl.Float64, 2)),
    "arrow table": pa.table({"a": MATRIX[:, 0], "b": MATRIX[:, 1]}),
    "arrow batch": pa.record_batch({"a": MATRIX[:, 0], "b": MATRIX[:, 1]}),
    "arrow lists": pa.array(ROWS),
    "arrow large lists": pa.array(ROWS, pa.large_list(pa.float64())),
    "arrow fixed lists": pa.array(ROWS, pa.list_(pa.float64(), 2)),
    "arrow chunks of lists": pa.chunked_array([ROWS[:1], ROWS[1:]]),
    "arrow slice of lists": pa.array([[9.0, 9.0], *ROWS]).slice(1),
}


@pytest.mark.parametrize("data", MATRICES.values(), ids=MATRICES)
def test_matrices_of_every_kind(data):
    numbers = as_numbers(data, "probs")
    assert type(numbers) is np.ndarray
    assert numbers.dtype.kind == "f"
    assert numbers.dtype.itemsize <= 8
    np.testing.assert_array_equal(numbers, MATRIX)


VECTORS = {
    "list": [0.5, None, 0.25],
    "numpy": np.array([0.5, np.nan, 0.25]),
    "float16": np.array([0.5, np.nan, 0.25], np.float16),
    "masked": np.ma.masked_array([0.5, 0.5, 0.25], mask=[0, 1, 0]),
    "masked float16": np.ma.masked_array(np.float16([0.5, 0.5, 0.25]), mask=[0, 1, 0]),
    "pandas": pd.Series([0.5, None, 0.25]),
    "pandas nullable": pd.Series([0.5, None, 0.25], dtype="Float64"),
    "pandas array": pd.array([0.5, None, 0.25], "Float64"),
    "pandas objects": pd.Series([0.5, pd.NA, 0.25], dtype=object),
    "pandas NaT": pd.Series([0.5, pd.NaT, 0.25], dtype=object),
    "pandas arrow": pd.Series([0.5, None, 0.25], dtype="float64[pyarrow]"),
    "polars": pl.Series([0.5, None, 0.25]),
    "arrow": pa.array([0.5, None, 0.25]),
    "arrow chunks": pa.chunked_array([[0.5, None], [0.25]]),
    "arrow dictionary": pa.array([0.5, None, 0.25]).dictionary_encode(),
}


@pytest.mark.parametrize("data", VECTORS.values(), ids=VECTORS)
def test_missing_numbers_are_nan(data):
    np.testing.assert_array_equal(as_numbers(data, "probs"), [0.5, np.nan, 0.25])


LABELS = {
    "pandas": pd.Series(["a", "b"]),
    "pandas category": pd.Series(["a", "b"], dtype="category"),
    "pandas categorical": pd.Categorical(["a", "b"], categories=["b", "a"]),
    "polars": pl.Series(["a", "b"]),
    "polars categorical": pl.Series(["a", "b"], dtype=pl.Categorical),
    "polars enum": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])),
    "arrow": pa.array(["a", "b"]),
    "arrow chunks": pa.chunked_array([["a"], ["b"]]),
    "arrow dictionary": pa.array(["a", "b"]).dictionary_encode(),
}


@pytest.mark.parametrize("data", LABELS.values(), ids=LABELS)
def test_text_of_every_kind(data):
    assert as_array(data, "y").tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "data", [pa.array([True, False]), pl.Series([True, False]), pd.array([True, False], "boolean")]
)
def test_booleans_stay_booleans(data):
    array = as_array(data, "y")
    assert array.dtype == bool
    assert array.tolist() == [True, False]


def test_hidden_labels_are_missing_and_the_others_keep_their_type():
    assert as_array(np.ma.masked_array([3, 4], mask=[0, 1]), "y").tolist() == [3, None]


def test_numpy_is_not_copied_and_subclasses_are_shed(tmp_path):
    assert np.shares_memory(as_numbers(MATRIX, "probs"), MATRIX)
    np.save(tmp_path / "x.npy", MATRIX)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    array = as_numbers(mapped, "probs")
    assert type(array) is np.ndarray
    assert np.shares_memory(array, mapped)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f2", ">f4", ">f8"])
def test_formats_up_to_float64_are_kept(dtype):
    assert as_numbers(MATRIX.astype(dtype), "probs").dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.uint64, np.longdouble])
def test_other_numbers_become_float64(dtype):
    numbers = as_numbers(np.eye(2, dtype=dtype), "probs")
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, np.eye(2))


@pytest.mark.parametrize(
    ("data", "row", "words"),
    [
        ([[0.5, 0.5], [1.0]], 1, "1 entries"),
        ([[0.5, 0.5], [0.5, 0.5], 0.5], 2, "not a list"),
        (np.array([[0.5, 0.5], [0.5, 0.5], [1.0]], object), 2, "1 entries"),
        (pd.Series([[0.5, 0.5], [1.0, 0.0, 0.0]]), 1, "3 entries"),
        (pl.Series([[0.5, 0.5], [1.0]]), 1, "1 entries"),
        (pa.array([[0.5, 0.5], [1.0]]), 1, "1 entries"),
        (pa.array([[0.5, 0.5], None]), 1, "no list"),
        (pa.array([None, [0.5, 0.5]]), 0, "no list"),
        (pa.array([[0.5, 0.5], None], pa.list_(pa.float64(), 2)), 1, "no list"),
        (np.array([0.5, "0.5"], object), 1, "'0.5'"),
        (pd.Series([0.5, "x"], dtype=object), 1, "'x'"),
        (pd.Series(["0.5", "0.25"]), 0, "'0.5'"),
        ([[0.5, 1j], [0, 0]], None, "complex"),
        (["0.5"], None, "<U3"),
        (np.array(["2020"], "M8[Y]"), None, "datetime"),
        ([10**400], None, "too large"),
        ({"a": [0.5]}, None, "{'a'"),
    ],
)
def test_what_is_not_a_row_of_numbers_is_refused(data, row, words):
    with pytest.raises(InputError) as caught:
        as_numbers(data, "probs")
    assert caught.value.argument == "probs"
    assert caught.value.row == row
    assert words in str(caught.value)


def test_a_table_of_lists_without_rows_is_empty():
    assert as_numbers(pa.array([], pa.list_(pa.float64())), "probs").size == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.float64([0.5]), 2.0**-52),
        (np.array([0.5], ">f4"), 2.0**-23),
        (np.float16([0.5]), 2.0**-10),
        ([0.5], 2.0**-52),
        ([1], 0.0),
        (np.array([0.5], object), 0.0),
        (0.5, 0.0),
        (None, 0.0),
        (pd.DataFrame({"a": np.float16([0.5])}), 2.0**-10),
        (pl.Series([0.5], dtype=pl.Float32), 2.0**-23),
        (pa.array(np.float16([0.5])), 2.0**-10),
        (FakeTensor(np.float16([0.5]), "torch.float16"), 2.0**-10),
        (FakeTensor(np.float32([0.5]), "torch.bfloat16"), BFLOAT16_SPACING),
    ],
)
def test_spacing_is_that_of_the_format_given(data, expected):
    assert spacing(data) == expected


@pytest.mark.parametrize("value", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", False, 0.0, np.inf, "nan", [None], np.array([np.nan])])
def test_not_missing(value):
    assert not is_missing(value)


def test_torch_itself():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(ROWS, requires_grad=True)
    np.testing.assert_array_equal(as_numbers(tensor, "probs"), MATRIX)
    np.testing.assert_array_equal(as_numbers(tensor.to(torch.bfloat16), "probs"), MATRIX)
    assert spacing(tensor.to(torch.bfloat16)) == BFLOAT16_SPACING


RANDOM = np.random.default_rng(0)
MANY = RANDOM.dirichlet(np.ones(5), 3000)
Y, W = RANDOM.integers(5, size=3000), RANDOM.random(3000)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    wide = np.full(tuple(2 * size for size in array.shape), 7, array.dtype)
    wide[(slice(None, None, 2),) * array.ndim] = array
    return wide[(slice(None, None, 2),) * array.ndim]


LAYOUTS = {
    "fortran": np.asfortranarray,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "read-only": read_only,
    "strided": strided,
    "reversed twice": lambda a: a[::-1].copy()[::-1],
    "longdouble": lambda a: a.astype(np.longdouble),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("score", [pb.log_score, pb.brier_score])
def test_results_do_not_depend_on_the_layout(layout, score):
    expected = score(Y, MANY, sample_weight=W)
    found = score(layout(Y), layout(MANY), sample_weight=layout(W))
    assert found == expected
    assert found.interval == expected.interval


def test_a_memory_mapped_file_is_as_good_as_an_array(tmp_path):
    np.save(tmp_path / "p.npy", MANY)
    assert pb.log_score(Y, np.load(tmp_path / "p.npy", mmap_mode="r")) == pb.log_score(Y, MANY)


@pytest.mark.parametrize(
    "options", [{}, {"from_logits": True}, {"on_bad_rows": "drop", "sample_weight": W}]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inputs_are_not_changed(options, dtype):
    values, labels = MANY.astype(dtype), Y.copy()
    if "on_bad_rows" in options:
        values[7], labels[9] = np.nan, 99
    before = values.copy(), labels.copy(), W.copy()
    pb.audit(labels, values, **options)
    for now, then in zip((values, labels, W), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_blocks_are_contiguous_native_and_cover_the_rows():
    rows = Predictions(Y, np.asfortranarray(MANY).astype(">f8"), sample_weight=W)
    blocks = list(rows.blocks(1024))
    assert [block.first_row for block in blocks] == [0, 1024, 2048]
    for block in blocks:
        assert block.values.flags.carray
        assert block.labels.flags.carray
        assert block.values.dtype.isnative
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), MANY)


FRAMES = {
    "text with gaps": pd.DataFrame(
        {"group": pd.array(["a", None, "b", "a"], "string"), "size": [1.0, 2.0, 3.0, 4.0]}
    ),
    "truth values with gaps": pd.DataFrame(
        {"group": pd.array([True, None, False, True], "boolean"), "size": [1, 2, 3, 4]}
    ),
    "categories with gaps": pd.DataFrame(
        {"group": pd.Categorical(["x", None, "y", "x"]), "size": [1, 2, 3, 4]}
    ),
    "polars": pl.DataFrame({"group": ["a", None, "b", "a"], "size": [1, 2, 3, 4]}),
    "arrow": pa.table({"group": ["a", None, "b", "a"], "size": [1, 2, 3, 4]}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_have_columns_by_name_and_gaps_are_none(frame):
    named = named_columns(frame, "features")
    assert list(named) == ["group", "size"]
    assert [value is None for value in named["group"]] == [False, True, False, False]
    rows = Predictions([0, 1, 0, 1], [0.2, 0.7, 0.4, 0.6], features=frame, columns=frame)
    assert rows.feature_names == ("group", "size")
    assert rows.features[1, 0] is None
    assert list(rows.columns) == ["group", "size"]


@pytest.mark.parametrize("kind", ["string", "boolean", "category"])
def test_gaps_are_a_group_of_their_own(kind):
    values = [True, None, False, True] if kind == "boolean" else ["a", None, "b", "a"]
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    frame = pd.DataFrame({"group": pd.Series(values * 100, dtype=kind), "size": p})
    found = pb.grouping_loss(y, p, frame, regions=["group"], lens=pb.Binary(), bins=2)
    table = found.regions
    rules = [table.origin(number).rule for number in table.number]
    rows = dict(zip(rules, table.rows, strict=True))
    assert rows["group = (missing)"] == 100
    assert sorted(rows.values()) == [100, 100, 200]
    learned = pb.grouping_loss(y, p, frame, lens=pb.Binary(), bins=2)
    assert np.isfinite(learned.lower_bound)


def test_names_that_are_numbers_become_text():
    frame = pd.DataFrame({0: [1.0, 2.0], 1: [3.0, 4.0]})
    assert list(named_columns(frame, "features")) == ["0", "1"]
    assert Predictions([0, 1], [0.2, 0.7], features=frame).feature_names == ("0", "1")


def test_columns_must_have_names():
    with pytest.raises(InputError, match="must be a frame, or a mapping of names to arrays"):
        Predictions([0, 1], [0.2, 0.7], columns=np.ones((2, 2)))


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        (["p_b", "p_a"], ["a", "b"], ["p_a", "p_b"]),
        (["b", "a"], ["a", "b"], ["a", "b"]),
        (["cat_p", "car_p"], ["car", "cat"], ["car_p", "cat_p"]),  # classes that begin alike
        (["x_11_y", "x_1_y"], [1, 11], ["x_1_y", "x_11_y"]),
        (["aaa", "aa"], ["a", "aa"], ["aa", "aaa"]),
        (["p_10", "p_9", "p_1"], [1, 9, 10], ["p_1", "p_9", "p_10"]),
        (["p_a", "q_b"], ["a", "b"], None),
        (["p_a"], ["a", "b"], None),
        (["a", "b"], ["aa", "bb"], None),
        ([], [], None),
    ],
)
def test_names_in_the_order_of_the_classes(names, classes, expected):
    assert in_class_order(names, classes) == expected


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 8, 10])
@pytest.mark.parametrize("operation", [np.add, np.maximum])
def test_reduced_rows_have_the_bits_of_numpy(columns, operation):
    rng = np.random.default_rng(columns)
    table = rng.normal(size=(1000, columns)) * np.exp(rng.normal(0, 5, (1000, 1)))
    expected = operation.reduce(table, axis=1, keepdims=True)
    np.testing.assert_array_equal(row_reduced(operation, table), expected, strict=True)
