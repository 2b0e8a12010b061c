"""Formats and dialects of files: compressed text, JSON lines, arrays, separators and decimals."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import probaudit as pb
from probaudit.files import json_lines
from probaudit.files.dialect import Dialect

WORLD = pb.simulate.gaussian_posteriors(300, 3, seed=0)
FRAME = pd.DataFrame(
    {"label": WORLD.y, "site": np.where(WORLD.y == 1, "a", "b")}
    | {f"p_{k}": WORLD.cal[:, k] for k in range(3)}
)
EXPECTED = pb.log_score(WORLD.y, WORLD.cal)


def _compressed(path, content: bytes) -> None:
    codec = {".gz": gzip.compress, ".zst": lambda c: pa.compress(c, "zstd", asbytes=True)}
    path.write_bytes(codec.get(path.suffix, bytes)(content))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv.gz", {}),
        ("a.csv.zst", {}),
        ("a.tsv.gz", {}),
        ("a.csv", {"sep": ";", "decimal": ","}),
        ("a.csv", {"sep": "|"}),
        ("a.csv", {"sep": "tab"}),
        ("a.tsv.gz", {"sep": ";"}),
        ("a.jsonl", {}),
        ("a.ndjson.gz", {}),
        ("A.JSONL.ZST", {}),
    ],
)
def test_text_in_memory_and_streamed(tmp_path, name, options, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 1000)  # several blocks, whose ends cut lines
    path = tmp_path / name
    if "json" in name.lower():
        text = FRAME.to_json(orient="records", lines=True, double_precision=15)
    else:
        separator = {"tab": "\t"}.get(options.get("sep"), options.get("sep"))
        separator = separator or ("\t" if ".tsv" in name else ",")
        text = FRAME.to_csv(index=False, sep=separator, decimal=options.get("decimal", "."))
    _compressed(path if path.suffix.islower() else path.with_suffix(".zst"), text.encode())
    path = path if path.suffix.islower() else path.with_suffix(".zst")
    read = pb.read(path, columns="site", **options)
    source = pb.scan(path, columns="site", **options)
    assert float(pb.log_score(read)) == pytest.approx(EXPECTED, rel=1e-12)
    assert len(source) == 300
    assert np.array_equal(read.columns["site"], FRAME["site"])
    streamed = [rows for _, rows in source.blocks()]
    assert np.array_equal(np.concatenate([rows.probs for rows in streamed]), read.probs)
    assert np.array_equal(np.concatenate([rows.y for rows in streamed]), read.y)


def test_json_lines_have_wide_enough_types_and_nested_names(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64)
    rows = [{"label": i % 2, "out": {"p": i / 10, "note": None}} for i in range(10)]
    rows[0]["out"]["p"] = 0  # an integer in the first block, floats in later ones
    rows[7]["out"]["note"] = "late"
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")  # blank lines do not count
    read = pb.read(path, probs="out.p", columns="out.note")
    streamed = pb.scan(path, probs="out.p", columns="out.note")
    assert read.probs.tolist() == [i / 10 for i in range(10)]
    ((_, block),) = list(streamed.blocks(10))
    assert block.probs.tolist() == read.probs.tolist()
    assert block.columns["out.note"].tolist() == read.columns["out.note"].tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ('{"label": 1, "p": 0.5}\n{"label": 0, "p"', "JSON parse error"),
        ('{"label": 1, "p": 0.5}\n{"label": 0, "p": "x"}', "string"),
        ("label,p\n1,0.5\n", "JSON parse error"),
    ],
)
def test_json_lines_that_are_refused(tmp_path, text, words):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(pb.InputError, match=f"readable jsonl file .*{words}"):
        pb.read(path, probs="p")


def test_arrays_in_files_of_their_own(tmp_path):
    probs, labels, weights = tmp_path / "probs.npy", tmp_path / "y.npy", tmp_path / "w.npy"
    np.save(probs, WORLD.cal.astype(np.float32))
    np.save(labels, WORLD.y)
    np.save(weights, np.arange(300.0))
    read = pb.read(probs, label=str(labels), weight=str(weights))
    assert read.probs.dtype == np.float32
    assert read.sample_weight.tolist() == list(range(300))
    both = pb.read([probs, labels], label="y", probs="probs")  # each is a column of that name
    assert np.array_equal(both.y, WORLD.y)
    for name in ("probs", "probs.npy", str(probs)):
        logits = pb.read(probs, label=str(labels), logits=name)
        assert logits.kind == "logits"
        assert np.array_equal(logits.probs, np.load(probs))
    with pytest.raises(pb.InputError, match=r"a \.npy file of its own.*`label='labels\.npy'`"):
        pb.read(probs)
    with pytest.raises(pb.InputError, match=r"an \.npy file must be read whole, in memory"):
        pb.scan(probs, label="y")


def test_a_structured_array_has_named_columns(tmp_path):
    table = np.rec.fromarrays([WORLD.y, *WORLD.cal.T], names="label,p_0,p_1,p_2")
    np.save(tmp_path / "a.npy", table)
    assert float(pb.log_score(pb.read(tmp_path / "a.npy"))) == pytest.approx(EXPECTED, rel=1e-12)


def test_npy_files_that_are_refused(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        np.savez(file, label=WORLD.y)
    with pytest.raises(pb.InputError, match=r"readable npy file .*several arrays with names"):
        pb.read(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(pb.InputError, match="readable npy file"):
        pb.read(tmp_path / "b.npy")


@pytest.mark.parametrize(
    ("options", "argument", "words"),
    [
        ({"sep": ""}, "sep", "single character"),
        ({"sep": "::"}, "sep", "single character"),
        ({"sep": '"'}, "sep", "single character"),
        ({"decimal": "'"}, "decimal", "a point or a comma"),
        ({"decimal": ","}, "decimal", r"differ from the separator .*`sep=';'`"),
        ({"sep": ".", "decimal": "."}, "decimal", "differ from the separator"),
    ],
)
def test_dialects_that_are_refused(options, argument, words):
    with pytest.raises(pb.InputError, match=words) as caught:
        Dialect(**options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("option", [{"sep": ";"}, {"decimal": ",", "sep": ";"}])
def test_a_dialect_is_never_ignored(tmp_path, option):
    FRAME.to_parquet(tmp_path / "a.parquet")
    for read in (pb.read, pb.scan):
        with pytest.raises(pb.InputError, match=r"applies to \.csv and \.tsv files only"):
            read(tmp_path / "a.parquet", **option)
    with pytest.raises(pb.InputError, match=r"applies to \.csv and \.tsv files only"):
        pb.read(FRAME, **option)


def test_another_separator_is_named(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", sep=";", index=False)
    for read in (pb.read, pb.scan):
        with pytest.raises(pb.InputError, match=r"separated by commas .*Pass `sep=';'`"):
            read(tmp_path / "a.csv")
    with pytest.raises(pb.InputError, match=r"separated by '\|'"):
        pb.read(tmp_path / "a.csv", sep="|")


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("a.xlsx", "Save the sheet as CSV"),
        ("a.json", r"one JSON object per line, as \.jsonl"),
        ("a.pkl", "they can run code"),
        ("a.parquet.gz", "Decompress it"),
        ("a.txt", "rename it"),
    ],
)
def test_endings_that_are_refused_have_a_way_out(tmp_path, name, way_out):
    (tmp_path / name).write_text("")
    with pytest.raises(pb.InputError, match=way_out):
        pb.read(tmp_path / name)


@pytest.mark.parametrize(
    ("yes", "no"),
    [("yes", "no"), ("TRUE", "FALSE"), (" Right", "wrong"), ("1", "0"), ("C", "I"), ("t", "F")],
)
@pytest.mark.parametrize("read", [pb.read, lambda path, **o: pb.scan(path, **o).read()])
def test_words_for_true_and_false(tmp_path, yes, no, read):
    right = WORLD.cal.argmax(axis=1) == WORLD.y
    frame = pd.DataFrame({"sure": WORLD.cal.max(axis=1), "right": np.where(right, yes, no)})
    frame.astype({"right": "string"}).to_parquet(tmp_path / "a.parquet")
    rows = read(tmp_path / "a.parquet", confidence="sure", correct="right")
    expected = pb.log_score(pb.Predictions.from_confidence(frame["sure"], right))
    assert float(pb.log_score(rows)) == float(expected)


def test_other_words_are_refused_or_dropped(tmp_path):
    frame = pd.DataFrame({"sure": [0.9, 0.8, 0.7], "right": ["yes", "maybe", "no"]})
    with pytest.raises(pb.InputError, match=r"truth value: true / false.*\(row 1: 'maybe'\)"):
        pb.read(frame, confidence="sure", correct="right")
    dropped = pb.read(frame, confidence="sure", correct="right", on_bad_rows="drop")
    assert pb.log_score(dropped).n == 2
    own = pb.read(frame[::2], confidence="sure", correct="right", classes=["no", "yes"])
    assert pb.log_score(own).n == 2


@pytest.mark.parametrize(
    ("value", "way_out"), [("0,9", r"`decimal=','`"), ("94%", "divide by 100"), ("high", None)]
)
def test_text_that_reads_like_a_number(value, way_out):
    frame = pd.DataFrame({"label": [0, 1], "p": ["0.5", value][::-1]}).astype({"p": object})
    frame.loc[1, "p"] = 0.5
    with pytest.raises(pb.InputError, match=way_out or "must hold numbers") as caught:
        pb.read(frame, probs="p")
    assert bool(caught.value.way_out) == (way_out is not None)
