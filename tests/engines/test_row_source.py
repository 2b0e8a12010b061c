"""Files that are damaged, lie or are of another kind: one clear error each, within little memory,
and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

ROWS = 12_345  # a number that stands nowhere else in these files


def good(n=ROWS):
    p = np.linspace(0.1, 0.9, n)
    return pa.table({"label": np.arange(n) % 2, "p_0": p, "p_1": 1 - p})


def with_column(name, values):
    table = good(len(values))
    return table.set_column(table.column_names.index(name), name, values)


def varint(number):
    """A number as Thrift's compact protocol has it."""
    number, out = number << 1, bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def of_tables():
    """Tables that no reader can take for predictions."""
    n = 4
    yield "no rows", good(0)
    yield "no columns", pa.table({})
    yield "no label", good(n).drop(["label"])
    yield "no outputs", good(n).drop(["p_0", "p_1"])
    yield (
        "two columns of a name",
        pa.Table.from_arrays([pa.array([0, 1])] * 3, names=["label", "p_0", "p_0"]),
    )
    yield "structures", with_column("p_0", pa.array([{"a": 1.0}] * n))
    yield "lists in one of two", with_column("p_0", pa.array([[0.5, 0.5]] * n))
    yield "ragged lists", pa.table({"label": [0, 1], "p_x": pa.array([[0.5, 0.5], [1.0]])})
    yield "lists in lists", pa.table({"label": [0, 1], "p_x": pa.array([[[0.5], [0.5]]] * 2)})
    yield (
        "empty lists",
        pa.table({"label": [0, 1], "p_x": pa.array([[], []], pa.list_(pa.float64()))}),
    )
    yield "text for numbers", with_column("p_0", pa.array(["0.5"] * n))
    yield "bytes for numbers", with_column("p_0", pa.array([b"\xff\x00"] * n))
    yield "times for numbers", with_column("p_0", pa.array([0] * n, pa.timestamp("ns")))
    yield "nothing for numbers", with_column("p_0", pa.nulls(n))
    yield "structures for labels", with_column("label", pa.array([{"a": 1}] * n))
    yield "nothing for labels", with_column("label", pa.nulls(n))
    yield "other labels", with_column("label", pa.array(["x"] * n))


def damages(content: bytes, magic: bytes):
    """Ways to spoil a file."""
    middle = len(content) // 2
    yield "empty", b""
    yield "four bytes", content[:4]
    yield "text", b"label,p_0,p_1\n0,.5,.5\n"
    yield "cut in the middle", content[:middle]
    yield "cut at the end", content[:-9]
    yield "zeros", bytes(len(content))
    yield "magic and nothing", magic * 2
    yield "magic around noise", magic + np.random.default_rng(0).bytes(5000) + magic
    yield "another head and end", b"XXXX" + content[4:-4] + b"XXXX"


def put(path, content):
    path.write_bytes(content)
    return path


def hostile(folder):
    """Files that must be refused, by name."""
    parquet.write_table(good(), folder / "good.parquet", compression="none", use_dictionary=False)
    feather.write_feather(good(), folder / "good.arrow", compression="uncompressed")
    whole, arrow = (folder / "good.parquet").read_bytes(), (folder / "good.arrow").read_bytes()
    for form, content, magic in (("parquet", whole, b"PAR1"), ("arrow", arrow, b"ARROW1")):
        (folder / f"good.{form}").unlink()
        for name, spoilt in damages(content, magic):
            yield f"{form}: {name}", put(folder / f"{name}.{form}", spoilt)
    for name, table in of_tables():
        path = folder / f"{name} of a table.parquet"
        if table.num_columns:
            parquet.write_table(table, path)
            yield f"table: {name}", path
        feather.write_feather(table, folder / f"{name} of a table.arrow")
        yield f"arrow table: {name}", folder / f"{name} of a table.arrow"
    footer = int.from_bytes(whole[-8:-4], "little")
    yield "a huge footer", put(folder / "footer.parquet", whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    body, end = whole[: -8 - footer], whole[-8 - footer :]
    assert varint(ROWS) in end
    yield (
        "more rows than there are",
        put(folder / "rows.parquet", body + end.replace(varint(ROWS), varint(16_000))),
    )
    yield (
        "fewer rows than there are",
        put(folder / "few.parquet", body + end.replace(varint(ROWS), varint(8_200), 1)),
    )
    yield (
        "pages of noise",
        put(folder / "pages.parquet", whole[:200] + b"\xff" * 5000 + whole[5200:]),
    )
    length = ROWS.to_bytes(8, "little")
    assert length in arrow
    for name, lie in (("longer", 2 * ROWS), ("huge", 2**40), ("negative", -5)):
        lied = arrow.replace(length, lie.to_bytes(8, "little", signed=True))
        yield f"arrow: {name} than it is", put(folder / f"{name}.arrow", lied)
    texts = {
        "nothing": b"",
        "a line": b"\n",
        "bytes": bytes(range(256)) * 10,
        "zeros": bytes(1000),
        "zeros inside": b"label,p_0,p_1\n0,\0\0,.5\n",
        "ragged": b"label,p_0,p_1\n0,.5,.5\n1,.5\n",
        "ragged late": b"label,p_0,p_1\n" + b"0,.5,.5\n" * 10_000 + b"1,.5,.5,.5\n",
        "a header": b"label,p_0,p_1\n",
        "two of a name": b"label,p_0,p_0\n0,.5,.5\n",
        "text": b"label,p_0,p_1\n0,abc,.5\n",
        "late text": b"label,p_0,p_1\n" + b"0,.5,.5\n" * 10_000 + b"1,x,.5\n",
        "beyond numbers": b"label,p_0,p_1\n0,1e999,.5\n",
        "an open quote": b'label,p_0,p_1\n0,.5,"' + b"x,\n" * 3_000_000,
        "a long line": b"label,p_0,p_1\n0,.5," + b"5" * 100_000_000,
        "commas": b"," * 1000,
        "many columns": ",".join(f"c{i}" for i in range(20_000)).encode() + b"\n",
        "another encoding": "label,p_é,p_b\né,.3,.7\n".encode("latin-1"),
        "utf-16": "label,p_0,p_1\n0,.5,.5\n".encode("utf-16"),
    }
    for name, text in texts.items():
        yield f"csv: {name}", put(folder / f"{name}.csv", text)
    yield "npz: text", put(folder / "text.npz", b"hello")
    with zipfile.ZipFile(folder / "huge.npz", "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
        start = b"\x93NUMPY\x01\x00" + len(header.ljust(117) + b"\n").to_bytes(2, "little")
        archive.writestr("p_0.npy", start + header.ljust(117) + b"\n" + bytes(64))
    yield "npz: a huge array", folder / "huge.npz"
    np.savez(folder / "objects.npz", label=np.array([0, "a"], object), p_0=[0.5, 0.5])
    yield "npz: objects", folder / "objects.npz"
    for name in ("nothing", "mixed", "unlike"):
        (folder / name).mkdir()
    yield "an empty folder", folder / "nothing"
    (folder / "folder.parquet").mkdir()
    yield "a folder named as a file", folder / "folder.parquet"
    parquet.write_table(good(3), folder / "mixed" / "a.parquet")
    parquet.write_table(
        good(3).rename_columns(["label", "p_0", "p_2"]), folder / "mixed" / "b.parquet"
    )
    yield "files of other columns", folder / "mixed"
    parquet.write_table(good(3), folder / "unlike" / "a.parquet")
    parquet.write_table(
        with_column("p_0", pa.array(["a", "b", "c"])), folder / "unlike" / "b.parquet"
    )
    yield "files of other types", folder / "unlike"
    yield "a missing file", folder / "missing.parquet"
    yield "a pattern of nothing", folder / "none-*.parquet"
    yield "another ending", put(folder / "x.pickle", b"\x80\x04N.")
    os.symlink(folder / "missing.parquet", folder / "dangling.parquet")
    yield "a link to nothing", folder / "dangling.parquet"
    os.mkfifo(folder / "pipe.csv")
    yield "a pipe", folder / "pipe.csv"


RUN = """
import json, resource, sys
from typer.testing import CliRunner
from probaudit import InputError, Predictions, audit, read
from probaudit.cli.commands import app
from probaudit.engines.choosing import scan
from probaudit.engines.stream import stream
# Whatever is compiled and imported first is not counted.
audit(Predictions([0, 1] * 9, [[0.5, 0.5], [0.2, 0.8]] * 9))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)

def outcome(call):
    try:
        call()
        return "accepted"
    except InputError as problem:
        return "refused" if len(str(problem)) < 2000 else "refused at length"
    except BaseException as problem:
        return f"{type(problem).__name__}: {problem}"

found = {}
for name, path in json.load(sys.stdin).items():
    calls = [lambda: stream(scan(path)), lambda: audit(read(path), repair=False)]
    found[name] = [outcome(call) for call in calls]
    if name in json.loads(sys.argv[1]):
        result = CliRunner().invoke(app, ["audit", path])
        problem = f"exit code {result.exit_code}: {result.exception!r}"
        found[name].append("refused" if result.exit_code == 2 else problem)
print(json.dumps(found))
"""
AT_THE_COMMAND_LINE = (
    "parquet: cut in the middle",
    "a huge footer",
    "csv: bytes",
    "npz: a huge array",
    "an empty folder",
    "a pipe",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is limited and measured as Linux does it")
    files = {name: str(path) for name, path in hostile(tmp_path_factory.mktemp("hostile"))}
    command = [sys.executable, "-c", RUN, json.dumps(AT_THE_COMMAND_LINE)]
    # each thread's own would count as memory, though it is only set apart
    env = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    done = subprocess.run(
        command,
        input=json.dumps(files),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_hostile_file_is_refused_in_words(outcomes):
    assert len(outcomes) >= 88
    assert {name: found for name, found in outcomes.items() if set(found) != {"refused"}} == {}
    assert all(len(outcomes[name]) == 3 for name in AT_THE_COMMAND_LINE)
