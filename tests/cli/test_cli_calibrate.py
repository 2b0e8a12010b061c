"""`calibrate` and `apply` on the command line, as a newcomer would use them."""

from __future__ import annotations

import datetime as dt
import decimal
import shlex

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

import probaudit as pb
from probaudit import calibrators
from probaudit.cli.commands import app
from tests.calibrators.test_calibration_loss import hidden_groups

NAMES = np.array(["ant", "bee", "cat"])


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def frame(seed, kind="p"):
    world = pb.simulate.gaussian_posteriors(1000, 3, seed=seed)
    outputs = world.mcs if kind == "p" else np.log(world.mcs) + 7.0
    columns = {f"{kind}_{name}": outputs[:, k] for k, name in enumerate(NAMES)}
    return pd.DataFrame({"id": np.arange(len(outputs)), "label": NAMES[world.y]} | columns)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "preds.csv"
    frame(0).to_csv(path, index=False)
    return path


def test_calibrate_then_apply_repairs(file, tmp_path):
    saved, other, out = tmp_path / "cal.json", tmp_path / "new.parquet", tmp_path / "out.parquet"
    result = run("calibrate", file, "-o", saved)
    assert result.exit_code == 0, result.output
    assert "mean_replacement" in result.output
    assert "never chosen" in result.output
    assert "removes" in result.output
    assert "corrected for choosing among 11 calibrators" in result.output
    fresh = frame(1)
    # columns find their classes by name
    shuffled = fresh[["p_cat", "id", "p_ant", "label", "p_bee"]]
    shuffled.to_parquet(other)
    applied = run("apply", saved, other, "-o", out)
    assert applied.exit_code == 0, applied.output
    assert f"{len(fresh):,} rows" in applied.output
    found = pd.read_parquet(out)
    assert found["id"].tolist() == fresh["id"].tolist()
    assert found["label"].tolist() == fresh["label"].tolist()
    probs = found[[f"p_{name}" for name in NAMES]].to_numpy()
    expected = calibrators.load(saved).predict_proba(
        fresh[[f"p_{name}" for name in NAMES]].to_numpy()
    )
    np.testing.assert_array_equal(probs, expected)
    before, after = (pb.log_score(pb.read(data)) for data in (fresh, found))
    assert after < 0.8 * before


def test_one_method_logits_and_csv(tmp_path):
    file, saved, out = tmp_path / "z.csv", tmp_path / "cal.json", tmp_path / "out.csv"
    frame(0, "z").to_csv(file, index=False)
    assert (
        run("calibrate", file, "--logits", "z_*", "--method", "temperature", "-o", saved).exit_code
        == 0
    )
    assert calibrators.load(saved).from_logits
    unlabelled = frame(1, "z").drop(columns="label")
    unlabelled.to_csv(file, index=False)
    assert run("apply", saved, file, "--logits", "z_*", "-o", out).exit_code == 0
    found = pd.read_csv(out)
    assert list(found.columns) == ["id", "p_ant", "p_bee", "p_cat"]
    np.testing.assert_allclose(found.iloc[:, 1:].sum(axis=1), 1)


def test_a_binary_column(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(400)
    data = pd.DataFrame({"label": (rng.random(400) < p**2).astype(int), "p": p})
    file, saved, out = tmp_path / "b.csv", tmp_path / "cal.json", tmp_path / "out.csv"
    data.to_csv(file, index=False)
    assert run("calibrate", file, "--probs", "p", "--method", "beta", "-o", saved).exit_code == 0
    assert run("apply", saved, file, "--probs", "p", "-o", out).exit_code == 0
    found = pd.read_csv(out)
    assert list(found.columns) == ["label", "p_0", "p_1"]
    assert pb.log_score(data["label"], found["p_1"]) < pb.log_score(data["label"], p)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["calibrate", "{file}", "-o", "{tmp}/cal.json", "--method", "magic"],
            "must be one of identity",
        ),
        (
            ["calibrate", "{file}", "-o", "{tmp}/none/cal.json", "--method", "temperature"],
            "folder that exists",
        ),
        (
            ["calibrate", "{file}", "-o", "{tmp}/cal.json", "--folds", "1"],
            "`--folds`: must be at least 2",
        ),
        (
            ["calibrate", "{file}", "-o", "{tmp}/cal.json", "--score", "ece"],
            "must be one of log, brier",
        ),
        (["apply", "{tmp}/none.json", "{file}", "-o", "{tmp}/out.csv"], "`CALIBRATOR`: "),
        (["apply", "{tmp}/none.json", "{file}", "-o", "{tmp}/out.csv"], "readable JSON"),
        (["apply", "{file}", "{file}", "-o", "{tmp}/out.csv"], "preds.csv: "),
        (["apply", "{file}", "{file}", "-o", "{tmp}/out.csv"], "must be JSON"),
        (["apply", "{tmp}/good.json", "{tmp}/none.csv", "-o", "{tmp}/out.csv"], "`FILE`: "),
        (
            ["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.csv", "--probs", "p_ant,p_bee"],
            "no column for cat",
        ),
        (["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/none/out.csv"], "folder must exist"),
        (["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/folder.csv"], "not a folder"),
        (
            ["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.txt"],
            "must end in .parquet, .csv or .npz",
        ),
        (
            ["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.csv", "--logits", "p_*"],
            "must be probabilities",
        ),
        (
            ["apply", "{tmp}/good.json", "{file}", "-o", "{tmp}/out.csv", "--probs", "p_*t"],
            "needs a column for each",
        ),
        (
            ["apply", "{tmp}/good.json", "{tmp}/two.csv", "-o", "{tmp}/out.csv"],
            "needs a column for each of ant, bee, cat",
        ),
    ],
)
def test_bad_input_exits_with_two_and_writes_nothing(file, tmp_path, arguments, words):
    calibrators.save(
        calibrators.TemperatureScaling(classes=NAMES.tolist()).fit(
            [[0.6, 0.2, 0.2], [0.3, 0.4, 0.3]], ["ant", "cat"]
        ),
        tmp_path / "good.json",
    )
    frame(0).drop(columns="p_bee").to_csv(tmp_path / "two.csv", index=False)
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.iterdir())
    result = run(*(a.format(file=file, tmp=tmp_path) for a in arguments))
    assert result.exit_code == 2
    assert words in result.output
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("listed", ["p_cat,p_ant,p_bee", "p_[abc]*", "p_cat,p_bee", "p_*"])
def test_columns_of_a_list_find_their_classes_by_name(file, tmp_path, listed):
    fresh, saved, out = frame(1), tmp_path / "cal.json", tmp_path / "out.parquet"
    assert run("calibrate", file, "--method", "vector", "-o", saved).exit_code == 0
    fresh[["p_cat", "p_ant", "p_bee"]].to_parquet(tmp_path / "new.parquet")
    done = run("apply", saved, tmp_path / "new.parquet", "--probs", listed, "-o", out)
    assert done.exit_code == 0, done.output
    expected = calibrators.load(saved).predict_proba(
        fresh[[f"p_{name}" for name in NAMES]].to_numpy()
    )
    np.testing.assert_allclose(
        pd.read_parquet(out)[[f"p_{name}" for name in NAMES]], expected, atol=1e-3
    )


def test_columns_that_are_not_named_after_classes_go_by_their_places(file, tmp_path):
    fresh, saved, out = frame(1), tmp_path / "cal.json", tmp_path / "out.parquet"
    assert run("calibrate", file, "--method", "vector", "-o", saved).exit_code == 0
    fresh.rename(columns={"p_ant": "x", "p_bee": "y", "p_cat": "z"})[["z", "x", "y"]].to_parquet(
        tmp_path / "new.parquet"
    )
    assert (
        run("apply", saved, tmp_path / "new.parquet", "--probs", "x,y,z", "-o", out).exit_code == 0
    )
    expected = calibrators.load(saved).predict_proba(
        fresh[[f"p_{name}" for name in NAMES]].to_numpy()
    )
    np.testing.assert_array_equal(pd.read_parquet(out), expected)


def commands(text, start):
    """The commands that an output proposes, as lists of arguments."""
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith(start)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("proba", ["--probs", "proba_*"]),
        ("z", ["--logits", "z_*"]),
        ("p", []),
        ("proba", ["--probs", "proba_ant,proba_bee,proba_cat", "--classes", "ant,bee,cat"]),
    ],
)
def test_what_calibrate_proposes_can_be_run(tmp_path, monkeypatch, kind, options):
    monkeypatch.chdir(tmp_path)

    def frame_of(seed):
        world = frame(seed, "z" if kind == "z" else "p").rename(
            columns=lambda name: name.replace("p_", f"{kind}_")
        )
        return world.assign(w=1.0).rename(columns={"label": "the target"})

    frame_of(0).to_csv("my preds.csv", index=False)
    options = [*options, "--label", "the target", "--weight", "w"]
    done = run("calibrate", "my preds.csv", *options, "--method", "temperature", "-o", "cal.json")
    assert done.exit_code == 0, done.output
    apply, compare = commands(done.output, "probaudit ")
    assert "my preds.csv" not in [*apply, *compare]  # the rows that fitted it cannot judge it
    frame_of(1).to_csv("NEW_ROWS.csv", index=False)
    assert run(*apply).exit_code == 0
    assert "--weight" in compare
    compared = run(*compare, "--no-repair")
    assert compared.exit_code == 0, compared.output
    assert "Use 'calibrated'" in compared.output


def test_what_calibrate_proposes_for_a_stated_confidence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sure = np.random.default_rng(0).random(200)
    pd.DataFrame({"sure": sure, "right": sure**2 > 0.3}).to_csv("a.csv", index=False)
    done = run(
        "calibrate",
        "a.csv",
        "--confidence",
        "sure",
        "--correct",
        "right",
        "--method",
        "temperature",
        "-o",
        "cal.json",
    )
    assert done.exit_code == 0, done.output
    (apply,) = commands(done.output, "probaudit ")
    pd.DataFrame({"sure": sure}).to_csv("NEW_ROWS.csv", index=False)
    assert run(*apply).exit_code == 0


def test_a_bad_row_is_called_by_its_column_and_its_number_in_the_file(tmp_path, saved, monkeypatch):
    monkeypatch.setattr("probaudit.files.row_files.PART_BYTES", 2**14)
    probs = {name: np.array(column * 300) for name, column in P.items()}
    probs["p_0"][777] = 0.9
    parquet.write_table(pa.table({"text": ["x" * 100] * 900, **probs}), tmp_path / "x.parquet")
    done = run("apply", saved, tmp_path / "x.parquet", "-o", tmp_path / "out.parquet")
    assert done.exit_code == 2
    assert "(row 777: sums to" in done.output


def test_one_row_is_one_row(tmp_path, saved):
    pd.DataFrame({name: column[:1] for name, column in P.items()}).to_csv(
        tmp_path / "x.csv", index=False
    )
    assert run("apply", saved, tmp_path / "x.csv", "-o", tmp_path / "out.csv").output.startswith(
        "1 row written"
    )


@pytest.fixture
def saved(tmp_path):
    """A calibrator of two classes, in a file."""
    calibrator = calibrators.TemperatureScaling(classes=[0, 1]).fit(
        [[0.6, 0.4], [0.1, 0.9], [0.8, 0.2]], [0, 1, 1]
    )
    calibrators.save(calibrator, tmp_path / "cal.json")
    return tmp_path / "cal.json"


P = {"p_0": [0.75, 0.5, 0.125], "p_1": [0.25, 0.5, 0.875]}
ABOVE_FLOATS = 2**53 + 1  # the first integer that is no float64


def in_files(folder, write, *tables):
    folder.mkdir()
    for i, table in enumerate(tables):
        write(table, folder / f"{i}.{'csv' if write is csv.write_csv else 'parquet'}")
    return folder


def applied(saved, source, out):
    """What `apply` writes, without the outputs."""
    done = run("apply", saved, source, "-o", out)
    assert done.exit_code == 0, done.output
    table = csv.read_csv(out) if out.suffix == ".csv" else parquet.read_table(out)
    expected = calibrators.load(saved).predict_proba(
        np.tile(np.array(list(P.values())).T, (len(table) // 3, 1))
    )
    np.testing.assert_allclose(np.column_stack([table["p_0"], table["p_1"]]), expected, rtol=1e-15)
    return table.drop_columns(["p_0", "p_1"])


@pytest.mark.parametrize("write", [csv.write_csv, parquet.write_table])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_found_by_name_in_every_file(tmp_path, saved, write, suffix):
    one = pa.table({"a": ["A"] * 3, "n": [1, 2, 3], **P, "b": ["B"] * 3})
    folder = in_files(tmp_path / "in", write, one, one.select(["b", "p_1", "a", "p_0", "n"]))
    found = applied(saved, folder, tmp_path / f"out.{suffix}")
    assert found.to_pydict() == {"a": ["A"] * 6, "n": [1, 2, 3] * 2, "b": ["B"] * 6}


def test_other_columns_come_out_as_they_were(tmp_path, saved):
    others = {
        "id": pa.array([None, ABOVE_FLOATS, -1]),
        "tags": pa.array([["a"], ["a", "b"], None]),
        "time": pa.array(
            [dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "Europe/Vienna")
        ),
        "day": pa.array([dt.date(2024, 5, 1)] * 3),
        "price": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-3.00")]),
        "kind": pa.array(["x", "y", None]).dictionary_encode(),
        "seen": pa.array([True, None, False]),
        "nothing": pa.nulls(3),
        "box": pa.array([{"x": 1, "y": [1.5]}, None, {"x": None, "y": []}]),
        "small": pa.array([1, None, 3], pa.uint8()),
    }
    kept = pa.table(others)
    parquet.write_table(
        kept.append_column("p_0", [P["p_0"]]).append_column("p_1", [P["p_1"]]),
        tmp_path / "x.parquet",
    )
    found = applied(saved, tmp_path / "x.parquet", tmp_path / "out.parquet")
    assert found.schema.equals(
        parquet.read_table(tmp_path / "x.parquet").select(list(others)).schema
    )
    assert found.equals(kept.cast(found.schema))


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (pa.array([ABOVE_FLOATS] * 3), pa.array([None, 1, ABOVE_FLOATS]), pa.int64()),
        (pa.nulls(3), pa.array(["x", None, "y"]), pa.string()),
        (pa.nulls(3, pa.string()), pa.array(["x", None, "y"]), pa.string()),
        (pa.array([1, 2, 3], pa.int16()), pa.array([0.5, None, 2.0]), pa.float64()),
        (pa.array([[1]] * 3), pa.array([[], None, [1, 2]]), pa.list_(pa.int64())),
        (
            pa.array(["x"] * 3).dictionary_encode(),
            pa.array(["z", "x", None]).dictionary_encode(),
            None,
        ),
    ],
)
def test_types_of_a_column_that_differ_between_files(tmp_path, saved, first, second, kind):
    tables = (pa.table({"c": column, **P}) for column in (first, second))
    found = applied(
        saved, in_files(tmp_path / "in", parquet.write_table, *tables), tmp_path / "out.parquet"
    )["c"]
    assert found.type == (kind or first.type)
    assert found.to_pylist() == first.to_pylist() + second.to_pylist()


def test_types_of_csv_files_hold_every_value(tmp_path, saved, monkeypatch):
    monkeypatch.setattr("probaudit.files.csv_files.BLOCK_BYTES", 4096)
    n = 300
    probs = {name: column * (n // 3) for name, column in P.items()}
    one = pa.table(
        {
            "late": [""] * (n - 1) + ["x"],
            "number": pa.nulls(n),
            "day": [dt.date(2024, 5, 1)] * n,
            **probs,
        }
    )
    two = one.set_column(1, "number", [[0.5] * n]).set_column(2, "day", [["never"] * n])
    found = applied(
        saved, in_files(tmp_path / "in", csv.write_csv, one, two), tmp_path / "out.parquet"
    )
    assert found["late"].to_pylist() == one["late"].to_pylist() * 2
    assert found["number"].to_pylist() == [None] * n + [0.5] * n
    assert found["day"].to_pylist() == ["2024-05-01"] * n + ["never"] * n


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"c": [1, 2, 3]}, {}, "1.parquet has no column 'c'"),
        ({}, {"c": [1, 2, 3]}, "1.parquet has another column 'c'"),
        ({"c": [1, 2, 3]}, {"c": ["x"] * 3}, "1.parquet"),
        # as numbers they could not be kept
        ({"c": [0.5, 1, 2]}, {"c": [1, 2, ABOVE_FLOATS]}, "1.parquet"),
    ],
)
@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_files_that_do_not_go_together(tmp_path, saved, first, second, words, out):
    folder = in_files(
        tmp_path / "in", parquet.write_table, pa.table({**first, **P}), pa.table({**second, **P})
    )
    done = run("apply", saved, folder, "-o", tmp_path / out)
    assert done.exit_code == 2
    assert words in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"cal.json", "in"}


def test_what_a_csv_file_cannot_hold(tmp_path, saved):
    parquet.write_table(pa.table({"tags": [["a"], [], ["b"]], **P}), tmp_path / "x.parquet")
    done = run("apply", saved, tmp_path / "x.parquet", "-o", tmp_path / "out.csv")
    assert done.exit_code == 2
    assert "list" in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"cal.json", "x.parquet"}


def test_arrays_are_applied_file_by_file(tmp_path, saved):
    probs = np.array(list(P.values())).T
    for name, more in (("a", {"id": [1, 2, 3]}), ("b", {"id": [4, 5, 6]})):
        (tmp_path / "in").mkdir(exist_ok=True)
        np.savez(tmp_path / "in" / f"{name}.npz", probs=probs, names=["no", "yes"], **more)
    done = run("apply", saved, tmp_path / "in", "--probs", "probs", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns) == ["id", "p_0", "p_1"]  # not the names, of which there are two
    assert found["id"].tolist() == [1, 2, 3, 4, 5, 6]
    np.savez(tmp_path / "in" / "c.npz", probs=probs)
    done = run("apply", saved, tmp_path / "in", "--probs", "probs", "-o", tmp_path / "out.parquet")
    assert done.exit_code == 2
    assert "no column 'id'" in done.output
    assert not (tmp_path / "out.parquet").exists()


def test_parts_have_few_bytes(tmp_path, saved, monkeypatch):
    monkeypatch.setattr("probaudit.files.row_files.PART_BYTES", 2**14)
    n = 900
    table = pa.table(
        {"text": ["x" * 100] * n, **{name: column * (n // 3) for name, column in P.items()}}
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    assert applied(saved, tmp_path / "x.parquet", tmp_path / "out.parquet").equals(
        table.select(["text"])
    )
    written = parquet.ParquetFile(tmp_path / "out.parquet").metadata
    assert max(written.row_group(i).num_rows for i in range(written.num_row_groups)) <= 2**14 // 100


# --- features and groups


def grouped_frame(seed, n=1200):
    y, p, features, hidden = hidden_groups(n, seed)
    sides = {
        "f_side": features[:, 0],
        "f_noise": features[:, 1],
        "site": np.array(["north", "south"])[hidden],
        "half": np.arange(n) % 2,
    }
    return pd.DataFrame({"label": y, "p_0": 1 - p, "p_1": p} | sides)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("per_group", ["--groups", "site"]),
        ("auto", ["--groups", "site"]),
        ("group_calibration", ["--features", "f_*"]),
        ("group_calibration", ["--features", "f_side"]),
        ("multicalibration", ["--groups", "site"]),
        ("multicalibration", ["--groups", "site,half"]),
        ("multicalibration", ["--features", "f_*"]),
        ("multicalibration", ["--features", "f_*", "--groups", "site,half"]),
        ("auto", ["--groups", "site,half"]),
    ],
)
def test_features_and_groups_from_fit_to_apply(tmp_path, method, options):
    file, saved, out = tmp_path / "a.csv", tmp_path / "cal.json", tmp_path / "out.parquet"
    grouped_frame(0).to_csv(file, index=False)
    done = run("calibrate", file, "--method", method, *options, "-o", saved)
    assert done.exit_code == 0, done.output
    fresh = grouped_frame(1)
    # found by name
    order = ["f_noise", "site", "p_1", "half", "f_side", "label", "p_0"]
    fresh[order].to_parquet(tmp_path / "new.parquet")
    applied = run("apply", saved, tmp_path / "new.parquet", "-o", out)
    assert applied.exit_code == 0, applied.output
    assert "not seen" not in applied.output
    before, after = (pb.log_score(pb.read(data)) for data in (fresh, pd.read_parquet(out)))
    assert after < 0.9 * before
    model = calibrators.load(saved)
    last = len(model.columns_) - model.group_columns
    features, groups = (fresh[part.tolist()] for part in np.split(model.columns_, [last]))
    columns = {"features": features.to_numpy(), "groups": groups.to_numpy().squeeze()}
    expected = model.predict_proba(
        fresh[["p_0", "p_1"]].to_numpy(), **{name: columns[name] for name in model.fitted_with}
    )
    np.testing.assert_array_equal(pd.read_parquet(out)[["p_0", "p_1"]], expected)
    fresh.drop(columns=["site", "f_side"]).to_parquet(tmp_path / "less.parquet")
    lacking = run("apply", saved, tmp_path / "less.parquet", "-o", out)
    assert lacking.exit_code == 2
    assert f"`--{model.fitted_with[0]}`" in lacking.output


def test_unseen_groups_are_counted(tmp_path):
    file, saved, out = tmp_path / "a.csv", tmp_path / "cal.json", tmp_path / "out.parquet"
    grouped_frame(0).to_csv(file, index=False)
    assert (
        run(
            "calibrate", file, "--method", "per_group_bias", "--groups", "site", "-o", saved
        ).exit_code
        == 0
    )
    fresh = grouped_frame(1, 30)
    fresh.loc[:6, "site"] = "east"
    fresh.rename(columns={"site": "place"}).to_csv(file, index=False)
    done = run("apply", saved, file, "--groups", "place", "-o", out)
    assert done.exit_code == 0, done.output
    assert "7 rows in groups that the fit did not have" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "temperature", "--features", "f_*"], "`--features`"),
        (["--method", "temperature", "--groups", "site"], "`--groups`"),
        (["--method", "per_group"], "`--groups`"),
        (["--method", "group_calibration"], "`--features`"),
        (["--method", "group_calibration", "--features", "site"], "must hold numbers"),
        (["--features", "site"], "must hold numbers"),
        (["--method", "per_group", "--groups", "site,half"], "must be one column"),
        (["--method", "multicalibration"], "`--features`"),
    ],
)
def test_options_without_effect_are_refused(tmp_path, options, words):
    file, saved = tmp_path / "a.csv", tmp_path / "cal.json"
    grouped_frame(0, 200).to_csv(file, index=False)
    done = run("calibrate", file, *options, "-o", saved)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert not saved.exists()


def test_apply_refuses_what_it_does_not_use(tmp_path, saved):
    pd.DataFrame(P).to_csv(tmp_path / "x.csv", index=False)
    for option in ("--features", "--groups"):
        done = run("apply", saved, tmp_path / "x.csv", option, "p_0", "-o", tmp_path / "out.csv")
        assert done.exit_code == 2
        assert f"`{option}`" in done.output


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (3, "No calibrator helps: the saved one changes nothing"),
        (8, "Not a clear gain: the interval includes 0. Collect more rows before you use it"),
    ],
)
def test_a_gain_that_is_not_clear_is_no_advice(tmp_path, seed, words):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, 60)
    y = (rng.random(60) < p**1.5).astype(int)
    pd.DataFrame({"label": y, "p": p}).to_csv(tmp_path / "few.csv", index=False)
    outputs = ["--probs", "p", "-o", tmp_path / "c.json"]
    result = run("calibrate", tmp_path / "few.csv", *outputs)
    assert result.exit_code == 0, result.output
    assert words in " ".join(result.output.split())


def test_an_infinite_log_loss_is_printed_as_in_tables(tmp_path):
    world = frame(0)
    world.loc[0, ["p_ant", "p_bee", "p_cat"]] = [0.0, 1.0, 0.0]
    world.loc[0, "label"] = "ant"
    world.to_csv(tmp_path / "sure.csv", index=False)
    done = run("calibrate", tmp_path / "sure.csv", "-o", tmp_path / "c.json")
    assert "Cross-validated log loss ∞ before" in done.output
