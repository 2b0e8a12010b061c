"""Which files a source names, and the columns that folders give."""

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, dataset, parquet
from typer.testing import CliRunner

import probaudit as pb
from probaudit import InputError, calibrators
from probaudit.cli.commands import app
from probaudit.engines.stream import stream
from probaudit.files.paths import files_of, folders_of
from probaudit.files.row_files import parts_of
from probaudit.simulate import gaussian_posteriors
from probaudit.states import AuditState, Plan

WORLD = gaussian_posteriors(900, 3)
DAYS = {
    "numbers": [1, 2, 10],
    "dates": ["2024-01-01", "2024-01-02", "x y"],
    "large": [1, 2, 3_000_000_000],
    "gaps": ["a", None, "b"],
}


def frame(days) -> pd.DataFrame:
    found = pd.DataFrame({"label": WORLD.y} | {f"p_{k}": WORLD.mcs[:, k] for k in range(3)})
    return found.assign(day=pd.Series(days).repeat(300).to_numpy(), site=["n", "s", "s"] * 300)


@pytest.fixture(params=DAYS)
def folder(request, tmp_path):
    frame(DAYS[request.param]).to_parquet(tmp_path / "bydays", partition_cols=["day", "site"])
    (tmp_path / "bydays" / "_SUCCESS").touch()
    (tmp_path / "bydays" / "_temporary").mkdir()
    (tmp_path / "bydays" / "_temporary" / "x.parquet").write_text("half")
    return tmp_path / "bydays"


def test_folders_give_columns_of_the_types_that_arrow_finds(folder):
    sources = [
        folder,
        str(folder / "*" / "*" / "*.parquet"),
        folder / "**" / "*.parquet",
        folder / "day=*",
        folder / "*" / "site=*",
    ]
    expected = dataset.dataset(
        files_of(folder), partitioning="hive", partition_base_dir=str(folder)
    ).to_table()
    for source in sources:
        assert (
            files_of(source)
            == files_of(folder)
            == tuple(sorted(folder.glob("day=*/site=*/*.parquet")))
        )
        parts = pa.concat_tables(parts_of(source))
        assert parts.select(["day", "site"]).equals(expected.select(["day", "site"]))
        rows, scanned = pb.read(source, columns="day,site"), pb.scan(source, columns="day,site")
        assert rows.columns["day"].tolist() == expected["day"].to_pylist()
        assert stream(scanned).to_bytes() == AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
        assert scanned.read().columns["site"].tolist() == expected["site"].to_pylist()


def test_folders_below_the_place_that_was_given_say_nothing(tmp_path):
    frame([1, 2, 3]).to_parquet(tmp_path / "bydays", partition_cols=["day", "site"])
    below = next((tmp_path / "bydays" / "day=1" / "site=n").iterdir())
    assert [list(said) for said in folders_of(below.parent.parent).values()] == [["site"], ["site"]]
    assert (
        folders_of(below)
        == folders_of([below])
        == folders_of(below.parent / "*.parquet")
        == {below: {}}
    )
    assert list(folders_of([below, tmp_path])[below]) == ["day", "site"]


def test_text_files_in_folders_may_be_of_numbers_alone(tmp_path):
    """Features and groups from folders; a column of the file stands before one that folders
    name."""
    for day, part in frame([1, 2, 3]).groupby("day"):
        (tmp_path / f"day={day}" / "weight=2").mkdir(parents=True)
        csv.write_csv(
            pa.Table.from_pandas(part.drop(columns="day"), preserve_index=False),
            tmp_path / f"day={day}" / "weight=2" / "x.csv",
        )
    options = {"features": "day,site", "weight": "weight"}
    rows = pb.read(tmp_path, **options)
    assert rows.features[[0, -1]].tolist() == [[1.0, "n"], [3.0, "s"]]
    assert (
        stream(pb.scan(tmp_path, **options)).to_bytes()
        == AuditState.empty(Plan.of(rows)).update(rows).to_bytes()
    )
    (tmp_path / "site=q").mkdir()
    (tmp_path / "site=q" / "x.csv").write_text("label,p_0,p_1,p_2,site\n1,.25,.5,.25,own\n")
    assert pb.read(tmp_path / "site=*", columns="site").columns["site"].tolist() == ["own"]
    with pytest.raises(InputError, match="all files need the same columns"):
        pb.read(tmp_path)


def test_an_npz_has_no_columns_of_folders(tmp_path):
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "x.npz").touch()
    with pytest.raises(
        InputError, match=r"an \.npz file cannot have a column 'day' from its folder"
    ):
        pb.read(tmp_path)


@pytest.mark.parametrize("pattern", ["*/none*.parquet", "**/*.npz", "none/**", "day=[34]/*"])
def test_patterns_that_match_nothing(tmp_path, pattern):
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "x.parquet").touch()
    with pytest.raises(InputError, match="must match a file that can be read"):
        files_of(tmp_path / pattern)


def test_commands_know_the_columns_of_folders(tmp_path):
    frame([1, 2, 3]).to_parquet(tmp_path / "bydays", partition_cols=["day"])
    audited = CliRunner().invoke(
        app, ["audit", str(tmp_path / "bydays"), "--groups", "day", "--no-repair", "--json", "-"]
    )
    assert audited.exit_code == 0
    assert '"day"' in audited.output
    calibrators.save(calibrators.TemperatureScaling().fit(WORLD.mcs, WORLD.y), tmp_path / "t.json")
    out = tmp_path / "out.parquet"
    applied = CliRunner().invoke(
        app,
        [
            "apply",
            str(tmp_path / "t.json"),
            str(tmp_path / "bydays" / "*" / "*.parquet"),
            "-o",
            str(out),
        ],
    )
    assert applied.exit_code == 0, applied.output
    assert parquet.read_table(out)["day"].to_pylist() == [1] * 300 + [2] * 300 + [3] * 300
