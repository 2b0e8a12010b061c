"""Paper 4: Yang et al. 2023, Beyond probability partitions: calibrating neural networks with
semantic aware grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..text import listed, number
from .group_calibration_ablations import SERIES, ablations
from .group_calibration_example import DRAWN, GAP, PREDICTED, TRUE, figure_1, section_3_2
from .group_calibration_partitions import COUNT, RESAMPLED, ROWS, learned_partitions
from .group_calibration_partitions import PAPER as STARTS
from .group_calibration_tables import (
    BEST_OF_ALL,
    CHANGE,
    CORRECTED_P,
    COSTS_ACCURACY,
    LOWER_ECE,
    LOWER_LOSS,
    PAIRED_P,
    RESAMPLING_HELPS,
    file_table,
    trained_table,
)
from .outcome import Claim, Outcome, Row
from .papers import Experiment, Outcomes, Paper, Part
from .summaries import verdicts

# Networks trained here: name, the network of the paper beside it, and the full and quick recipes.
TRAINED: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "mlp": ("MLP", "", ["mlp", "base", 0, 5000, 60], ["mlp", "base", 0, 3000, 4]),
    "lenet": (
        *("LeNet", "CIFAR10 VGG11"),
        ["lenet", "base", 0, 20000, 5],
        ["lenet", "base", 0, 3000, 5],
    ),
    "residual": (
        *("residual network", "CIFAR10 Resnet152"),
        ["residual", "base", 0, 20000, 5],
        ["residual", "base", 0, 3000, 3],
    ),
}
# Networks of the data folder: name, the network of the paper beside it, and the tolerance.
FILES: dict[str, tuple[str, str, float | None]] = {
    "yang_cifar10_resnet152": ("CIFAR10 Resnet152", "CIFAR10 Resnet152", 0.001),
    "fashion_cnn": ("Fashion-MNIST CNN", "", None),
    "own_digits_mlp": ("digits MLP", "", None),
    "own_spambase_mlp": ("Spambase MLP", "", None),
}
# Rows that learn groups: 10% of the training set of CIFAR, as in the paper.
SIZES = {"quick": {"rows": 300, "partitions": 4}, "full": {"rows": 5000, "partitions": 20}}
SPLITS = {"quick": {"splits": 2}, "full": {"splits": 100}}
QUICK, FULL = (SIZES[mode] | SPLITS[mode] for mode in ("quick", "full"))
ABLATED = ("mlp", "residual")
SIGNIFICANT = 0.01  # as in the paper


def _tables(table: int) -> tuple[Experiment, ...]:
    found = []
    for key, (name, beside, full, quick) in TRAINED.items():
        fixed = {"table": table, "name": name, "beside": beside}
        found.append(
            Experiment(
                f"table-{table}-{key}",
                f"Table {table}, {name}",
                trained_table,
                fixed | {"recipe": quick} | QUICK,
                fixed | {"recipe": full} | FULL,
                trains=True,
            )
        )
    for key, (name, beside, tolerance) in FILES.items():
        fixed = {"table": table, "name": name, "beside": beside, "tolerance": tolerance}
        found.append(
            Experiment(
                f"table-{table}-{key}",
                f"Table {table}, {name}",
                file_table,
                fixed | QUICK,
                fixed | FULL,
                files=(f"{key}_val", f"{key}_test"),
            )
        )
    return tuple(found)


def _of_network(key: str, name: str, title: str, run: Any, quick: Any, full: Any) -> Experiment:
    """An experiment on a network trained here."""
    _, _, recipe, small = TRAINED[key]
    return Experiment(
        name, title, run, {"recipe": small} | quick, {"recipe": recipe} | full, trains=True
    )


def _ablations() -> tuple[Experiment, ...]:
    quick = QUICK | {"partitions": [1, 4], "groups": [2, 3], "penalties": [0.1, 1.0]}
    full = FULL | {
        "splits": 50,
        "partitions": [1, 2, 5, 10, 20],
        "groups": [2, 3, 5, 10],
        "penalties": [0.001, 0.01, 0.1, 1.0, 10.0],
    }
    return tuple(
        _of_network(
            key,
            f"ablations-{key}",
            f"Figures 3 and 4, {TRAINED[key][0]}",
            ablations,
            {"name": TRAINED[key][0]} | quick,
            {"name": TRAINED[key][0]} | full,
        )
        for key in ABLATED
    )


def _partitions() -> tuple[Experiment, ...]:
    return tuple(
        _of_network(
            key,
            f"figure-2-{key}",
            f"Figure 2, {name}",
            learned_partitions,
            {"name": name, "variants": False} | SIZES["quick"],
            {"name": name, "variants": True} | SIZES["full"],
        )
        for key, (name, *_) in TRAINED.items()
    )


def _claims(outcomes: Outcomes, beginning: str) -> list[Claim]:
    return [
        claim
        for name, one in outcomes.items()
        if name.startswith(beginning)
        for claim in one.claims
    ]


def _rows(outcomes: Outcomes, beginning: str) -> list[Row]:
    return [row for name, one in outcomes.items() if name.startswith(beginning) for row in one.rows]


def findings(found: Outcomes) -> list[str]:
    sentences: list[str] = []
    first = _claims(found, "table-1")
    if first:
        sentences += _table_1(first, _rows(found, "table-1"))
    second = _claims(found, "table-2")
    if second:
        sentences.append(
            "Table 2. GC+ETS has a lower ECE than the best method that may change the predicted"
            f" class: {verdicts(second, BEST_OF_ALL)}. That method changes the accuracy by these"
            f" percentage points: {_measured(second, COSTS_ACCURACY)}."
        )
    if "figure-1" in found:
        sentences.append(_figure_1(found["figure-1"]))
    if "section-3-2" in found:
        sentences.append(_section_3_2(found["section-3-2"]))
    parts = _rows(found, "figure-2")
    if parts:
        sentences.append(_differ(parts))
    for series in SERIES:
        claims = [
            claim
            for claim in _claims(found, "ablations")
            if claim.statement.partition(": ")[0].endswith(series)
        ]
        if claims:
            sentences.append(_ablated(series, claims))
    return sentences


def _measured(claims: Sequence[Claim], ending: str) -> str:
    """The values of the claims with this ending, by network."""
    return ", ".join(
        f"{claim.statement.partition(': ')[0]} {number(claim.value, 2)}"
        for claim in claims
        if claim.statement.endswith(f": {ending}")
    )


def _table_1(claims: Sequence[Claim], rows: Sequence[Row]) -> list[str]:
    sentences = [
        "Table 1. "
        + " ".join(
            f"GC+{base} has a lower ECE than {base}: {verdicts(claims, LOWER_ECE[base])}."
            f" It has a lower log loss: {verdicts(claims, LOWER_LOSS[base])}."
            for base in LOWER_ECE
        )
    ]
    tests = [row for row in rows if row.column in (PAIRED_P, CORRECTED_P)]
    counts = {
        column: sum(row.ours < SIGNIFICANT for row in tests if row.column == column)
        for column in (PAIRED_P, CORRECTED_P)
    }
    sentences.append(
        f"Of {len(tests) // 2} differences of ECE from the base method, {counts[PAIRED_P]} have"
        " p < 0.01 by the paired t-test of the paper, which takes splits as independent, and"
        f" {counts[CORRECTED_P]} by the corrected test. The corrected test is conservative where"
        " the fit varies more than the choice of test rows, as for the ECE."
    )
    changes = {
        base: [
            row.ours for row in rows if row.column == CHANGE and row.row.endswith(f", GC+{base}")
        ]
        for base in LOWER_ECE
    }
    printed = {"TS": "−5.03", "ETS": "−8.92"}
    sentences.append(
        "Mean change of ECE against the base method over the networks: "
        + "; ".join(
            f"GC+{base} {number(sum(values) / len(values), 1)}% (printed {printed[base]}%)"
            for base, values in changes.items()
        )
        + ". Log loss of resampled GC+TS minus that of GC+TS, x 1,000: "
        + f"{_measured(claims, RESAMPLING_HELPS)}; lower with 95% confidence:"
        + f" {verdicts(claims, RESAMPLING_HELPS)}."
    )
    return sentences


def _figure_1(outcome: Outcome) -> str:
    gaps = {row.row: row for row in outcome.rows if row.column == GAP}

    def pair(case: str) -> str:
        return listed([f"{one} {number(gaps[f'{one} {case}'].ours, 3)}" for one in ("G1", "G2")])

    return (
        "Figure 1. Confidence minus accuracy after isotonic regression, by true class:"
        f" {pair(TRUE)}."
        f" By predicted class, a partition of inputs: {pair(PREDICTED)}. With labels drawn from the"
        f" model's own probabilities, for which the model is perfect: {pair(DRAWN)}. A partition by"
        " the true class shows differences even for a perfect model."
    )


def _section_3_2(outcome: Outcome) -> str:
    values = {(row.row, row.column): row for row in outcome.rows}
    shown = "; ".join(
        f"{metric} {number(values['TS', metric].ours)} with TS and"
        f" {number(values['GC+TS', metric].ours)} with GC+TS (printed"
        f" {number(values['TS', metric].printed)} and {number(values['GC+TS', metric].printed)})"
        for metric in ("ECE", "PCE")
    )
    held = sum(claim.holds is True for claim in outcome.claims[:2])
    return f"Section 3.2. {shown}; {held} of 2 differences are below 0 with 95% confidence."


def _differ(rows: Sequence[Row]) -> str:
    def by_network(words: str, column: str, decimals: int) -> str:
        return ", ".join(
            f"{row.row.partition(', ')[0]} {number(row.ours, decimals)}"
            for row in rows
            if row.column == column and row.row.partition(", ")[2] == words
        )

    return (
        "Do learned partitions differ? Partitions that are more than 1% of the rows apart, with"
        f" starting points only, as in the paper: {by_network(STARTS, COUNT, 0)}; with a resample"
        f" of the rows for each: {by_network(RESAMPLED, COUNT, 0)}. Two of the latter put this"
        f" percentage of the rows apart on average: {by_network(RESAMPLED, ROWS, 1)}."
    )


def _ablated(series: str, claims: Sequence[Claim]) -> str:
    kinds = list(dict.fromkeys(claim.statement.partition(": ")[2] for claim in claims))
    words = []
    for kind in kinds:
        found = [claim for claim in claims if claim.statement.endswith(f": {kind}")]
        held = sum(claim.holds is True for claim in found)
        shown = ", ".join(
            f"{claim.statement.partition(', ')[0]} {claim.measured}"
            + (f" ({claim.interval})" if claim.interval else "")
            for claim in found
        )
        words.append(f"{kind[0].upper()}{kind[1:]}: {held} of {len(found)} hold; {shown}.")
    return f"Figures 3 and 4, {series}. " + " ".join(words)


PAPER = Paper(
    4,
    "group calibration",
    "Yang et al. 2023, Beyond probability partitions: calibrating neural networks with semantic"
    " aware grouping",
    (
        Part(
            "figure-1",
            "Figure 1: a constructed problem",
            "Isotonic regression calibrates the outputs as a whole, but not in groups of the"
            " original classes.",
            (_of_network("mlp", "figure-1", "Figure 1, MLP", figure_1, {}, {}),),
        ),
        Part(
            "section-3-2",
            "Section 3.2: partitioned calibration error",
            "Group calibration lowers the error in the learned partitions.",
            (
                _of_network(
                    "mlp",
                    "section-3-2",
                    "Section 3.2, MLP",
                    section_3_2,
                    QUICK,
                    FULL,
                ),
            ),
        ),
        Part(
            "table-1",
            "Table 1: methods that keep the most probable class",
            "Means over random splits: 10% of the test rows fit the calibrators. In brackets, the"
            " printed ECE of another network with a similar architecture.",
            _tables(1),
            "columns",
        ),
        Part(
            "table-2",
            "Table 2: methods that may change the most probable class",
            "Means over random splits: 10% of the test rows fit the calibrators. In brackets, the"
            " printed ECE of another network with a similar architecture.",
            _tables(2),
            "columns",
        ),
        Part(
            "figure-2",
            "Figure 2: learned partitions",
            "Classes in the groups, and how far partitions differ.",
            _partitions(),
        ),
        Part(
            "ablations",
            "Figures 3 and 4: partitions, groups and the penalty",
            "Differences from temperature scaling.",
            _ablations(),
        ),
    ),
    findings,
    (
        "Tables 1 and 2 on CIFAR-100 and ImageNet, and two of three networks on CIFAR-10: the"
        " authors publish the outputs of one network.",
        "The numbers of Figures 3 and 4 are not printed.",
    ),
)
