"""Paper 3: Kirchenbauer, Oaks & Heim 2022, What is your metric telling you? Evaluating classifier
calibration under context-specific definitions of reliability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..text import capitalised, listed, number
from .generalised_ece_files import SUPERCLASS, cifar_100
from .generalised_ece_granularity import granularity, granularity_of_network
from .generalised_ece_intervals import interval_wise
from .generalised_ece_lenses import (
    CORRELATION,
    GROUPS,
    HIGHEST,
    LOWEST,
    NOISE,
    OPPOSITE,
    USUAL,
    groups,
    histogram_bins,
    indicator,
    top_k,
)
from .generalised_ece_trials import BASE
from .outcome import Outcome, Row
from .papers import Experiment, Outcomes, Paper, Part
from .summaries import verdicts

# Settings of the quick and of the full run. The second network is another one in the quick run.
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "first": (
        {"name": "MLP", "network": "mlp", "rows": 3000, "epochs": 4, "seeds": 3},
        {"name": "MLP", "network": "mlp", "rows": 5000, "epochs": 60, "seeds": 5},
    ),
    "second": (
        {"name": "overfitted MLP", "network": "mlp", "rows": 300, "epochs": 20, "seeds": 2},
        {
            "name": "residual network",
            "network": "residual",
            "rows": 20_000,
            "epochs": 5,
            "seeds": 5,
        },
    ),
}
SWEPT = {"finest": 8, "swept": [2, 4, 6]}
QUICK_SWEPT = SWEPT | {"fractions": [0.1, 1.0], "resamples": 20}
FULL_SWEPT = SWEPT | {"fractions": [k / 10 for k in range(1, 11)], "resamples": 1000}
CIFAR_100 = (
    ("CIFAR-100 ResNet-20", "ferrer_cifar100_resnet20"),
    ("CIFAR-100 DenseNet-BC-100", "netcal_densenet_bc_100_cifar_100"),
)
CIFAR = (("CIFAR-10 ResNet-20", "ferrer_cifar10_resnet20"), CIFAR_100[0])


def _trained(
    name: str, title: str, run: Callable[..., Outcome], *networks: str
) -> tuple[Experiment, ...]:
    return tuple(
        Experiment(f"{name}-{one}", f"{title}, {one} network", run, *NETWORKS[one], trains=True)
        for one in networks
    )


def _granularity() -> Iterator[Experiment]:
    quick, full = (
        {key: value for key, value in settings.items() if key != "seeds"}
        for settings in NETWORKS["first"]
    )
    yield Experiment(
        "granularity-first",
        "Figures 7 to 9, first network",
        granularity_of_network,
        quick | QUICK_SWEPT,
        full | FULL_SWEPT,
        trains=True,
    )
    for name, file in CIFAR:
        named = {"name": name}
        yield Experiment(
            f"granularity-{file}",
            f"Figures 7 to 9, {name}",
            granularity,
            named | QUICK_SWEPT,
            named | FULL_SWEPT,
            files=(file,),
        )


def findings(found: Outcomes) -> list[str]:
    kinds = {
        "top-k-": _top_k,
        "histogram-binning": _histogram_bins,
        "indicator-": _indicator,
        "groups-": _groups,
        "intervals-": _intervals,
        "granularity-": _cell_sizes,
        "files-": _cifar,
    }
    return [
        sentence
        for start, words in kinds.items()
        for name, outcome in found.items()
        if name.startswith(start)
        for sentence in words(outcome)
    ]


def _network(outcome: Outcome) -> str:
    return outcome.claims[0].statement.partition(": ")[0].partition(", ")[0]


def _cells(outcome: Outcome) -> dict[tuple[str, str], Row]:
    """The rows by method (or quantity) and column."""
    return {(row.row.partition(", ")[2], row.column): row for row in outcome.rows}


def _listed(cells: Mapping[tuple[str, str], Row], column: str, decimals: int = 3) -> str:
    """The numbers of a column by method."""
    return ", ".join(
        f"{method} {number(row.ours, decimals)}"
        for (method, its), row in cells.items()
        if its == column
    )


def _kept(outcome: Outcome) -> str:
    """Of each kind of claim, on how many methods it holds."""
    endings = dict.fromkeys(claim.statement.partition(": ")[2] for claim in outcome.claims)
    words = [f"{capitalised(one)}: {verdicts(outcome.claims, one)}." for one in endings]
    return " ".join(words).replace(f"{_network(outcome)}, ", "")


def _top_k(outcome: Outcome) -> list[str]:
    cells = _cells(outcome)
    errors = "; ".join(f"{one}: {_listed(cells, one)}" for one in (USUAL, "top-5 ECE", "full ECE"))
    return [
        f"{capitalised(_network(outcome))}, interventions against the base. {_kept(outcome)}",
        f"{capitalised(_network(outcome))}, means over trials. {capitalised(errors)}. With the"
        " outputs of TS, a calibrated model is expected to have a full ECE of"
        f" {number(cells['TS', f'full ECE {NOISE}'].ours, 3)} from sampling noise.",
    ]


def _histogram_bins(outcome: Outcome) -> list[str]:
    errors = _listed(_cells(outcome), "top-5 ECE")
    return [f"Histogram binning depends on its bins. Top-5 ECE: {errors}."]


def _indicator(outcome: Outcome) -> list[str]:
    cells = _cells(outcome)
    found = "; ".join(
        f"{quantity} {number(row.ours, 2)} ({number(row.low, 2)} to {number(row.high, 2)}; without"
        f" one method {number(cells[quantity, LOWEST].ours, 2)} to"
        f" {number(cells[quantity, HIGHEST].ours, 2)})"
        for (quantity, column), row in cells.items()
        if column == CORRELATION
    )
    opposite = [
        f"{quantity} {row.ours:.0f}"
        for (quantity, column), row in cells.items()
        if column == OPPOSITE and row.ours
    ]
    return [
        f"{capitalised(_network(outcome))}: does the {USUAL} predict the others? Rank correlation"
        f" over the methods, with 95% interval over trials: {found}. {_kept(outcome)} Pairs of"
        " methods that both errors put into opposite orders, significantly, of 21:"
        f" {listed(opposite) or 'none'}."
    ]


def _groups(outcome: Outcome) -> list[str]:
    cells = _cells(outcome)
    hardest = max(GROUPS, key=lambda group: cells[BASE, f"ECE given {group}"].ours)
    own, expected = f"ECE given {hardest}", f"{hardest}, expected"
    return [
        f"Groups, interventions against the base. {_kept(outcome)}",
        "If rows are selected by their label, all their labels are the same. Their error is 1 less"
        " the mean confidence in the group of the label, whatever the cells. A calibrated model has"
        " such an error too, and a method that lowers confidence raises it. "
        f"{own}: {_listed(cells, own)}; expected if calibrated: {_listed(cells, expected)}.",
    ]


def _intervals(outcome: Outcome) -> list[str]:
    cells = _cells(outcome)
    medium = "medium, outside"
    return [
        f"Intervals of the output, interventions against the base. {_kept(outcome)}",
        f"The paper has no error outside the medium interval. Ours: {_listed(cells, medium)};"
        f" expected if calibrated: {_listed(cells, f'{medium} {NOISE}')}. Cells of a few rows"
        " have observed rates outside their interval by noise.",
    ]


def _cell_sizes(outcome: Outcome) -> list[str]:
    held = {True: "holds", False: "does not hold", None: "undecided"}
    words = [
        f"{capitalised(claim.statement.partition(': ')[2])}: {claim.measured}, {held[claim.holds]}."
        for claim in outcome.claims
    ]
    return [" ".join([*outcome.notes, *words])]


def _cifar(outcome: Outcome) -> list[str]:
    cells = _cells(outcome)
    errors = "; ".join(
        f"{one}: {_listed(cells, one)}" for one in (USUAL, "top-5 ECE", "full ECE", SUPERCLASS)
    )
    return [
        f"{_network(outcome)}, post hoc methods against the base. {_kept(outcome)}"
        f" {capitalised(errors)}. The last number of each list is expected from sampling noise"
        " alone."
    ]


PAPER = Paper(
    3,
    "generalised ECE",
    "Kirchenbauer, Oaks & Heim 2022, What is your metric telling you? Evaluating classifier"
    " calibration under context-specific definitions of reliability",
    (
        Part(
            "top-k",
            "Figures 1, 2, 10 and 11: top-k errors, confidences and entropy",
            "Networks trained here on Fashion-MNIST; the printed accuracies are of ResNet50 on"
            " ETHEC. TS is temperature scaling, BCTS the same with biases, HB histogram binning."
            " The usual ECE is that of the top label in 15 bins (the paper's Traditional ECE);"
            " others are total variation in cells of a k-d tree, gamma 1/16.",
            _trained("top-k", "Figures 1 and 2", top_k, *NETWORKS),
        ),
        Part(
            "histogram-binning",
            "Histogram binning: kinds and numbers of bins",
            "HB above has 15 bins of equal width. The paper names neither kind nor number.",
            (
                Experiment(
                    "histogram-binning",
                    "Histogram binning, first network",
                    histogram_bins,
                    NETWORKS["first"][0] | {"bins": [15]},
                    NETWORKS["first"][1] | {"bins": [10, 15, 30]},
                    trains=True,
                ),
            ),
        ),
        Part(
            "indicator",
            "Does the usual ECE predict the others?",
            "Spearman's rank correlation of the usual ECE with each other error, over seven methods"
            " in each trial. Intervals are over trials. The range without one method shows how much"
            " depends on the choice of methods.",
            _trained("indicator", "Section 5", indicator, *NETWORKS),
        ),
        Part(
            "groups",
            "Figures 3, 4, 12 and 29: groups of classes, selected by label",
            "Six groups of the classes of Fashion-MNIST: " + listed(list(GROUPS)) + ".",
            _trained("groups", "Figures 3 and 4", groups, "first"),
        ),
        Part(
            "intervals",
            "Figures 5, 6 and 13: intervals of the output",
            "Two classes: coats and shirts against the rest. Printed accuracies are of ResNet50 on"
            " CrisisMMD.",
            _trained("intervals", "Figures 5 and 6", interval_wise, "first"),
        ),
        Part(
            "granularity",
            "Figures 7, 8 and 9: size of the cells and number of rows",
            "Errors from coarse to fine cells, and their standard deviation in resamples of n of N"
            " rows.",
            tuple(_granularity()),
        ),
        Part(
            "files",
            "Figure 14: CIFAR-100, with the groups of its superclasses",
            "Post hoc methods, fitted to one half of the test set and evaluated on the other."
            " Printed accuracies are of ResNet50, Table 1.",
            tuple(
                Experiment(
                    f"files-{file}",
                    f"Figure 14, {name}",
                    cifar_100,
                    {"name": name, "resamples": 20},
                    {"name": name, "resamples": 300},
                    files=(file,),
                )
                for name, file in CIFAR_100
            ),
        ),
    ),
    findings,
    (
        "ImageNet, ETHEC, CBIS-DDSM, CrisisMMD and COVIDx-CXR2, and networks trained on them. The"
        " figures print no numbers; only accuracies can stand beside ours.",
        "The paper tunes the strength of label smoothing, mix-up and focal loss to the usual ECE."
        " Here they have their usual strengths.",
    ),
)
