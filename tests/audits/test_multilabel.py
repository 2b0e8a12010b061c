"""Multilabel tables, against single columns, scikit-learn, and worlds with dependent labels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from typer.testing import CliRunner

import probaudit as pb
from probaudit.calibration.label_measures import NAMES
from probaudit.cli.commands import app

MEANS = ("predicted", "observed", "brier", "log_loss", "auc", "average_precision")


def world(n, labels, seed=0, power=1.0, shared=0.6):
    """Labels whose outcomes are dependent given their probabilities (a normal copula); the log-odds
    of the model are `power` times the true ones."""
    rng = np.random.default_rng(seed)
    log_odds = 1.2 * rng.normal(size=(n, labels)) + rng.normal(size=(n, 1)) - 0.5
    common, own = rng.normal(size=(n, 1)), rng.normal(size=(n, labels))
    noise = math.sqrt(shared) * common + math.sqrt(1 - shared) * own
    return (ndtr(noise) < expit(log_odds)).astype(np.int8), expit(power * log_odds)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_label_has_the_measures_of_its_column(clustered, weighted):
    y, p = world(400, 3)
    options = {}
    if clustered:
        options["clusters"] = np.arange(400) // 4
    if weighted:
        options["sample_weight"] = np.random.default_rng(1).gamma(2, size=400)
    table = pb.multilabel_table(y, p, names=["a", "b", "c"], **options)
    assert {one.label for one in table} == {"a", "b", "c"}
    for k, name in enumerate("abc"):
        one = table[name]
        alone = pb.validation_table(y[:, k], p[:, k], **options).overall
        for measure in NAMES:
            if measure != "log_loss":
                assert getattr(one, measure).to_dict() == getattr(alone, measure).to_dict()
        log = pb.log_score(y[:, k], p[:, k], **options)
        assert (one.log_loss, one.log_loss.interval) == (log, log.interval)
        assert (one.rows, one.events) == (alone.rows, alone.events)


def test_macro_and_micro_agree_with_scikit_learn():
    y, p = world(500, 6)
    table = pb.multilabel_table(y, p)
    for kind in ("macro", "micro"):
        found = getattr(table, kind)
        assert found.auc == pytest.approx(roc_auc_score(y, p, average=kind), abs=1e-12)
        precision = average_precision_score(y, p, average=kind)
        assert found.average_precision == pytest.approx(precision, abs=1e-12)
        assert found.brier == pytest.approx(((y - p) ** 2).mean(), abs=1e-12)
        assert found.log_loss == pytest.approx(log_loss(y.ravel(), p.ravel()), abs=1e-12)
        assert found.observed == pytest.approx(y.mean())
        for _, x in found.estimates():
            assert x.low <= x.error_bar[2]
            assert x.low < x.high
    weights = np.linspace(0.5, 3, 500)
    weighted = pb.multilabel_table(y, p, sample_weight=weights)
    expected = roc_auc_score(y, p, average="macro", sample_weight=weights)
    assert weighted.macro.auc == pytest.approx(expected, abs=1e-12)


def test_micro_pools_all_cells_with_rows_as_clusters():
    y, p = world(300, 4)
    rows = np.repeat(np.arange(300), 4)
    pooled = pb.validation_table(y.reshape(-1), p.reshape(-1), clusters=rows).overall
    micro = pb.multilabel_table(y, p).micro
    for name in ("auc", "slope", "observed", "ici", "brier"):
        assert getattr(micro, name).to_dict() == getattr(pooled, name).to_dict()


def test_equal_labels_do_not_shorten_the_macro_interval():
    """K copies of a label say no more than one; K independent labels have a root-K interval."""
    y, p = world(600, 1)
    one = pb.multilabel_table(y, p).macro
    copies = pb.multilabel_table(np.repeat(y, 5, axis=1), np.repeat(p, 5, axis=1)).macro
    for name in NAMES:
        a, b = getattr(one, name), getattr(copies, name)
        assert (a, a.low, a.high) == pytest.approx((b, b.low, b.high), rel=1e-9, abs=1e-12)
    rng = np.random.default_rng(3)
    p = rng.random((600, 16))
    y = (rng.random(p.shape) < p).astype(int)
    table = pb.multilabel_table(y, p)
    for name in MEANS:
        single = np.mean([getattr(x, name).high - getattr(x, name).low for x in table])
        both = getattr(table.macro, name)
        assert (both.high - both.low) / single == pytest.approx(1 / 4, rel=0.25)


def test_intervals_cover_the_macro_values_of_dependent_labels():
    truth = pb.multilabel_table(*world(100_000, 4, seed=1, power=1.3))
    inside, runs = dict.fromkeys(MEANS, 0), 60
    for run in range(runs):
        found = pb.multilabel_table(*world(250, 4, seed=100 + run, power=1.3))
        for name in MEANS:
            x = getattr(found.macro, name)
            inside[name] += x.low <= getattr(truth.macro, name) <= x.high
    # 51 of 60 has a probability below 0.005 at 95%
    assert all(count >= 51 for count in inside.values()), inside


def test_calibrated_labels_raise_few_alarms_and_miscalibrated_ones_come_first():
    alarms = sum(
        any(one.verdict for one in pb.multilabel_table(*world(200, 5, seed=run)))
        for run in range(60)
    )
    assert alarms <= 9  # more has a probability below 0.005 at 5%
    y, p = world(3000, 6)
    log_odds = np.log(p) - np.log1p(-p)
    p[:, 1], p[:, 2] = expit(log_odds[:, 1] + 1), expit(log_odds[:, 2] - 1)
    p[:, 4], p[:, 5] = expit(2.5 * log_odds[:, 4]), expit(0.3 * log_odds[:, 5])
    table = pb.multilabel_table(y, p)
    expected = {"1": "predicted too high", "2": "predicted too low", "4": "overconfident"}
    expected |= {"5": "underconfident", "0": "", "3": ""}
    assert {one.label: one.verdict for one in table} == expected
    assert {one.label for one in table.labels[:4]} == {"1", "2", "4", "5"}
    ici = [float(one.ici) for one in table.labels[:4]]
    assert ici == sorted(ici, reverse=True)
    assert table.headline.startswith("Recalibrate by label: 4 of 6 labels are miscalibrated.")


def test_missing_cells_are_left_out_label_by_label():
    y, p = world(400, 3)
    known = np.random.default_rng(0).random(y.shape) > 0.3
    for mark, labels in {-1: np.where(known, y, -1), math.nan: np.where(known, y, np.nan)}.items():
        outputs = np.where(known, p, np.nan)
        table = pb.multilabel_table(labels, outputs, ignore_label=mark)
        for k in range(3):
            some = known[:, k]
            alone = pb.validation_table(y[some, k], p[some, k]).overall
            assert table[str(k)].auc.to_dict() == alone.auc.to_dict()
            assert table[str(k)].rows == some.sum()
        assert table.micro.rows == known.sum()
        assert table.settings["ignored"].startswith(f"{(~known).sum():,} cells")
    with pytest.raises(pb.InputError, match=r"y_true\[0\]"):
        pb.multilabel_table(np.where(known, y, np.nan), p)


def test_labels_that_never_or_always_occur():
    y, p = world(200, 3)
    y[:, 0], y[:, 1] = 0, 1
    table = pb.multilabel_table(y, p)
    assert math.isnan(table["0"].auc)
    assert math.isnan(table["0"].average_precision)
    assert math.isnan(table["1"].slope)
    assert table["0"].verdict == "predicted too high"
    assert table["1"].verdict == "predicted too low"
    assert table.macro.auc == pytest.approx(float(table["2"].auc))
    assert "1 of 3 labels" in table.macro.auc.definition
    json.loads(table.to_json())
    assert "–" in repr(table)


def test_one_label_one_row_and_one_cluster():
    y, p = world(200, 1)
    table = pb.multilabel_table(y, p)
    assert table.macro.auc == table.micro.auc == table["0"].auc
    one = pb.multilabel_table([[1, 0]], [[0.9, 0.2]])
    assert one.micro.rows == 2
    single = pb.multilabel_table(*world(50, 2), clusters=np.zeros(50))
    assert math.isnan(single.macro.auc.low)
    assert single.macro.auc > 0.5


def test_probabilities_of_zero_and_one():
    y, p = world(300, 2)
    p[0, 0], y[0, 0] = 0.0, 1
    p[1, 0], y[1, 0] = 1.0, 1
    table = pb.multilabel_table(y, p)
    assert table["0"].left_out == table.micro.left_out == table.macro.left_out == 2
    assert math.isinf(table["0"].log_loss)
    assert math.isinf(table.macro.log_loss)
    assert table.macro.log_loss.infinite_rows == 1
    assert json.loads(table.to_json())["macro"]["log_loss"]["infinite"]


def test_logits_frames_and_names():
    pd = pytest.importorskip("pandas")
    y, p = world(150, 3)
    frame = pd.DataFrame(p, columns=["sky", "sea", "sand"])
    table = pb.multilabel_table(y.astype(bool), frame)
    assert {one.label for one in table} == {"sky", "sea", "sand"}
    logits = pb.multilabel_table(y, np.log(p) - np.log1p(-p), from_logits=True)
    assert logits.macro.brier == pytest.approx(float(table.macro.brier), rel=1e-9)
    with pytest.raises(pb.InputError, match="in the order of `y_true`"):
        pb.multilabel_table(pd.DataFrame(y, columns=["sea", "sky", "sand"]), frame)
    with pytest.raises(KeyError):
        table["sun"]
    found = table.to_frame()
    assert found["label"].tolist()[-2:] == ["macro", "micro"]
    assert {"auc", "auc_low", "auc_high", "verdict"} <= set(found)


WRONG = {
    "vector": (([0, 1], [0.5, 0.5]), {}, "y_true", "must be [rows, labels]"),
    "shape": (([[0, 1]], [[0.5], [0.5]]), {}, "y_proba", "must have the shape of `y_true`"),
    "names": (([[0, 1]], [[0.5, 0.5]]), {"names": ["a"]}, "names", "one name for each of the 2"),
    "twice": (([[0, 1]], [[0.5, 0.5]]), {"names": ["a", "a"]}, "names", "must not repeat"),
    "classes": (([[0, 1]], [[0.5, 0.5]]), {"classes": [0, 1]}, "classes", "must not be given"),
    "clusters": (([[0, 1]], [[0.5, 0.5]]), {"clusters": [1, 2]}, "clusters", "one value per row"),
    "label": (([[0, 2]], [[0.5, 0.5]]), {}, "y_true[1]", "must be one of the classes"),
    "value": (([[0, 1]], [[0.5, 1.5]]), {}, "y_proba[1]", "between 0 and 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case):
    arrays, options, argument, words = WRONG[case]
    with pytest.raises(pb.InputError) as caught:
        pb.multilabel_table(*arrays, **options)
    assert caught.value.argument == argument
    assert words in str(caught.value)


@pytest.fixture
def files(tmp_path):
    pd = pytest.importorskip("pandas")
    y, p = world(200, 3)
    p[:, 1] = np.sqrt(p[:, 1])
    names = ["sky", "sea", "sand"]
    columns = {f"y_{name}": y[:, k] for k, name in enumerate(names)}
    # in another order: columns are matched by name
    columns |= {f"p_{name}": p[:, k] for k, name in reversed(list(enumerate(names)))}
    frame = pd.DataFrame(columns).assign(photo=np.arange(200) // 2, w=np.linspace(1, 2, 200))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    np.savez(tmp_path / "rows.npz", y=y, probs=p, photo=frame["photo"], w=frame["w"])
    return tmp_path, y, p, names


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_the_command_reads_each_format_and_writes_a_page(files, suffix):
    folder, y, p, names = files
    columns = ["--labels", "y", "--probs", "probs"] if suffix == "npz" else []
    page, found = folder / "page.html", folder / "found.json"
    options = ["--clusters", "photo", "--weight", "w", "--html", str(page), "--json", str(found)]
    command = ["multilabel", str(folder / f"rows.{suffix}"), *columns, *options]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    weights, photo = np.linspace(1, 2, 200), np.arange(200) // 2
    table = pb.multilabel_table(
        y,
        p,
        names=None if suffix == "npz" else names,
        sample_weight=weights,
        clusters=photo,
    )
    stored = json.loads(found.read_text())
    assert stored["schema"] == "probaudit.multilabel/1"
    assert [one["label"] for one in stored["labels"]] == [one.label for one in table]
    assert stored["macro"]["auc"]["value"] == pytest.approx(float(table.macro.auc))
    text = page.read_text()
    worst = table[0].label
    assert f"Reliability of label {worst}" in text
    assert "macro" in text
    assert worst in done.output
    assert "predicted too high" in done.output


def test_the_command_names_its_options_in_errors(files):
    folder, *_ = files
    for options, words in {
        ("--labels", "z_*"): "`--labels`: must be one of the columns",
        ("--probs", "p_s*", "--labels", "y_*"): "`--probs`: needs a column for each of",
        ("--probs", "p_*", "--logits", "p_*"): "give one kind of output",
        ("--clusters", "nobody"): "`--clusters`: must be one of the columns",
    }.items():
        done = CliRunner().invoke(app, ["multilabel", str(folder / "rows.csv"), *options])
        assert done.exit_code == 2
        assert words in done.output
    done = CliRunner().invoke(app, ["multilabel", str(folder / "rows.csv"), "--json", "-"])
    assert json.loads(done.output)["rows"] == 200


def test_a_notebook_shows_the_tables():
    table = pb.multilabel_table(*world(100, 2))
    assert "Predicted and observed rates" in table._repr_html_()
