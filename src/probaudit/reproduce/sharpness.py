"""Paper 5: Chidambaram & Ge 2024, Reassessing how to compare and improve the calibration of machine
learning models."""

from __future__ import annotations

from ..text import number
from .outcome import Outcome
from .papers import Experiment, Outcomes, Paper, Part
from .sharpness_figures import diagrams
from .sharpness_tables import ERRORS_COST, kernels, table, trained_table
from .summaries import verdicts

# Networks of each table: name and file.
TABLES = {
    "Table 1": (("ViT", "imagenet_vit_base"),),
    "Table 5": (
        ("ResNet-32", "cifar10_resnet32"),
        ("ResNet-20", "ferrer_cifar10_resnet20"),
        ("RepVGG-A2", "ferrer_cifar10_repvgg_a2"),
        ("VGG16", "kumar_cifar10_vgg16"),
        ("WideResNet-16-4", "netcal_wideresnet_16_4_cifar_10"),
        ("LeNet-5", "netcal_lenet_5_cifar_10"),
    ),
    "Table 6": (
        ("ResNet-32", "cifar100_resnet32"),
        ("ResNet-20", "ferrer_cifar100_resnet20"),
        ("DenseNet-BC-100", "netcal_densenet_bc_100_cifar_100"),
        ("LeNet-5", "netcal_lenet_5_cifar_100"),
    ),
    "": (
        ("Fashion-MNIST CNN", "fashion_cnn_test"),
        ("digits MLP", "own_digits_mlp_test"),
        ("Spambase MLP", "own_spambase_mlp_test"),
        ("PneumoniaMNIST ResNet-50", "ferrer_pneumoniamnist_resnet50"),
        ("AdrenalMNIST ResNet-50", "ferrer_adrenalmnist_resnet50"),
        ("IEMOCAP wav2vec2", "ferrer_iemocap_wav2vec_pt"),
        ("AG News GPT-2", "ferrer_agnews_gpt2"),
        ("SST2 GPT-2", "ferrer_sst2_gpt2"),
    ),
}
# Networks beside which the printed numbers stand: those of the paper, and the nearest one.
BESIDE = ("ViT", "ResNet-32", "ResNet-20")
SETS = {"Table 1": "ImageNet", "Table 5": "CIFAR-10", "Table 6": "CIFAR-100", "": ""}
DRAWN = (
    ("CIFAR-10 ResNet-20", "ferrer_cifar10_resnet20"),
    ("CIFAR-100 ResNet-20", "ferrer_cifar100_resnet20"),
)
# Title, network, rows and epochs.
TRAINED = (
    ("MLP", "mlp", 5000, 60),
    ("LeNet", "lenet", 20_000, 5),
    ("residual network", "residual", 20_000, 5),
)
KERNELS = [
    *(["gaussian", width] for width in (0.01, 0.03, 0.05, 0.1, 0.25)),
    *(["epanechnikov", width] for width in (0.03, 0.05)),
]
SHARE = {"share": 0.2}


def _tables(part: str) -> tuple[Experiment, ...]:
    found = []
    for network, file in TABLES[part]:
        name = f"{SETS[part]} {network}".strip()
        settings = {"name": name, "part": part if network in BESIDE else ""} | SHARE
        found.append(
            Experiment(
                f"table-{file}",
                f"{part or 'Other networks'}, {name}",
                table,
                settings | {"resamples": 200},
                settings | {"resamples": 1000},
                files=(file,),
            )
        )
    return tuple(found)


def _trained() -> tuple[Experiment, ...]:
    """Networks trained on Fashion-MNIST, with those of papers 1, 3 and 4 in the full run."""
    found = []
    for title, network, rows, epochs in TRAINED:
        name = f"Fashion-MNIST {title}"
        settings = {"name": name, "network": network} | SHARE
        found.append(
            Experiment(
                f"table-trained-{network}",
                f"Networks trained here, {name}",
                trained_table,
                settings | {"rows": 3000, "epochs": 4, "resamples": 200},
                settings | {"rows": rows, "epochs": epochs, "resamples": 1000},
                trains=True,
            )
        )
    return tuple(found)


def findings(found: Outcomes) -> list[str]:
    tables = {name: one for name, one in found.items() if name.startswith("table-")}
    claims = [claim for one in tables.values() for claim in one.claims]
    sentences = []
    if claims:
        sentences += [
            f"Mean replacement against the original network, {len(tables)} networks, paired 95%"
            f" intervals. ECE falls: {verdicts(claims, 'ECE falls')}. ACE falls:"
            f" {verdicts(claims, 'ACE falls')}.",
            f"Log loss rises: {verdicts(claims, 'log loss rises')}. Brier score rises:"
            f" {verdicts(claims, 'Brier score rises')}.",
            "Against temperature scaling, its log loss is higher: "
            + verdicts(claims, "log loss is above that of temperature scaling")
            + "; its Brier score is higher: "
            + verdicts(claims, "Brier score is above that of temperature scaling")
            + ".",
            *_errors_cost_less(tables),
            "Intervals of ACE are wide: a bin of a few rows counts as much as all others.",
        ]
    for part, network in (("Table 5", DRAWN[0][1]), ("Table 6", DRAWN[1][1])):
        outcome = tables.get(f"table-{network}")
        if outcome is not None:
            sentences.append(_beside(part, outcome))
    kernel = [c for name, one in found.items() if name.startswith("kernels-") for c in one.claims]
    if kernel:
        held = sum(claim.holds is True for claim in kernel)
        failed = sum(claim.holds is False for claim in kernel)
        sentences.append(
            f"Appendix H: both kernels rank the five methods alike in {held} of {len(kernel)}"
            f" cases; a significant change of places occurs in {failed}."
        )
    return sentences


def _errors_cost_less(tables: Outcomes) -> list[str]:
    """Why the log loss falls on some networks: what a wrong prediction costs. And on which networks
    this explains nothing."""
    falls, rises = [], []
    for outcome in tables.values():
        claim = next(one for one in outcome.claims if one.statement.endswith("log loss rises"))
        cost = {row.row: row.ours / 100 for row in outcome.rows if row.column == ERRORS_COST}
        name = claim.statement.rpartition(": ")[0]
        before, after = cost[f"{name}, baseline"], cost[f"{name}, MRR"]
        words = f"{name} {number(before, 2)} and {number(after, 2)}"
        if claim.holds is False:
            falls.append(words)
        elif after < before:
            rises.append(words)
    if not falls:
        return []
    also = f": errors also cost less on {'; '.join(rises)}, where it does not fall" if rises else ""
    return [
        "Where the log loss falls, wrong predictions of the original network cost more than those"
        f" of mean replacement (mean log loss of the misclassified rows): {'; '.join(falls)}. With"
        " two classes, mean replacement gives all of 1 − accuracy to the other class. This"
        f" explanation was sought after the result was seen, and it is not the whole one{also}."
    ]


def _beside(part: str, outcome: Outcome) -> str:
    """The errors of our network beside those of the paper's."""
    ours = {(row.row.rpartition(", ")[2], row.column): row for row in outcome.rows}
    shown = "; ".join(
        f"{column} {number(ours['baseline', column].ours, 2)}, with mean replacement"
        f" {number(ours['MRR', column].ours, 2)} (printed"
        f" {number(ours['baseline', column].printed, 2)} and"
        f" {number(ours['MRR', column].printed, 2)})"
        for column in ("ECE", "ACE", "NLL", "Brier")
    )
    return f"{part}: ResNet-20 here, ResNet-32 in the paper. {shown}."


FORM = (
    "All numbers x 100, with 20% of the rows for calibration. In brackets, the printed numbers of"
)
NEAR = f"{FORM} ResNet-32, beside our nearest network."
PAPER = Paper(
    5,
    "calibration and sharpness",
    "Chidambaram & Ge 2024, Reassessing how to compare and improve the calibration of machine"
    " learning models",
    (
        Part("table-1", "Table 1: ImageNet", f"{FORM} ViT.", _tables("Table 1"), "columns"),
        Part("table-5", "Table 5: CIFAR-10", NEAR, _tables("Table 5"), "columns"),
        Part("table-6", "Table 6: CIFAR-100", NEAR, _tables("Table 6"), "columns"),
        Part(
            "other-networks",
            "The form of Table 1 on other networks",
            "All numbers x 100, with 20% of the rows for calibration.",
            _tables(""),
        ),
        Part(
            "trained-networks",
            "The form of Table 1 on networks trained here",
            "All numbers x 100, with 20% of the rows for calibration.",
            _trained(),
        ),
        Part(
            "diagrams",
            "Figures 1, 2, 6 and 7: calibration-sharpness diagrams",
            "Mean replacement and histogram binning have few confidences and wide bands.",
            tuple(
                Experiment(
                    f"diagrams-{file}",
                    f"Figures 1 and 2, {name}",
                    diagrams,
                    {"name": name, "resamples": 200} | SHARE,
                    {"name": name, "resamples": 1000} | SHARE,
                    files=(file,),
                )
                for name, file in DRAWN
            ),
        ),
        Part(
            "kernels",
            "Appendix H: kernels and bandwidths",
            "The calibration error by kernel regression (CAL x 100) of each method.",
            tuple(
                Experiment(
                    f"kernels-{file}",
                    f"Appendix H, {name}",
                    kernels,
                    {"name": name, "choices": KERNELS, "resamples": 20} | SHARE,
                    {"name": name, "choices": KERNELS, "resamples": 200} | SHARE,
                    files=(file,),
                )
                for name, file in DRAWN
            ),
        ),
    ),
    findings,
    (
        "Tables 2 to 4: ImageNet outputs of ResNet-50, EfficientNet-B3 and ConvNeXt. Table 1 shows"
        " the form.",
        "Figure 8, the SmoothECE visualisation, is a diagram of another paper.",
    ),
)
