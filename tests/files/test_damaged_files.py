"""Files that are damaged, missing or of another kind end in one clear error, never in a crash."""

import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from probaudit import read
from tests.files.test_reading import DATA, WRITERS, judged, refused, text_file

CSVS = {
    "ragged": ("label,p_0,p_1\n0,.3,.7\n1,.4\n", "source", None, "Expected 3 columns, got 2"),
    "empty": ("", "source", None, "readable csv"),
    "one blank line": ("\n", "source", None, "readable csv"),
    "bytes": (bytes(range(256)), "source", None, "readable csv"),
    "header of another encoding": (
        "label,p_é,p_b\né,.3,.7\n".encode("latin-1"),
        "source",
        None,
        "text must be encoded as UTF-8",
    ),
    "labels of another encoding": (
        "label,p_a,p_b\né,.3,.7\n".encode("latin-1"),
        "source",
        None,
        "column 'label' is not UTF-8",
    ),
    "header alone": ("label,p_0,p_1\n", "p_*", None, "at least one row"),
    "two columns of one name": ("label,p_0,p_0\n0,.3,.7\n", "source", None, "two columns 'p_0'"),
    "two names of one class": ("label,p_01,p_1\n0,.3,.7\n", "classes", None, "must not repeat"),
    "text": ("label,p_0,p_1\n0,.3,.7\n1,abc,.7\n", "p_0", 1, "must hold numbers (row 1: 'abc')"),
    "gap": ("label,p_0,p_1\n0,.3,.7\n1,,.7\n", "p_*", 1, "nan for class 0"),
    "inf": ("label,p_0,p_1\n0,inf,.7\n", "p_*", 0, "inf for class 0"),
    "label gap": ("label,p_0,p_1\n,.5,.5\n1,.5,.5\n", "label", 0, "label is missing"),
    "text label gap": ("label,p_a,p_b\n,.5,.5\na,.5,.5\n", "label", 0, "label is missing"),
    "semicolons": (
        "label;p_0;p_1\n0;0,3;0,7\n",
        "source",
        None,
        "values must be separated by commas (found: ';'",
    ),
    "semicolons and points": (
        "label;p_0;p_1\n0;0.3;0.7\n",
        "source",
        None,
        "values must be separated by commas (found: ';'",
    ),
    "tabs": (
        "label\tp_0\tp_1\n0\t.3\t.7\n",
        "source",
        None,
        "values must be separated by commas (found: '\\t'",
    ),
    "label stranger": ("label,p_0,p_1\n0,.5,.5\nx,.5,.5\n", "label", 1, "label 'x'"),
    "label between": ("label,p_0,p_1\n0.5,.5,.5\n", "label", 0, "label 0.5"),
}


@pytest.mark.parametrize(("text", "argument", "row", "words"), CSVS.values(), ids=CSVS)
def test_csv_files_that_are_refused(tmp_path, text, argument, row, words):
    path = text_file(tmp_path / "x.csv", text)
    refused(lambda: judged(path), argument, row, words)


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.lower().endswith("csv")])
@pytest.mark.parametrize(
    "damage",
    [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"hello " * 99],
    ids=["cut", "empty", "text"],
)
def test_damaged_files(tmp_path, name, damage):
    WRITERS[name](pa.table(DATA), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    text_file(tmp_path / name, damage(whole))
    refused(lambda: read(tmp_path / name), "source", words="must be a readable")


@pytest.mark.parametrize("name", ["x.arrow", "x.parquet"])
def test_damaged_text_is_refused_before_it_is_read(tmp_path, name):
    table = pa.table(DATA | {"label": ["cat", "dog!", "cat"]})
    options = {"compression": "uncompressed"} if name == "x.arrow" else {"compression": "none"}
    WRITERS[name](table, tmp_path / name, **options)
    whole = (tmp_path / name).read_bytes()
    text_file(tmp_path / name, whole.replace(b"dog!", b"dog\xff"))
    refused(lambda: read(tmp_path / name), "source", words="must be a readable")


def test_damaged_offsets_do_not_end_the_process(tmp_path):
    feather.write_feather(pa.table(DATA), tmp_path / "x.arrow", compression="uncompressed")
    offsets = np.array([0, 3, 6, 9], np.int32)
    whole = (tmp_path / "x.arrow").read_bytes()
    assert offsets.tobytes() in whole
    text_file(
        tmp_path / "x.arrow",
        whole.replace(offsets.tobytes(), np.array([0, 3, 2**30, 9], np.int32).tobytes()),
    )
    refused(lambda: read(tmp_path / "x.arrow"), "source", words="must be a readable arrow file")


def test_npz_of_other_things(tmp_path):
    np.savez(tmp_path / "objects.npz", label=np.array([0, "a"], object), p_0=[0.5, 0.5])
    refused(lambda: read(tmp_path / "objects.npz"), "source", words="allow_pickle=False")
    np.save(tmp_path / "x.npy", np.ones(3))
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    refused(lambda: read(tmp_path / "x.npz"), "source", words="single array")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("label", "text")
    refused(lambda: read(tmp_path / "zip.npz"), "probs", words="no column matches")


def test_paths_that_are_no_such_files(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    refused(lambda: read(tmp_path / "folder.csv"), "source", words="must be a file that exists")
    refused(
        lambda: read(tmp_path / "missing.parquet"), "source", words="must be a file that exists"
    )
    refused(
        lambda: read(text_file(tmp_path / "x.txt", "label")),
        "source",
        words="must end in one of .npz, .npy, .csv",
    )
    refused(lambda: read(tmp_path / "none"), "source", words="must end in one of")
