"""Kirchenbauer et al. 2022, Sections 5.1 and 5.2 on networks trained here: top-k errors, errors of
groups of classes, and whether the usual ECE predicts them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ..calibration.errors import calibration_error
from ..calibration.significance import calibration_test
from ..calibrators.binning import HistogramBinning
from ..choices.lenses import Classwise, Full, Groups, Lens, TopK, TopLabel
from ..choices.partitions import EqualWidth, KDTree, Partition
from ..choices.selections import LabelIs
from ..estimate import Estimate
from ..scoring.entropy import row_entropies
from ..text import listed
from .generalised_ece_figures import AgainstUsual, BarsByMethod
from .generalised_ece_trials import BASE, METHODS, Measured, Trial, over_trials, trials
from .outcome import Claim, Outcome, Row
from .trained import Networks

USUAL = "usual ECE"  # the "Traditional ECE" of the paper
TREE = KDTree(2.0**-4)  # Appendix B.2
KS = (1, 2, 3, 5)
INTERVENTIONS = METHODS[1:]
# Groups of the classes of Fashion-MNIST, from coarse to fine.
COARSE = {"garments": (0, 1, 2, 3, 4, 6), "footwear": (5, 7, 9), "bags": (8,)}
GROUPS = {
    "tops": (0, 2, 6),
    "coats": (4,),
    "dresses": (3,),
    "trousers": (1,),
    "footwear": (5, 7, 9),
    "bags": (8,),
}
# A rank correlation above this explains at least half of the variance of the ranks.
STRONG = 0.7
NOISE = "if calibrated"
NULL_RESAMPLES = 100  # of calibrated models, for the mean of their errors
CORRELATION = "rank correlation"
LOWEST, HIGHEST = "without one method, lowest", "without one method, highest"
OPPOSITE = "opposite pairs"
BY_CELLS = "other cells change an ECE given a label (gamma 1/16 against 1/2)"
POOR = f"the {USUAL} is a poor indicator (rank correlation below {STRONG})"


def error(
    y: np.ndarray, p: np.ndarray, lens: Lens, where: Any = None, cells: Partition = TREE
) -> float:
    """The calibration error of the paper: total variation in the cells of a k-d tree."""
    return float(calibration_error(y, p, lens=lens, partition=cells, distance="tvd", where=where))


def usual_ece(y: np.ndarray, p: np.ndarray) -> float:
    """The top label in 15 bins of equal width."""
    return float(calibration_error(y, p, lens=TopLabel(), partition=EqualWidth(15)))


def accuracy(y: np.ndarray, p: np.ndarray) -> float:
    return float((p.argmax(axis=1) == y).mean())


def top_errors(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """The errors of Figure 1."""
    found = {f"top-{k} ECE": error(y, p, TopK(k) if k > 1 else TopLabel()) for k in KS}
    return {USUAL: usual_ece(y, p)} | found | {"full ECE": error(y, p, Full())}


def confidences(p: np.ndarray) -> dict[str, float]:
    """The mean of the k-th largest probability (Figure 2)."""
    falling = -np.sort(-p, axis=1)
    return {f"confidence {k}": float(falling[:, k - 1].mean()) for k in KS}


def top_k(networks: Networks, name: str, **training: Any) -> Outcome:
    """Figures 1, 2, 10 and 11: errors and confidences of the k most probable classes, top-k
    accuracy and output entropy."""

    def measure(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
        places = (np.argsort(-p, axis=1, kind="stable") == y[:, None]).argmax(axis=1)
        return (
            {"accuracy": accuracy(y, p), "top-2 accuracy": float((places < 2).mean())}
            | top_errors(y, p)
            | {
                f"{USUAL} {NOISE}": noise(y, p, TopLabel(), EqualWidth(15)),
                f"top-5 ECE {NOISE}": noise(y, p, TopK(5)),
                f"full ECE {NOISE}": noise(y, p, Full()),
            }
            | confidences(p)
            | {"entropy": float(row_entropies(p).mean())}
        )

    found = Measured.of(trials(networks, **training), measure)
    figures = {
        "top-k": BarsByMethod.of(
            found,
            {one: one for one in found.quantities if one.endswith("ECE")},
            f"{name}: top-k calibration errors, as Figure 1",
            "calibration error",
        ),
        "confidence": BarsByMethod.of(
            found,
            {f"confidence {k}": f"k = {k}" for k in KS},
            f"{name}: mean k-th largest probability, as Figure 2",
            "change from the base model",
            change=True,
            without=(BASE,),
        ),
        "entropy": BarsByMethod.of(
            found, {"entropy": "all rows"}, f"{name}: output entropy, as Figure 11", "mean entropy"
        ),
    }
    rows = found.rows(name, "Table 4", "ETHEC")
    return Outcome(rows, tuple(_top_k_claims(name, found)), figures)


def histogram_bins(networks: Networks, name: str, bins: Sequence[int], **training: Any) -> Outcome:
    """The errors of Figure 1 for histogram binning with bins of equal width and of equal mass. The
    paper names neither the kind nor the number."""
    post_hoc = {
        f"HB, {count} of equal {equal}": partial(HistogramBinning, bins=count, equal=equal)
        for equal in ("width", "mass")
        for count in bins
    }
    each = [
        Trial(one.labels, {method: one.probs[method] for method in (BASE, *post_hoc)})
        for one in trials(networks, **training, post_hoc=post_hoc)
    ]
    return Outcome(
        Measured.of(each, lambda y, p: {"accuracy": accuracy(y, p)} | top_errors(y, p)).rows(name)
    )


def noise(y: np.ndarray, p: np.ndarray, lens: Lens, cells: Partition = TREE) -> float:
    """The mean error of a calibrated model with these outputs, from sampling noise."""
    options: dict[str, Any] = {"lens": lens, "partition": cells, "distance": "tvd"}
    return calibration_test(y, p, resamples=NULL_RESAMPLES, **options).null_mean


def _top_k_claims(name: str, found: Measured) -> list[Claim]:
    claims = []
    for method in INTERVENTIONS:
        usual = _beyond_noise(found, method, USUAL)
        changes: dict[str, tuple[str, Estimate, bool]] = {
            f"{USUAL} falls": ("Section 5.1", found.change(method, USUAL), False),
            "top-5 ECE falls": ("Appendix D.4.1", found.change(method, "top-5 ECE"), False),
            **{
                f"{other} beyond noise falls less, relative to the base": (
                    "Section 5.1",
                    over_trials(_beyond_noise(found, method, other) - usual),
                    True,
                )
                for other in ("top-5 ECE", "full ECE")
            },
            "largest probability falls": (
                "Section 5.1",
                found.change(method, "confidence 1"),
                False,
            ),
            "entropy rises": ("Figure 11", found.change(method, "entropy"), True),
        }
        claims += [
            (Claim.above if above else Claim.below)(
                0.0, f"{name}, {method}: {words}", source, change
            )
            for words, (source, change, above) in changes.items()
        ]
    return claims


def _beyond_noise(found: Measured, method: str, quantity: str) -> np.ndarray:
    """The error less that expected if calibrated, relative to the base, in each trial."""
    own, base = (found[m, quantity] - found[m, f"{quantity} {NOISE}"] for m in (method, BASE))
    return np.asarray(own / base)


def indicator(networks: Networks, name: str, **training: Any) -> Outcome:
    """Whether the usual ECE predicts the other errors: rank correlations over methods, and pairs of
    methods that the two put into opposite orders."""

    def measure(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
        lens = Groups(GROUPS)
        given = [error(y, p, lens, LabelIs(columns)) for columns in GROUPS.values()]
        return top_errors(y, p) | {
            "classwise ECE": error(y, p, Classwise()),
            "group ECE": error(y, p, lens),
            "group ECE given label": float(np.mean(given)),
        }

    found = Measured.of(trials(networks, **training), measure)
    others = [one for one in found.quantities if one != USUAL]
    correlation = {one: _correlations(found, one) for one in others}
    rows, claims, notes = [], [], []
    for other, values in correlation.items():
        row, mean, pairs = f"{name}, {other}", _correlation(values), opposite_pairs(found, other)
        left_out = [_correlations(found, other, without=m).mean() for m in found.methods]
        rows += [
            Row(row, CORRELATION, float(mean), low=mean.low, high=mean.high, decimals=2),
            Row(row, LOWEST, min(left_out), decimals=2),
            Row(row, HIGHEST, max(left_out), decimals=2),
            Row(row, OPPOSITE, float(len(pairs)), decimals=0),
        ]
        words = f"{row}: {POOR}"
        claims.append(Claim.below(STRONG, words, "Section 5", mean))
        if pairs:
            shown = listed([f"{a} against {b}" for a, b in pairs])
            notes.append(f"{row}: higher although the {USUAL} is lower, significantly: {shown}.")
    figure = AgainstUsual(found, name, USUAL, correlation)
    return Outcome(tuple(rows), tuple(claims), {"against": figure}, tuple(notes))


def _correlation(values: np.ndarray) -> Estimate:
    """The mean correlation of the trials, with an interval within [-1, 1]."""
    mean = over_trials(values)
    return Estimate(mean, low=max(-1.0, mean.low), high=min(1.0, mean.high), n=mean.n)


def _correlations(found: Measured, name: str, without: str = "") -> np.ndarray:
    """Spearman's rank correlation with the usual ECE over methods, in each trial."""
    kept = [method for method in found.methods if method != without]
    usual, other = (np.array([found[m, q] for m in kept]) for q in (USUAL, name))
    return np.array([spearmanr(a, b).statistic for a, b in zip(usual.T, other.T, strict=True)])


def opposite_pairs(found: Measured, name: str) -> list[tuple[str, str]]:
    """Pairs of methods, the one with the lower usual ECE first, that this error puts into the
    opposite order; both paired 95% intervals exclude 0."""
    pairs = []
    for a, b in combinations(found.methods, 2):
        usual, other = (over_trials(found[a, q] - found[b, q]) for q in (USUAL, name))
        if usual.high < 0 < other.low:
            pairs.append((a, b))
        if other.high < 0 < usual.low:
            pairs.append((b, a))
    return pairs


def groups(networks: Networks, name: str, **training: Any) -> Outcome:
    """Figures 3, 4, 12 and 29: errors of groups of classes, of all rows and of rows selected by
    their label, and mean confidences in each group.

    The labels of selected rows are all in the same group. Their mean is the same in each cell, and
    the total variation is 1 less the mean confidence in that group. So the error does not depend on
    cells. It is positive for calibrated models too: if labels are drawn from the forecasts g, its
    expected value is sum g (1 - g) / sum g.
    """
    each = trials(networks, **training)
    found = Measured.of(each, group_measures)
    hardest = max(GROUPS, key=lambda group: float(found.mean(BASE, f"ECE given {group}")))
    given = Measured.of(each, lambda y, p: _given(y, p, hardest))
    figures = {
        "groups": BarsByMethod.of(
            found,
            {USUAL: USUAL, "group ECE": "group ECE"}
            | {f"ECE given {group}": f"given {group}" for group in GROUPS},
            f"{name}: calibration errors of groups of classes, as Figure 3",
            "calibration error",
        ),
        "confidence": BarsByMethod.of(
            given,
            {f"{group} given {hardest}": group for group in GROUPS},
            f"{name}: mean confidence by group if the label is one of {hardest}, as Figure 4",
            "mean confidence",
        ),
    }
    rows = (*found.rows(name), *given.rows(name))
    return Outcome(rows, tuple(_group_claims(name, found, each, hardest)), figures)


def group_measures(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    lens = Groups(GROUPS)
    outputs = lens.view(p, y).outputs
    found = {
        USUAL: usual_ece(y, p),
        "3 groups": error(y, p, Groups(COARSE)),
        "group ECE": error(y, p, lens),
        "10 classes": error(y, p, Full()),
    }
    for k, (name, columns) in enumerate(GROUPS.items()):
        g = outputs[:, k]
        found[f"ECE given {name}"] = error(y, p, lens, LabelIs(columns))
        found[f"{name}, expected"] = float((g * (1 - g)).sum() / g.sum())
    return found


def _given(y: np.ndarray, p: np.ndarray, group: str) -> dict[str, float]:
    """Mean confidence in each group, of rows with a label of one group."""
    outputs, labels = Groups(GROUPS).view(p, y)
    means = outputs[labels == list(GROUPS).index(group)].mean(axis=0)
    return {f"{name} given {group}": float(m) for name, m in zip(GROUPS, means, strict=True)}


def _change_by_cells(each: Sequence[Trial], method: str) -> float:
    """The largest change of an error of rows selected by their label, with coarser cells."""
    lens, coarse = Groups(GROUPS), KDTree(0.5)
    return max(
        abs(error(one.labels, p, lens, where) - error(one.labels, p, lens, where, coarse))
        for one in each
        for p in [one.probs[method]]
        for where in map(LabelIs, GROUPS.values())
    )


def _group_claims(name: str, found: Measured, each: Sequence[Trial], hardest: str) -> list[Claim]:
    source = "Section 5.2"
    claims = []
    for method in INTERVENTIONS:
        own = f"ECE given {hardest}"
        claims += [
            Claim.below(
                0.0, f"{name}, {method}: group ECE falls", source, found.change(method, "group ECE")
            ),
            Claim.above(
                0.0,
                f"{name}, {method}: ECE given {hardest} rises",
                source,
                found.change(method, own),
            ),
            Claim.above(
                0.0,
                f"{name}, {method}: finer groups have larger errors (6 groups less 3)",
                "Appendix D.2.2",
                over_trials(found[method, "group ECE"] - found[method, "3 groups"]),
            ),
            Claim.above(
                1e-9,
                f"{name}, {method}: {BY_CELLS}",
                "Appendix D.4.2",
                _change_by_cells(each, method),
            ),
        ]
    return claims
