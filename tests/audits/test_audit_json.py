"""The JSON of an audit agrees with its schema and with docs/audit-json.md."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import probaudit as pb
from probaudit.audits.audit_result import SCHEMA

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "audit-json.md").read_text()
VALIDATOR = Draft202012Validator(json.loads((DOCS / "audit-6.schema.json").read_text()))


def audits() -> dict[str, pb.Audit]:
    world, two = pb.simulate.gaussian_posteriors(800, 12, seed=1), pb.simulate.unfair_groups(2000)
    names = [f"class {k}" for k in range(12)]
    certain = two.scores.copy()
    certain[np.flatnonzero(two.y == 1)[:2]] = 0.0
    return {
        "everything": pb.audit(
            two.y,
            certain,
            columns={"group": two.group},
            regions=["group"],
            costs=[[0, 1], [5, 0]],
            repair="compare",
            title="all",
        ),
        "classes": pb.audit(
            np.array(names)[world.y],
            world.mcs,
            classes=names,
            repair="compare",
            sample_weight=world.cal[:, 0],
        ),
        "confidence": pb.audit(
            pb.Predictions.from_confidence([0.9, 0.6, 0.7], [True, False, True])
        ),
        "one row": pb.audit([1], [0.5]),
        "dropped": pb.audit([0, 1, 7], [0.1, 0.9, 0.5], on_bad_rows="drop"),
    }


@pytest.fixture(scope="module")
def found():
    return audits()


@pytest.mark.parametrize("name", ["everything", "classes", "confidence", "one row", "dropped"])
def test_every_audit_matches_the_schema(found, name):
    content = json.loads(found[name].to_json())
    VALIDATOR.validate(content)
    assert content["schema"] == SCHEMA


def test_the_schema_is_valid_and_rejects_changed_audits(found):
    Draft202012Validator.check_schema(VALIDATOR.schema)
    good = json.loads(found["everything"].to_json())
    for change in (
        lambda c: c.pop("headline"),
        lambda c: c.update(more=1),
        lambda c: c["estimates"].pop("log_score"),
        lambda c: c["errors"][0].pop("null_mean"),
        lambda c: c["findings"][0].update(level="fine"),
        lambda c: c["repairs"][0].pop("gain"),
        lambda c: c["groups"][0].update(rows=0),
        lambda c: c["budget"].pop("rest"),
    ):
        changed = copy.deepcopy(good)
        change(changed)
        assert not VALIDATOR.is_valid(changed)


def test_the_page_documents_every_field_and_name(found):
    said = set(re.findall(r"`([^`]+)`", PAGE))
    for audit in found.values():
        content = audit.to_dict()
        assert set(content) <= said
        for part in ("groups", "repairs", "findings"):
            assert all(set(entry) <= said for entry in content[part])
        names = {re.sub(r"\.(low|high)$", "", name) for name in audit.flat()}
        of_groups = {name for name in names if name.startswith("groups.")}
        plain = {re.sub(r"\.(p_value|normalized)$", "", name) for name in names - of_groups}
        assert plain <= said
        assert {name.rpartition(".")[2] for name in of_groups} <= said
    assert f"`{SCHEMA}`" in PAGE


def test_the_page_documents_no_missing_name(found):
    names = re.findall(
        r"^\| ((?:`[^`|]+`(?:, )?)+) \|", PAGE.split("## Names of numbers")[1], re.MULTILINE
    )
    listed = {name for row in names for name in re.findall(r"`([^`]+)`", row)}
    listed = {name for name in listed if "NAME" not in name}
    features = pb.simulate.neural_outputs(600)
    more = pb.audit(features.y, features.scores, features=features.features)
    known = set().union(*(audit.flat() for audit in (*found.values(), more)))
    assert listed <= known
    assert len(listed) > 20
