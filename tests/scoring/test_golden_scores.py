"""Ferrer & Ramos 2025: its reference code's numbers on real predictions, met by ours."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import probaudit as pb
from tests.conftest import softmax

FILES = {
    ("SST2", "GPT2-4sh"): "ferrer_sst2_gpt2_4shot",
    ("SST2", "GPT2-0sh"): "ferrer_sst2_gpt2",
    ("CIFAR-1vsO", "Resnet-20"): "ferrer_cifar100_resnet20",
    ("PNEUM", "Resnet-50"): "ferrer_pneumoniamnist_resnet50",
    ("ADRENAL", "Resnet-50"): "ferrer_adrenalmnist_resnet50",
    ("IEMOCAP", "W2V2"): "ferrer_iemocap_wav2vec_pt",
    ("AGNEWS", "GPT2-0sh"): "ferrer_agnews_gpt2",
    ("CIFAR10", "Resnet-20"): "ferrer_cifar10_resnet20",
    ("CIFAR10", "RepVgg-a2"): "ferrer_cifar10_repvgg_a2",
    ("CIFAR100", "Resnet-20"): "ferrer_cifar100_resnet20",
}


def load(shared, name):
    with np.load(shared / "data" / f"{name}.npz") as stored:
        return stored["labels"], stored["logits"]


def scores(y, outputs, **options):
    classes = outputs.shape[1]
    return {
        "01": pb.bayes_risk(y, outputs, pb.Cost.zero_one(classes), **options),
        "01r": pb.bayes_risk(y, outputs, pb.Cost.zero_one(classes, reject=0.1), **options),
        "imb": pb.bayes_risk(y, outputs, pb.Cost.imbalanced(classes), **options),
        "log": pb.log_score(y, outputs, **options),
        "brier": pb.brier_score(y, outputs, **options),
    }


@pytest.mark.parametrize(("dataset", "system"), FILES)
def test_table_2_raw_rows(shared, dataset, system):
    with (shared / "golden" / "ferrer_table2.csv").open() as file:
        rows = [
            r
            for r in csv.DictReader(file)
            if (r["dataset"], r["system"], r["posteriors"]) == (dataset, system, "raw")
        ]
    (row,) = rows
    y, logits = load(shared, FILES[dataset, system])
    if dataset == "CIFAR-1vsO":  # class 1 of CIFAR-100 against all others
        p = softmax(logits.astype(np.float64))[:, 1]
        found = scores((y == 1).astype(int), np.column_stack([1 - p, p]), normalize=True)
    else:
        found = scores(y, logits, normalize=True, from_logits=True)
    golden = {
        "01": "NRisk_01",
        "01r": "NRisk_01r",
        "imb": "NRisk_imb",
        "log": "NCE",
        "brier": "NBS",
    }
    for name, column in golden.items():
        assert found[name] == pytest.approx(float(row[f"rerun_{column}"]), abs=1e-6), name


def test_c_psrcal(shared):
    cases = json.loads((shared / "golden" / "c_psrcal.json").read_text())["cases"]
    for name, case in cases.items():
        y, logits = load(shared, name)
        classes = logits.shape[1]
        plain = scores(y, logits, from_logits=True)
        normal = scores(y, logits, from_logits=True, normalize=True)
        uniform = np.full(classes, 1 / classes)
        for ours, theirs in (("01", "C01"), ("01r", "Cab0.1"), ("imb", "Cimb")):
            assert plain[ours] == pytest.approx(case[f"Risk_{theirs}"], abs=1e-9), (name, ours)
            assert normal[ours] == pytest.approx(case[f"NRisk_{theirs}"], abs=1e-9), (name, ours)
        assert plain["log"] == pytest.approx(case["CE"], abs=1e-6)
        assert normal["log"] == pytest.approx(case["NCE"], abs=1e-6)
        assert plain["brier"] / classes == pytest.approx(case["BS_mean_over_classes"], abs=1e-6)
        assert normal["brier"] == pytest.approx(case["NBS"], abs=1e-6)
        again = scores(y, logits, from_logits=True, normalize=True, priors=uniform)
        assert again["log"] == pytest.approx(case["NCE_uniform_priors"], abs=1e-6)
        assert again["brier"] == pytest.approx(case["NBS_uniform_priors"], abs=1e-6)


def test_the_audit_shows_the_same_numbers(shared):
    y, logits = load(shared, "ferrer_pneumoniamnist_resnet50")
    audit = pb.audit(y, logits, from_logits=True)
    assert audit["log_score.normalized"] == pytest.approx(0.8016314540599357, abs=1e-6)
    assert audit["brier_score.normalized"] == pytest.approx(0.3760009082254779, abs=1e-6)
    assert audit["error_rate.normalized"] == pytest.approx(0.27777777777777773, abs=1e-12)
    assert audit["reject_risk.normalized"] == pytest.approx(0.7355769230769232, abs=1e-12)
