"""Paper 1: Perez-Lebel et al. 2023, Beyond calibration: estimating the grouping loss of modern
neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..simulate import neural_outputs
from ..text import listed, number
from .grouping_networks import (
    AFTER,
    BOUND,
    BY_GROUP,
    CHANGE,
    CLEAN,
    KINDS,
    LITTLE_THERE,
    MERGED,
    ONE_IS_MORE,
    RECALIBRATES,
    RISES,
    STAYS,
    figure_13,
    grouping_diagrams,
    shifts,
    table_1,
)
from .grouping_simulated import CASES, COARSE, FINE, OURS, RATIO, figure_4, published_numbers
from .grouping_worlds import WORLDS, worlds
from .outcome import Claim, Outcome, Row
from .papers import Experiment, Outcomes, Paper, Part
from .summaries import agreement, rows_of, verdicts

NETWORKS = {
    "LeNet": {"network": "lenet", "rows": 20_000, "epochs": 5},
    "MLP": {"network": "mlp", "rows": 5_000, "epochs": 60},
    "ResNet": {"network": "residual", "rows": 20_000, "epochs": 5},
}
SMALL = {"MLP": {"network": "mlp", "rows": 3_000, "epochs": 4}}
SEVERITY = 5  # the largest, as in the paper
QUICK: dict[str, Any] = {"recipes": SMALL, "severity": SEVERITY, "resamples": 100}
FULL: dict[str, Any] = {"recipes": NETWORKS, "severity": SEVERITY, "resamples": 1000}
PUBLISHED = [
    *([0, name] for name in CASES),
    *([seed, name] for seed in (1, 2) for name in list(CASES)[:2]),
]
DRAWN = {"corruption": "darkening"}
TRUTH = neural_outputs(1).grouping_loss
PROTOCOL = (
    " 15 bins of the confidence; regions are learned from one half of the rows and evaluated on the"
    f" other. Corruptions have severity {SEVERITY}, the largest. Merged, each image has one of"
    f" {listed(KINDS)}, at random."
)


def findings(found: Outcomes) -> list[str]:
    return [
        *_figure_4(found["figure-4"], found["figure-4-code"]),
        *_worlds([found[f"figure-{figure}"] for figure in WORLDS]),
        *(_networks(found) if "table-1" in found else []),
    ]


def _figure_4(curves: Outcome, code: Outcome) -> list[str]:
    cell = {(row.row, row.column): row.ours for row in curves.rows}

    def of(part: str, ratio: int) -> float:
        return cell[f"ratio {ratio}, 15 bins", part]

    def percents(part: str) -> str:
        shares = [f"{of(part, ratio):.0f}%" for ratio in (FINE, RATIO, COARSE)]
        return f"{shares[0]}, {shares[1]} and {shares[2]}"

    return [
        "Figure 4: the samples and the split of the authors' code are regenerated. Its numbers for"
        f" three samples: {agreement(rows_of([code]), 8)}.",
        f"Figure 4, tightness, in percent of the true grouping loss at ratios {FINE}, {RATIO} and"
        f" {COARSE}: plugin {percents('plugin')}; bound of the paper {percents('lower bound')};"
        f" our bound {percents(OURS)}.",
        f"Figure 4, order: {_claimed(curves.claims)}",
    ]


def _claimed(every: Sequence[Claim]) -> str:
    """How many claims hold, and which do not, with their numbers."""
    held = [claim for claim in every if claim.holds is True]
    words = f"{len(held)} of {len(every)} claims hold."
    for holds, meaning in ((None, "Undecided"), (False, "Not so")):
        others = [
            f"{claim.statement} ({claim.measured}, 95% interval {claim.interval})"
            for claim in every
            if claim.holds is holds
        ]
        words += f" {meaning}: {'; '.join(others)}." if others else ""
    return words


def _worlds(outcomes: list[Outcome]) -> list[str]:
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    rows: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        for row in outcome.rows:
            rows.setdefault(row.row, {})[row.column] = row.ours
    shares = [one["our lower bound"] / one["true grouping loss"] for one in rows.values()]
    return [
        f"Figures 9 to 12, {len(rows)} worlds: {_claimed(claims)} Our bound is"
        f" {100 * min(shares):.0f}% to {100 * max(shares):.0f}% of the true grouping loss."
    ]


def _networks(found: Outcomes) -> list[str]:
    table = found["table-1"]
    cell = {(row.row, row.column): row for row in table.rows}
    names = list(dict.fromkeys(row.row.partition(" ")[0] for row in table.rows))

    def each(images: str, column: str) -> str:
        return listed([f"{name} {_shown(cell[f'{name} {images}', column])}" for name in names])

    sentences = [
        f"Grouping loss under corruption. {BOUND} in distribution: {each(CLEAN, BOUND)}; merged:"
        f" {each(MERGED, BOUND)}. It rises: {verdicts(table.claims, RISES)}.",
        f"After isotonic regression. {AFTER}, merged: {each(MERGED, AFTER)}. More than half stays:"
        f" {verdicts(table.claims, STAYS)}. The calibration loss falls:"
        f" {verdicts(table.claims, RECALIBRATES)}.",
        _changes([row for row in table.rows if row.column == CHANGE]),
    ]
    if "shifts" in found:
        claims = found["shifts"].claims
        sentences.append(
            f"Appendix D. Little grouping loss in distribution: {verdicts(claims, LITTLE_THERE)}."
            f" One corruption gives more than several merged: {verdicts(claims, ONE_IS_MORE)}."
        )
    if "figure-13" in found:
        groups = found["figure-13"]
        bounds = [row for row in groups.rows if row.column == "bound by corruption"]
        sentences.append(
            "Figure 13. Corruptions as regions reveal grouping loss:"
            f" {verdicts(groups.claims, BY_GROUP)}. Their bound:"
            f" {listed([f'{row.row} {_shown(row)}' for row in bounds])}."
        )
    return sentences


def _changes(rows: Sequence[Row]) -> str:
    """Where isotonic regression changes the bound."""
    higher = [row.row for row in rows if row.low > 0]
    lower = [row.row for row in rows if row.high < 0]
    words = (
        f"Isotonic regression changes it significantly on {len(higher) + len(lower)} of {len(rows)}"
    )
    words += f"; higher: {listed(higher)}" if higher else ""
    words += f"; lower: {listed(lower)}" if lower else ""
    return f"{words}. Only an invertible map leaves the grouping loss unchanged (Lemma C.5)."


def _shown(row: Row) -> str:
    return f"{number(row.ours)} ({number(row.low)} to {number(row.high)})"


def _figure_of_worlds(figure: int, lead: str) -> Part:
    name, title = f"figure-{figure}", f"Figure {figure}"
    quick, full = {"n": 20_000, "resamples": 100}, {"n": 1_000_000, "resamples": 200}
    experiment = Experiment(
        name, title, worlds, quick | {"figure": figure}, full | {"figure": figure}
    )
    return Part(name, f"{title}: {lead}", WORLD_LEADS[figure], (experiment,))


WORLD_LEADS = {
    9: "Scores with an arbitrary link to the true probability, which is h(s) on one side and 2s −"
    " h(s) on the other: h(s) = 2s − s² (left) and min(1, 2s) (right).",
    10: "The link keeps decisions. Left: h(s) = 1/2 where possible. Right: the true probability is"
    " 1/2 on one side and 0 or 1 on the other; the sides have uneven weights, which keep scores"
    " calibrated.",
    11: "A sigmoid of w'x, and heterogeneity orthogonal to w: smooth, or a step.",
    12: "The same, limited so that decisions do not change.",
}
PAPER = Paper(
    1,
    "grouping loss",
    "Perez-Lebel, Le Morvan & Varoquaux 2023, Beyond calibration: estimating the grouping loss of"
    " modern neural networks",
    (
        Part(
            "figure-4",
            "Figure 4: estimates of a known grouping loss",
            "Means over samples of 10,000 rows. Claims are in units of the true grouping loss,"
            f" {TRUTH:.5f}; the numbers of the table are in percent of it.",
            (
                Experiment(
                    "figure-4",
                    "Figure 4",
                    figure_4,
                    {"trials": 8, "ratios": [6, 12, 30, 60, 100], "bins": [2, 5, 15, 30]},
                    {
                        "trials": 100,
                        "ratios": [4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100],
                        "bins": [1, 2, 3, 4, 5, 7, 10, 12, 15, 20, 25, 30],
                    },
                ),
            ),
        ),
        Part(
            "figure-4-code",
            "Figure 4: numbers of the authors' code",
            "The figure prints no numbers; those shown are of the authors' code, for its first"
            " three samples.",
            (
                Experiment(
                    "figure-4-code",
                    "Figure 4, numbers of the code",
                    published_numbers,
                    {"cases": PUBLISHED},
                    {"cases": PUBLISHED},
                ),
            ),
            beside="columns",
        ),
        _figure_of_worlds(9, "calibrated but not accurate"),
        _figure_of_worlds(10, "calibrated, with optimal accuracy"),
        _figure_of_worlds(11, "a network's output, calibrated but not accurate"),
        _figure_of_worlds(12, "a network's output, calibrated, with optimal accuracy"),
        Part(
            "table-1",
            "Table 1 and Figures 7 and 14: networks on Fashion-MNIST",
            "CL calibration loss, GL_LB lower bound of the grouping loss; with a prime, after"
            " isotonic regression; change is GL′_LB − GL_LB. Accuracy in percent. In brackets, the"
            " printed numbers of the"
            " paper's nearest network on ImageNet (Table 2): AlexNet beside LeNet, ResNet-18 beside"
            " ResNet." + PROTOCOL,
            (Experiment("table-1", "Table 1", table_1, QUICK, FULL, trains=True),),
        ),
        Part(
            "shifts",
            "Appendix D: in distribution, one corruption, several",
            "On ImageNet-1K the paper finds little grouping loss (at most 0.003), and more on"
            " snow alone than on merged corruptions.",
            (Experiment("shifts", "Appendix D", shifts, QUICK, FULL, trains=True),),
        ),
        Part(
            "diagrams",
            "Figures 6 and 15 to 27: grouping diagrams",
            "Two regions of each bin, by a balanced stump or by k-means, before and after isotonic"
            " regression, and the bounds of these regions.",
            (
                Experiment(
                    "diagrams",
                    "Figures 6 and 16",
                    grouping_diagrams,
                    QUICK | DRAWN,
                    FULL | DRAWN,
                    trains=True,
                ),
            ),
        ),
        Part(
            "figure-13",
            "Figure 13: groups of images",
            "The renditions of ImageNet-R are corruptions here, in the merged images. Each number"
            " is the accuracy of a group minus that of all images with the same confidence.",
            (Experiment("figure-13", "Figure 13", figure_13, QUICK, FULL, trains=True),),
        ),
    ),
    findings,
    (
        "Tables 1 and 2 and Figures 6, 7 and 13 to 27 with the paper's own numbers: pretrained"
        " networks on ImageNet-R, ImageNet-C and ImageNet-1K. The protocol is the same here, on"
        " networks trained on Fashion-MNIST.",
        "Figure 8 and Table 1b: BART on Yahoo Answers Topics.",
        "Figures 1, 2, 3 and 5 have no data.",
    ),
)
