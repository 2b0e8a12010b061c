"""Predictions streamed to a Parquet file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import probaudit as pb
from probaudit.models import answers

FRAME, CODES = load_iris(return_X_y=True, as_frame=True)
X = FRAME.to_numpy()
Y = load_iris().target_names[CODES]
MODEL = GaussianNB().fit(X, Y)


def assert_same_rows(first, second):
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.probs, second.probs)
    np.testing.assert_array_equal(first.features, second.features)
    assert first.kind == second.kind
    assert first.classes == second.classes


@pytest.mark.parametrize("values", [1, 500, 2**22])
def test_the_file_has_the_rows(tmp_path, monkeypatch, values):
    """Whatever the size of row groups."""
    monkeypatch.setattr(answers, "GROUP_VALUES", values)
    site = np.where(X[:, 0] > 5.5, "north", "south")
    data = (X, Y, {"site": site})
    source = pb.collect(MODEL, data, to=tmp_path / "rows.parquet", batch_size=20)
    rows = source.read()
    assert_same_rows(rows, pb.collect(MODEL, (X, Y)))
    np.testing.assert_array_equal(rows.columns["site"], site)
    groups = parquet.ParquetFile(tmp_path / "rows.parquet").num_row_groups
    assert groups == {1: 8, 500: 2, 2**22: 1}[values]  # 140 values per batch, 8 batches


def test_the_file_can_be_read_by_the_usual_patterns(tmp_path):
    path = tmp_path / "rows.parquet"
    pb.collect(MODEL, (X, Y), to=path)
    rows = pb.read(path, probs="p_*", features="features")
    assert_same_rows(rows, pb.collect(MODEL, (X, Y)))


def test_named_features_have_columns_of_their_own(tmp_path):
    path = tmp_path / "rows.parquet"
    source = pb.collect(GaussianNB().fit(FRAME, Y), (FRAME, Y), to=path, batch_size=64)
    assert source.read().feature_names == tuple(f"f_{name}" for name in FRAME.columns)
    np.testing.assert_array_equal(source.read().features, X)


def test_the_source_goes_to_an_audit(tmp_path):
    source = pb.collect(MODEL, (X, Y), to=tmp_path / "rows.parquet")
    found = pb.audit(source, repair=False)
    assert found["log_score"] == pb.audit(pb.collect(MODEL, (X, Y)), repair=False)["log_score"]
    assert found.budget is not None


@pytest.mark.parametrize("outputs", ["probabilities", "logits", "log_probabilities"])
def test_one_column_of_two_classes(tmp_path, outputs):
    def second(x):
        p = 1 / (1 + np.exp(5.5 - x[:, 0]))
        return {"probabilities": p, "logits": x[:, 0] - 5.5, "log_probabilities": np.log(p)}[
            outputs
        ]

    labels = np.array(["no", "yes"])[(CODES > 0).astype(int)]
    path = tmp_path / "rows.parquet"
    source = pb.collect(second, (X, labels), outputs=outputs, classes=["no", "yes"], to=path)
    memory = pb.collect(second, (X, labels), outputs=outputs, classes=["no", "yes"])
    assert source.classes == ("no", "yes")
    np.testing.assert_array_equal(source.read().probs, memory.probs)
    assert pb.log_score(source.read()) == pb.log_score(memory)


def test_only_a_few_batches_are_held(tmp_path, monkeypatch):
    """Rows are written before the last batch is asked for."""
    monkeypatch.setattr(answers, "GROUP_VALUES", 2000)
    sizes = []

    def batches():
        for _ in range(30):
            written = list(tmp_path.glob(".probaudit-*"))
            sizes.append(written[0].stat().st_size if written else 0)
            yield X, Y

    pb.collect(MODEL, batches(), to=tmp_path / "rows.parquet")
    assert sizes[20] > sizes[10] > 0


def test_a_failure_leaves_no_file(tmp_path):
    def batches():
        yield X, Y
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pb.collect(MODEL, batches(), to=tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["label", "features", "p_old", "f_x"])
def test_names_of_columns_must_not_clash(tmp_path, name):
    with pytest.raises(pb.InputError, match=r"`data`: must not have columns named"):
        pb.collect(MODEL, (X, Y, {name: CODES}), to=tmp_path / "rows.parquet")


def test_errors_come_before_any_work(tmp_path):
    def model(inputs):
        raise AssertionError("the model was asked")

    with pytest.raises(pb.InputError, match="its folder must exist"):
        pb.collect(model, (X, Y), outputs="logits", to=tmp_path / "absent" / "rows.parquet")
    with pytest.raises(pb.InputError, match=r"`to`: must end in .parquet"):
        pb.collect(model, (X, Y), outputs="logits", to=tmp_path / "rows.npz")


def test_dense_outputs_are_refused(tmp_path):
    maps, labels = np.zeros((4, 3, 5, 5)), np.zeros((4, 5, 5), int)
    with pytest.raises(pb.InputError, match=r"`to`: dense outputs cannot be written to a table"):
        pb.collect(lambda x: x, (maps, labels), outputs="logits", to=tmp_path / "rows.parquet")


def test_classes_of_another_number_are_refused(tmp_path):
    with pytest.raises(pb.InputError, match=r"needs one name for each of the 3 classes"):
        pb.collect(
            lambda x: x[:, :3],
            (X, CODES % 2),
            outputs="logits",
            classes=["a", "b"],
            to=tmp_path / "rows.parquet",
        )


def test_a_frame_of_columns(tmp_path):
    columns = pd.DataFrame({"age": np.arange(150), "site": Y})
    source = pb.collect(MODEL, (X, Y, columns), to=tmp_path / "rows.parquet")
    np.testing.assert_array_equal(source.read().columns["age"], np.arange(150))


def test_logits_of_a_network(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = torch.nn.Linear(4, 3).to(torch.bfloat16)
    data = (torch.tensor(X).to(torch.bfloat16), CODES.to_numpy())
    source = pb.collect(model, data, to=tmp_path / "rows.parquet", batch_size=50)
    assert_same_rows(source.read(), pb.collect(model, data, batch_size=50))
