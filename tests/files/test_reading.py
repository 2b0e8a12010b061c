"""Predictions from files and frames: what is read, and what is refused in words."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import probaudit as pb
from probaudit import InputError, read
from probaudit.files.reading import read_costs, read_outputs
from probaudit.files.writing import write_table, write_text

DATA = {"label": ["cat", "dog", "cat"], "p_dog": [0.25, 0.5, 0.125], "p_cat": [0.75, 0.5, 0.875]}
BINARY = {"label": [0, 1], "p_0": [0.25, 0.5], "p_1": [0.75, 0.5]}
EXTRA = BINARY | {
    "f_1": [1.0, 2.0],
    "w": [1, 2],
    "g": ["a", "b"],
    "conf": [0.5, 0.75],
    "ok": [True, False],
}


def write_npz(table, path):
    np.savez(path, **{name: np.array(table[name].to_pylist()) for name in table.column_names})


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "x.csv": csv.write_csv,
    "X.CSV": csv.write_csv,
    "x.parquet": parquet.write_table,
    "x.pq": parquet.write_table,
    "x.arrow": feather.write_feather,
    "x.feather": feather.write_feather,
    "stream.arrow": write_stream,
    "x.npz": write_npz,
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


def refused(call, argument, row=None, words=""):
    with pytest.raises(InputError) as caught:
        call()
    assert (caught.value.argument, caught.value.row) == (argument, row), str(caught.value)
    assert words in str(caught.value)


def judged(source, **options):
    """Rows that have been read, and passed through an audit."""
    rows = read(source, **options)
    pb.audits.audit.audit_rows(rows)
    return rows


def text_file(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("as_path", [Path, str])
def test_files(tmp_path, name, as_path):
    WRITERS[name](pa.table(DATA), tmp_path / name)
    rows = read(as_path(tmp_path / name))
    assert rows.classes == ("dog", "cat")
    assert rows.codes.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(rows.probs, np.column_stack([DATA["p_dog"], DATA["p_cat"]]))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames(frame):
    rows = read(frame(DATA))
    assert (rows.classes, rows.codes.tolist()) == (("dog", "cat"), [1, 0, 1])


LABEL_COLUMNS = {
    "pandas category": (
        pd.DataFrame,
        pd.Categorical(["b", "a"], categories=["b", "a"]),
        ["a", "b"],
        [1, 0],
    ),
    "pandas category of integers": (pd.DataFrame, pd.Categorical([1, 0]), ["0", "1"], [1, 0]),
    "pandas string": (pd.DataFrame, pd.array(["b", "a"], "string"), ["a", "b"], [1, 0]),
    "pandas Int8": (pd.DataFrame, pd.array([1, 0], "Int8"), ["0", "1"], [1, 0]),
    "polars categorical": (
        pl.DataFrame,
        pl.Series(["b", "a"], dtype=pl.Categorical),
        ["a", "b"],
        [1, 0],
    ),
    "polars boolean": (pl.DataFrame, [True, False], ["False", "True"], [1, 0]),
    "booleans named by number": (pl.DataFrame, [True, False], ["1", "0"], [0, 1]),
    "floats": (pa.table, [1.0, 0.0], ["0", "1"], [1, 0]),
    "negative": (pa.table, [-1, 1], ["1", "-1"], [1, 0]),
    "p_10 and p_2": (pa.table, [10, 2], ["2", "10"], [1, 0]),
    "text that looks like numbers": (pa.table, ["1", "0"], ["0", "1"], [1, 0]),
    "arrow dictionary": (pa.table, pa.array(["b", "a"]).dictionary_encode(), ["a", "b"], [1, 0]),
}


@pytest.mark.parametrize(
    ("frame", "labels", "stars", "codes"), LABEL_COLUMNS.values(), ids=LABEL_COLUMNS
)
def test_stars_name_classes_of_the_type_of_the_labels(frame, labels, stars, codes):
    rows = judged(frame({"label": labels, **{f"p_{star}": [0.5, 0.5] for star in stars}}))
    assert rows.codes.tolist() == codes


NULLS = {
    "pandas boolean": (pd.DataFrame, pd.array([True, None, False], "boolean")),
    "pandas boolean, first": (pd.DataFrame, pd.array([None, True, False], "boolean")),
    "pandas Int64": (pd.DataFrame, pd.array([1, None, 0], "Int64")),
    "pandas objects": (pd.DataFrame, np.array([1, None, 0], object)),
    "pandas mixed": (pd.DataFrame, np.array([1, "x", 0], object)),
    "polars integers": (pl.DataFrame, [None, 1, 0]),
    "polars booleans": (pl.DataFrame, [None, True, False]),
    "arrow": (pa.table, pa.array([None, 1, 0])),
}


@pytest.mark.parametrize(("frame", "labels"), NULLS.values(), ids=NULLS)
def test_missing_labels_are_bad_rows_and_the_others_are_read(frame, labels):
    data = frame({"label": labels, "p_0": [0.25] * 3, "p_1": [0.75] * 3})
    rows = read(data, on_bad_rows="drop")
    assert sorted(rows.codes.tolist()) == [-1, 0, 1]
    refused(lambda: judged(data), "label", rows.codes.tolist().index(-1))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(BINARY | {"p_1": pd.array([0.75, None], "Float64")}),
        pl.DataFrame(BINARY | {"p_1": [0.75, None]}),
        pa.table(BINARY | {"p_1": [0.75, None]}),
    ],
    ids=FRAMES,
)
def test_missing_outputs_are_bad_rows(frame):
    refused(lambda: judged(frame), "p_*", 1, "nan for class 1")
    assert len(judged(frame, on_bad_rows="drop")) == 2


def lists(values, type_=None):
    return pa.table({"label": [0, 1], "p": pa.array(values, type_ or pa.list_(pa.float64()))})


@pytest.mark.parametrize(
    "frame",
    [
        lists([[0.25, 0.75], [0.5, 0.5]]),
        lists([[0.25, 0.75], [0.5, 0.5]], pa.large_list(pa.float64())),
        lists([[0.25, 0.75], [0.5, 0.5]], pa.list_(pa.float32(), 2)),
        lists([np.float16([0.25, 0.75]), np.float16([0.5, 0.5])], pa.list_(pa.float16())),
        pl.DataFrame({"label": [0, 1], "p": [[0.25, 0.75], [0.5, 0.5]]}),
        pd.DataFrame({"label": [0, 1], "p": [[0.25, 0.75], [0.5, 0.5]]}),
    ],
    ids=["list", "large", "fixed", "half", "polars", "pandas"],
)
def test_a_column_of_lists_holds_all_classes(frame):
    np.testing.assert_array_equal(judged(frame, probs="p").probs, [[0.25, 0.75], [0.5, 0.5]])


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([[0.5, 0.5], [1.0]], 1),
        ([[0.5, 0.5], None], 1),
        ([None, [0.5, 0.5]], 0),
        ([[0.5, None], [0.5, 0.5]], 0),
    ],
)
def test_lists_with_gaps_are_refused_with_their_row(tmp_path, name, values, row):
    WRITERS[name](lists(values), tmp_path / name)
    refused(lambda: judged(tmp_path / name, probs="p"), "p", row)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([[], []], None),
        ([["a"], ["b"]], pa.list_(pa.string())),
        ([[[0.5]], [[0.5]]], pa.list_(pa.list_(pa.float64()))),
    ],
    ids=["empty", "text", "nested"],
)
def test_lists_that_hold_no_probabilities(values, type_):
    with pytest.raises(InputError, match="`p`"):
        read(lists(values, type_), probs="p")


def test_lists_without_rows():
    with pytest.raises(InputError, match="`p`"):
        read(lists([[0.5, 0.5]] * 2).slice(2), probs="p")


@pytest.mark.parametrize(
    ("probs", "classes", "expected"),
    [
        ("p_*", None, (0, 1)),
        (["p_*"], None, (0, 1)),
        (" p_* ", None, (0, 1)),
        ("p_*", [1, 0], (1, 0)),
        ("p_*", ["1", "0"], (1, 0)),
        ("p_*", [1.0, 0.0], (1, 0)),
        ("p_1, p_0", [1, 0], (1, 0)),
        (["p_1", "p_0"], [1, 0], (1, 0)),
        ("p_[01]*", [0, 1], (0, 1)),
        ("?_0,?_1", [0, 1], (0, 1)),
        ("*_*", [0, 1], (0, 1)),
    ],
)
def test_columns_keep_their_class_whatever_the_order(probs, classes, expected):
    rows = judged(pd.DataFrame(BINARY), probs=probs, classes=classes)
    assert rows.classes == expected
    for k, c in enumerate(expected):
        np.testing.assert_array_equal(rows.probs[:, k], BINARY[f"p_{c}"])


def test_a_single_column_belongs_to_the_second_class():
    rows = judged(pd.DataFrame(DATA), probs="p_dog", classes=["cat", "dog"])
    assert (rows.probs.tolist(), rows.codes.tolist()) == (DATA["p_dog"], [0, 1, 0])


def test_other_parts_of_the_rows():
    rows = judged(pd.DataFrame(EXTRA), weight="w", features="f_*", columns="g,w")
    assert rows.sample_weight.tolist() == [1, 2]
    assert rows.features.tolist() == [[1], [2]]
    assert {name: column.tolist() for name, column in rows.columns.items()} == {
        "g": ["a", "b"],
        "w": [1, 2],
    }
    assert read(pd.DataFrame(EXTRA), features=["w", "f_1"]).features.tolist() == [[1, 1], [2, 2]]


def test_confidence_and_correctness():
    rows = judged(pd.DataFrame(EXTRA), confidence="conf", correct="ok", weight="w")
    assert (rows.kind, rows.codes.tolist(), rows.probs.tolist()) == ("pairs", [1, 0], [0.5, 0.75])


@pytest.mark.parametrize(
    ("option", "kind"),
    [("logits", "logits"), ("log_probs", "log_probabilities"), ("probs", "probabilities")],
)
def test_the_kind_is_what_was_declared(option, kind):
    assert read(pd.DataFrame(BINARY), **{option: "p_*"}).kind == kind


REQUESTS = {
    "no such label": ({"label": "nope"}, "label", "must be one of the columns label, p_0"),
    "label None": ({"label": None}, "label", "no column None"),
    "no such outputs": ({"probs": "nope*"}, "probs", "no column matches 'nope*'"),
    "no outputs": ({"probs": []}, "probs", "at least one column"),
    "no such weight": ({"weight": "nope"}, "weight", "no column"),
    "no such columns": ({"columns": "nope"}, "columns", "no column"),
    "two kinds": ({"probs": "p_*", "logits": "p_*"}, "logits", "one kind of output"),
    "confidence alone": ({"confidence": "conf"}, "correct", "go together"),
    "correct alone": ({"correct": "ok"}, "correct", "go together"),
    "names of no class": ({"probs": "p_0,p_1"}, "label", "Pass `classes`"),
    "classes": ({"classes": 3}, "classes", "sequence"),
    "classes twice": ({"classes": [1, 1]}, "classes", "must not repeat"),
    "too few classes": ({"classes": [1]}, "classes", "each of the 2"),
    "on_bad_rows": ({"on_bad_rows": "skip"}, "on_bad_rows", "'skip'"),
}


@pytest.mark.parametrize(("options", "argument", "words"), REQUESTS.values(), ids=REQUESTS)
def test_requests_that_cannot_be_met(options, argument, words):
    refused(lambda: read(pd.DataFrame(EXTRA), **options), argument, words=words)


@pytest.mark.parametrize(
    "options", [{"weight": "g"}, {"probs": "g"}, {"confidence": "g", "correct": "ok"}]
)
def test_text_where_numbers_belong_is_refused_with_its_row(options):
    refused(lambda: read(pd.DataFrame(EXTRA), **options), "g", 0, "must hold numbers (row 0: 'a')")


def test_bad_weights_are_named_by_their_column():
    refused(lambda: judged(pd.DataFrame(EXTRA | {"w": [1, -1]}), weight="w"), "w", 1)


@pytest.mark.parametrize(
    "source",
    [3, None, BINARY, pd.Series([1]), np.ones((2, 2)), pl.LazyFrame(BINARY)],
    ids=lambda s: type(s).__name__,
)
def test_sources_that_are_no_frames(source):
    refused(lambda: read(source), "source", words="must be a path or a data frame")


def test_only_the_columns_asked_for_matter():
    frame = pd.DataFrame(BINARY | {"junk": [{1}, object()]}, index=[5, 9])
    assert len(judged(frame)) == 2
    assert list(read(frame.drop(columns="junk"), columns="*").columns) == list(BINARY)


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame([[0, 0.5, 0.5]], columns=["label", "p_0", "p_0"]),
        pa.Table.from_arrays(
            [pa.array([0]), pa.array([0.5]), pa.array([0.5])], names=["label", "p_0", "p_0"]
        ),
    ],
)
def test_columns_of_one_name(source):
    refused(lambda: read(source), "source", words="must differ")


@pytest.mark.parametrize("probs", [[0, 1], "0,1", ["0", "1"]])
def test_column_names_that_are_numbers_become_text(probs):
    frame = pd.DataFrame(
        {0: [0.25, 0.5], 1: [0.75, 0.5], "y": [0, 1], 7: [1.0, 2.0], 8: ["a", "b"]}
    )
    rows = judged(frame, label="y", probs=probs, weight=7, features=[7], columns=8)
    np.testing.assert_array_equal(rows.probs, [[0.25, 0.75], [0.5, 0.5]])
    assert (rows.classes, rows.sample_weight.tolist(), list(rows.columns)) == (
        (0, 1),
        [1, 2],
        ["8"],
    )
    refused(
        lambda: read(frame.assign(**{"1": 0.5}), label="y", probs=probs),
        "source",
        words="two columns '1'",
    )


MIXED = BINARY | {
    "site": ["north", None],
    "ill": pa.array([True, None]),
    "empty": pa.nulls(2, pa.string()),
    "age": [30, 41.5],
}


@pytest.mark.parametrize(
    "frame",
    [lambda table: table, pa.Table.to_pandas, pl.from_arrow],
    ids=["arrow", "pandas", "polars"],
)
def test_features_may_be_text(frame):
    rows = judged(frame(pa.table(MIXED)), features="site,ill,age")
    assert rows.feature_names == ("site", "ill", "age")
    assert rows.features[0].tolist() == ["north", 1.0, 30.0]
    assert rows.features[1, 0] is None
    assert np.isnan(rows.features[1, 1])
    assert read(frame(pa.table(MIXED)), features="age").features.dtype == np.float64


def test_features_of_mixed_values_are_refused():
    refused(
        lambda: read(pd.DataFrame(BINARY | {"f": [1.5, "x"]}), features="f"),
        "f",
        1,
        "must hold numbers (row 1: 'x')",
    )


SPELLED = {
    "dates": (
        ["2024-01-02", "2024-01-01"],
        ["2024-01-01", "2024-01-02"],
        ("2024-01-01", "2024-01-02"),
    ),
    "times": (
        ["2024-01-01 10:30:00", "2024-01-01 09:00:00"],
        ["2024-01-01 09:00", "2024-01-01T10:30:00"],
        None,
    ),
    "floats": (["1.0", "0.0"], ["0.0", "1.0"], (0, 1)),
    "floats and whole names": (["1.0", "0.0"], ["0", "1"], (0, 1)),
    "whole numbers and names with a point": (["1", "0"], ["0.0", "1.0"], (0, 1)),
    "halves": (["1.5", "0.5"], ["0.5", "1.5"], (0.5, 1.5)),
    "zeros before": (["02", "01"], ["01", "02"], (1, 2)),
}


@pytest.mark.parametrize(("labels", "stars", "classes"), SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_classes_are_found_however_they_are_spelled(tmp_path, labels, stars, classes, name):
    lines = [
        ["label", *(f"p_{star}" for star in stars)],
        *([label, ".5", ".5"] for label in labels),
    ]
    path = text_file(
        tmp_path / name, "\n".join(("," if name == "x.csv" else "\t").join(line) for line in lines)
    )
    for options in ({}, {"classes": stars}):
        for rows in (judged(path, **options), pb.scan(path, **options).first_rows):
            assert rows.codes.tolist() == [1, 0]
            assert rows.classes == (tuple(stars) if classes is None else classes)


def test_dates_are_classes_only_of_the_same_moment(tmp_path):
    frame = pd.DataFrame(
        {
            "label": pd.to_datetime(["2024-01-01 00:01", None]),
            "p_2024-01-01": [0.5] * 2,
            "p_2024-01-02": [0.5] * 2,
        }
    )
    assert read(frame, on_bad_rows="drop").codes.tolist() == [-1, -1]
    refused(lambda: judged(frame), "label", 0, "label '2024-01-01T00:01")
    refused(lambda: judged(frame.iloc[1:]), "label", 0, "label is missing")
    names = frame.set_axis(["label", "p_a", "p_b"], axis=1)
    refused(lambda: read(names), "label", words="but classes are named a, b). Pass `classes`")


@pytest.mark.parametrize(
    "text", ["\ufefflabel,p_NA,p_b\n", "label,p_NA,p_b\r\n", '"label",p_NA,p_b\n']
)
def test_csv_dialects_and_a_class_called_na(tmp_path, text):
    path = text_file(tmp_path / "x.csv", text + "NA,.5,.5\nb,.5,.5")
    assert judged(path).codes.tolist() == [0, 1]


def test_npz_shapes(tmp_path):
    np.savez(
        tmp_path / "x.npz",
        label=[[0], [1]],
        one=[[0.3], [0.4]],
        two=np.float16([[0.25, 0.75], [0.5, 0.5]]),
        long=[1, 2, 3],
    )
    assert read(tmp_path / "x.npz", probs="one").probs.tolist() == [0.3, 0.4]
    assert read(tmp_path / "x.npz", probs="two").tolerance == 2.0**-7
    refused(
        lambda: read(tmp_path / "x.npz", probs="one,two", classes=[0, 1]),
        "probs",
        words="is a matrix",
    )
    refused(
        lambda: read(tmp_path / "x.npz", probs="two", label="long"),
        "long",
        words="one label per row",
    )


def test_outputs_are_in_the_order_of_classes_however_these_are_spelled():
    frame = pd.DataFrame({"p_10": [0.1], "p_02": [0.2], "p_01": [0.7], "day": ["x"]})
    outputs, others = read_outputs(frame, [1, 2, 10], from_logits=False)
    assert (outputs.tolist(), others.column_names) == ([[0.7, 0.2, 0.1]], ["day"])
    refused(
        lambda: read_outputs(frame.assign(p_1=0.0), [1, 2, 10], from_logits=False),
        "probs",
        words="needs a column for each",
    )


def test_cost_files(tmp_path):
    path = text_file(tmp_path / "costs.csv", "class,keep,drop\ndog,1,0\ncat,0,2\n")
    assert read_costs(path, ("cat", "dog")).matrix.tolist() == [[0, 2], [1, 0]]
    refused(
        lambda: read_costs(path, ("cat", "cow")),
        "costs",
        words="needs one row for each of cat, cow",
    )
    refused(
        lambda: read_costs(text_file(path, "0,1\n1,0\n"), (0, 1)), "costs", words="needs a header"
    )
    refused(
        lambda: read_costs(text_file(path, "keep,drop\n0,x\n1,0\n"), (0, 1)),
        "costs",
        words="column 'drop': 'x'",
    )


def test_files_are_written_whole_or_not_at_all(tmp_path):
    write_text(tmp_path / "x.csv", "é")
    assert (tmp_path / "x.csv").read_text(encoding="utf-8") == "é"
    with pytest.raises(InputError):
        write_table(tmp_path / "x.csv", {"a": np.ones((2, 2))})
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert (tmp_path / "x.csv").read_text(encoding="utf-8") == "é"
    refused(
        lambda: write_text(tmp_path / "none" / "x.csv", ""), "path", words="its folder must exist"
    )
