"""Paper 2: Ferrer & Ramos 2025, Evaluating posterior probabilities: decision theory, proper scoring
rules, and calibration."""

from __future__ import annotations

from functools import partial

from ..text import number
from .papers import Experiment, Outcomes, Paper, Part
from .proper_scores_intervals import figure_8, figure_8_by_group
from .proper_scores_real import SETS, better_though_miscalibrated, table_2
from .proper_scores_simulated import (
    figure_1,
    figure_4,
    figure_7,
    system_errors,
    system_scores,
    table_1,
)
from .summaries import agreement, rows_of

CODE = " The figure prints no numbers; those shown are of the authors' code."
TWO = {"n": 400, "classes": 2, "variance": 0.15}
TEN = {"n": 2000, "classes": 10, "variance": 0.08}
RIGHT_5 = {"metrics": ["RCL-BS-Dxv", "RCL-BS-Hxv", "RCL-BS-Dtt", "RCL-BS-Htt"]}
RIGHT_6 = {"metrics": ["RCL-CE-Dxv", "RCL-CE-Txv", "RCL-BS-Dxv", "RCL-BS-Txv"]}
FEW, ALL = {"sizes": [200, 2000]}, {"sizes": [200, 2000, 20_000]}
AS_PRINTED, BY_CAPTION = {"by_caption": False}, {"by_caption": True}
TABLE_2 = tuple(
    Experiment(
        f"table-2-{name.lower().replace(' ', '-')}",
        f"Table 2, {name}",
        table_2,
        {"name": name, "one": one},
        {"name": name, "one": one},
        files=(file,),
    )
    for name, file, one in SETS
)


def findings(found: Outcomes) -> list[str]:
    simulated = [one for name, one in found.items() if name.startswith(("figure-4", "figure-5"))]
    simulated += [one for name, one in found.items() if name.startswith("figure-6")]
    table = rows_of([found["table-1"]])
    sentences = [
        "Figures 4 to 6: the samples and the folds of the paper are regenerated from the"
        f" seed of the authors' code. Numbers of that code: {agreement(rows_of(simulated))}. What"
        " remains is the precision of the optimisers.",
        f"Table 1: {sum(bool(row.agrees) for row in table)} of {len(table)} rounded numbers are the"
        " printed integers.",
        "Table 1, column T: by the formula of the caption, T trained on the test rows is 0 (largest"
        f" value {number(found['table-1-caption'].claims[0].value)}), where the paper prints 28 or"
        " 29 for mcp and mcps. The best temperature makes the semi-empirical cross-entropy equal to"
        " the empirical one. The printed numbers appear only if each is divided by the entropy of"
        " its own mean, as in the authors' code.",
        "Figure 1: the authors' notebook draws half of the Brier loss of Eq. 9.",
    ]
    real = [one for name, one in found.items() if name.startswith("table-2")]
    if rows_of(real):
        parts = {
            "NCE": (rows_of(real, "NCE"), 4),
            "RCL in percent": (rows_of(real, "RCL"), 2),
            "ECE and ECEmc in percent": (rows_of(real, "ECE", "ECEmc"), 2),
            "normalised risks": (rows_of(real, "NRisk-01", "NRisk-01r", "NRisk-imb"), 4),
        }
        words = "; ".join(f"{name}: {agreement(*rows)}" for name, rows in parts.items())
        sentences.append(f"Table 2. {words}.")
    return sentences


PAPER = Paper(
    2,
    "proper scores and calibration loss",
    "Ferrer & Ramos 2025, Evaluating posterior probabilities",
    (
        Part(
            "figure-1",
            "Figure 1: three proper scoring rules",
            "A cost matrix, the log loss and the Brier loss against the probability.",
            (Experiment("figure-1", "Figure 1", figure_1, {"points": 199}, {"points": 199}),),
        ),
        Part(
            "figure-4",
            "Figure 4: scores as integrals of Bayes risks",
            "Four systems; the area below a curve is the log loss (left) or the Brier score."
            + CODE,
            (Experiment("figure-4", "Figure 4", figure_4, {"n": 100_000}, {"n": 100_000}),),
            beside="columns",
        ),
        Part(
            "figure-5-left",
            "Figure 5, left: scores of a two-class problem",
            "Normalised scores of a calibrated system and of three miscalibrated ones." + CODE,
            (
                Experiment(
                    "figure-5-left",
                    "Figure 5, left",
                    partial(system_scores, "Figure 5"),
                    TWO,
                    TWO,
                ),
            ),
            beside="series",
        ),
        Part(
            "figure-5-right",
            "Figure 5, right: calibration metrics of a two-class problem",
            "In percent. D direction-preserving calibration, H histogram binning, xv"
            " cross-validated, tt trained on the test rows." + CODE,
            (
                Experiment(
                    "figure-5-right",
                    "Figure 5, right",
                    partial(system_errors, "Figure 5"),
                    TWO | RIGHT_5,
                    TWO | RIGHT_5,
                ),
            ),
            beside="series",
        ),
        Part(
            "figure-6-left",
            "Figure 6, left: scores of a ten-class problem",
            "As Figure 5, left." + CODE,
            (
                Experiment(
                    "figure-6-left",
                    "Figure 6, left",
                    partial(system_scores, "Figure 6"),
                    TEN,
                    TEN,
                ),
            ),
            beside="series",
        ),
        Part(
            "figure-6-right",
            "Figure 6, right: calibration metrics of a ten-class problem",
            "In percent. T is temperature scaling, which cannot correct wrong priors (mcp)." + CODE,
            (
                Experiment(
                    "figure-6-right",
                    "Figure 6, right",
                    partial(system_errors, "Figure 6"),
                    TEN | RIGHT_6,
                    TEN | RIGHT_6,
                ),
            ),
            beside="series",
        ),
        Part(
            "table-1",
            "Table 1: the reference distribution",
            "Difference between the empirical and the semi-empirical cross-entropy, in percent of"
            " the former.",
            (Experiment("table-1", "Table 1", table_1, FEW | AS_PRINTED, ALL | AS_PRINTED),),
        ),
        Part(
            "table-1-caption",
            "Table 1 by the formula of its caption",
            "The same without the normalisers of the authors' code. The printed numbers are those"
            " of the paper, with normalisers.",
            (
                Experiment(
                    "table-1-caption",
                    "Table 1 by its caption",
                    table_1,
                    FEW | BY_CAPTION,
                    ALL | BY_CAPTION,
                ),
            ),
        ),
        Part(
            "table-2",
            "Table 2: real systems",
            "Normalised risks and cross-entropy (NCE); relative calibration loss (RCL), ECE and"
            " ECEmc in percent. Posteriors: raw, calibrated by temperature scaling (calt), by"
            " direction-preserving calibration (cal) and by pool adjacent violators (calp).",
            (
                *TABLE_2,
                Experiment(
                    "table-2-better-though-miscalibrated",
                    "Table 2, two systems on CIFAR10",
                    better_though_miscalibrated,
                    files=("ferrer_cifar10_resnet20", "ferrer_cifar10_repvgg_a2"),
                ),
            ),
            beside="columns",
        ),
        Part(
            "figure-7",
            "Figure 7: the absolute distance is no score divergence",
            "A score divergence is least at the mean posterior.",
            (Experiment("figure-7", "Figure 7", figure_7, {"points": 199}, {"points": 199}),),
        ),
        Part(
            "figure-8-left",
            "Figure 8, left: bootstrap intervals of the Brier score",
            "The normalised Brier scores of Figure 5, with 95% intervals." + CODE,
            (
                Experiment(
                    "figure-8-left",
                    "Figure 8, left",
                    figure_8,
                    {"n": 400, "metrics": ["NBS"], "resamples": 100},
                    {"n": 400, "metrics": ["NBS"], "resamples": 1000},
                ),
            ),
            beside="series",
        ),
        Part(
            "figure-8-right",
            "Figure 8, right: bootstrap intervals of calibration losses",
            "The relative calibration losses of Figure 5, in percent, with 95% intervals." + CODE,
            (
                Experiment(
                    "figure-8-right",
                    "Figure 8, right",
                    figure_8,
                    {"n": 400, **RIGHT_5, "resamples": 20},
                    {"n": 400, **RIGHT_5, "resamples": 500},
                ),
            ),
            beside="series",
        ),
        Part(
            "figure-8-by-group",
            "Figure 8 by group",
            "The same intervals if rows are dependent.",
            (
                Experiment(
                    "figure-8-by-group",
                    "Figure 8 by group",
                    figure_8_by_group,
                    {"n": 400, "copies": 4, "resamples": 20},
                    {"n": 400, "copies": 4, "resamples": 200},
                ),
            ),
        ),
    ),
    findings,
    (
        "Of Table 2, rows calibrated by histogram binning (in the authors' notebook only): their"
        " folds were drawn without a seed.",
        "Figures 2 and 3 have no data.",
    ),
)
