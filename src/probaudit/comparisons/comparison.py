"""Several models, or recalibrated versions of one, compared on the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ..audits.case import InfiniteRows
from ..audits.estimates import named_costs
from ..audits.finding import Finding, Spelling
from ..audits.result import Result, plain
from ..calibration import paired
from ..calibration.fine_grid import FineGrid
from ..calibration.resampling import BOOTSTRAP_RESAMPLES
from ..choices.lenses import Lens, TopLabel
from ..data.arrays import as_array, data_frame, named_columns
from ..data.calibrator_fit import CalibratorFit
from ..data.inputs import RowOptions, takes_row_options
from ..data.work import Progress
from ..diagrams.aligned import AlignedReliability
from ..diagrams.lens_table import LensTable
from ..diagrams.overlaid import OverlaidReliability
from ..diagrams.paired_differences import PairedDifferences
from ..errors import InputError
from ..estimate import Estimate
from ..grouping.budget import Budget, loss_budget
from ..grouping.features import features_of
from ..states import Summary
from ..version import __version__
from .contestants import (
    Contestant,
    Ground,
    difference,
    judge_model,
    lower_estimates,
)
from .lens_table import named_lenses, table_of
from .metrics import MAIN, METRICS, PUBLISHED
from .model_table import ModelTable, check_metrics
from .same_rows import SameRows, same_rows

if TYPE_CHECKING:
    from ..calibrators.base import Calibrator
    from ..report.page import Page
    from .decision import Choice

SCHEMA = "probaudit.comparison/2"
RANKED = ("log_score", "brier_score", "cost_risk")


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The result of a comparison. `print(comparison)` shows what the terminal shows, `to_text` all
    of it.

    names, reference : the models in order, and the one to compare the others with.
    score : the proper score that decides, "log_score" or "brier_score".
    estimates : by model and name, each with its own interval.
    differences : by model (all but the reference) and name: the model less the reference, with a
        paired 95% interval.
    ranks : by score and model: 1 + the number of clearly better models. Tied models may share a
        rank.
    lower : by the name of an estimate, whether that of model i is clearly lower than that of model
        j, [M, M]: the paired 95% interval of the difference lies below 0.
    lens : the event that calibration errors judge.
    grids, top_grids, summaries : by model: the grid of the judged event, that of the most probable
        class, and the sums of the pass.
    budgets : the loss budgets by model, if there are features or regions.
    own_fits : by model, the fit of its calibrator, if it was on these rows.
    dropped : invalid rows by model and rule. A row that is invalid for one model is left out for
        all.
    clusters : the number of clusters; None if rows are independent.
    lens_table : calibration errors by lens and model, if lenses were given.
    spellings : by model, how to write actions on its rows, as commands; else they are calls.
    """

    names: tuple[str, ...]
    reference: str
    score: str
    estimates: Mapping[str, Mapping[str, Estimate]]
    differences: Mapping[str, Mapping[str, Estimate]]
    ranks: Mapping[str, Mapping[str, int]]
    lower: Mapping[str, np.ndarray]
    lens: Lens
    grids: Mapping[str, FineGrid]
    top_grids: Mapping[str, FineGrid]
    summaries: Mapping[str, Summary]
    budgets: Mapping[str, Budget]
    dropped: Mapping[str, Mapping[str, int]]
    dropped_rows: int
    settings: Mapping[str, Any]
    fingerprints: Mapping[str, str]
    own_fits: Mapping[str, CalibratorFit] = field(default_factory=dict)
    clusters: int | None = None
    lens_table: LensTable | None = None
    spellings: Mapping[str, Spelling] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.summaries[self.reference].rows

    @property
    def pairs(self) -> bool:
        """Whether confidences and their correctness are compared, not class probabilities."""
        return self.summaries[self.reference].plan.kind == "pairs"

    @property
    def event(self) -> Any:
        """The class whose probability calibration errors judge; None if they judge the most
        probable class, or a stated confidence."""
        return self.summaries[self.reference].plan.event_class

    @property
    def judged(self) -> str:
        """What calibration errors judge, in words."""
        if self.event is not None:
            return f"probability of class {self.event}"
        return TopLabel().words(pairs=self.pairs)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all estimates that any model has."""
        return tuple(dict.fromkeys(name for m in self.names for name in self.estimates[m]))

    @property
    def infinite_rows(self) -> Mapping[str, InfiniteRows]:
        """Rows with an infinite log loss, by model."""
        counts = {name: int(self.summaries[name].log.infinite.sum()) for name in self.names}
        return {name: InfiniteRows(count) for name, count in counts.items() if count}

    @property
    def error_limit(self) -> float:
        """Errors have no null distribution here."""
        return math.nan

    @cached_property
    def _judged(self) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        from .verdict import judge_comparison

        return judge_comparison(self)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict: at most three conclusions in words, the most serious first. One of them
        is which model is best."""
        return self._judged[0]

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Further conclusions, less important than the findings."""
        return self._judged[1]

    @property
    def best(self) -> Finding:
        """The finding which model is best."""
        return next(finding for finding in self.findings if finding.rule == "best_by_score")

    @cached_property
    def decision(self) -> Choice:
        """Which model to use: a grade, a headline and a sentence in numbers."""
        from .decision import choose

        return choose(self)

    @property
    def headline(self) -> str:
        """Which model to use, in the imperative."""
        return self.decision.headline

    @property
    def verdict(self) -> str:
        """The findings as text."""
        return "\n".join(finding.text for finding in self.findings)

    def __getitem__(self, name: str) -> Mapping[str, Estimate]:
        if name not in self.estimates:
            raise KeyError(f"{name!r}; the models are {', '.join(self.names)}")
        return self.estimates[name]

    def __repr__(self) -> str:
        from ..report.comparison_terminal import as_text

        return as_text(self)

    def to_text(self) -> str:
        """All of the comparison as plain text. `print(comparison)` shows its first part."""
        from ..report.comparison_terminal import as_text

        return as_text(self, full=True)

    def flat(self) -> dict[str, float]:
        """Every estimate as `model/name`, every difference as `model - reference/name`, and ranks,
        for an experiment tracker."""
        values = {
            f"{model}/{name}": float(x)
            for model in self.names
            for name, x in self.estimates[model].items()
        }
        for model, parts in self.differences.items():
            values |= {f"{model} - {self.reference}/{name}": float(x) for name, x in parts.items()}
        return values | {
            f"{model}/rank": float(rank) for model, rank in self.ranks[self.score].items()
        }

    def table(self) -> dict[str, list[Any]]:
        """One line per estimate and difference, as columns for any frame; `less` is the model that
        was subtracted."""
        lines: list[tuple[str, str | None, str, Estimate]] = [
            (m, None, name, x) for m in self.names for name, x in self.estimates[m].items()
        ]
        lines += [
            (m, self.reference, name, x)
            for m, parts in self.differences.items()
            for name, x in parts.items()
        ]
        columns: dict[str, list[Any]] = {
            "model": [m for m, *_ in lines],
            "less": [less for _, less, *_ in lines],
            "name": [name for *_, name, _ in lines],
        }
        for part in ("value", "low", "high", "n", "definition"):
            columns[part] = [getattr(x, part) for *_, x in lines]
        return columns

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        return data_frame(self.table())

    def to_markdown(self, metrics: Sequence[str] = PUBLISHED) -> str:
        """The table of all models in Markdown, in their given order. The best of each metric is
        bold, and † marks models tied with the best.

        metrics : names of estimates, in order; those that no model has are left out.
        """
        return self._model_table(metrics).to_markdown()

    def to_latex(self, metrics: Sequence[str] = PUBLISHED, *, caption: str = "") -> str:
        """The same table in LaTeX, for the package booktabs. The caption explains bold and †.

        caption : plain text before that explanation.
        """
        return self._model_table(metrics).to_latex(caption)

    def _model_table(self, metrics: Sequence[str]) -> ModelTable:
        check_metrics(metrics)
        return ModelTable.of(self, metrics)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values (schema `probaudit.comparison/2`)."""
        summary = self.summaries[self.reference]
        models = {
            name: {
                "kind": self.summaries[name].plan.kind,
                "estimates": {key: x.to_dict() for key, x in self.estimates[name].items()},
                "ranks": {score: ranks[name] for score, ranks in self.ranks.items()},
                "budget": self.budgets[name].to_dict() if name in self.budgets else None,
                "dropped_rows": dict(self.dropped[name]),
                "fingerprint": self.fingerprints[name],
            }
            for name in self.names
        }
        return {
            "schema": SCHEMA,
            "version": __version__,
            "headline": self.headline,
            "sentence": self.decision.sentence,
            "grade": self.decision.grade,
            "rows": self.rows,
            "clusters": self.clusters,
            "dropped_rows": self.dropped_rows,
            "classes": [plain(c) for c in summary.plan.classes],
            "event": None if self.event is None else plain(self.event),
            "judged": self.judged,
            "class_rows": summary.log.rows.tolist(),
            "weighted": summary.plan.weighted,
            "reference": self.reference,
            "score": self.score,
            "models": models,
            "differences": {
                m: {name: x.to_dict() for name, x in parts.items()}
                for m, parts in self.differences.items()
            },
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [finding.to_dict() for finding in self.notes],
            "lens_table": None
            if self.lens_table is None
            else {
                lens: {m: x.to_dict() for m, x in found.items()}
                for lens, found in self.lens_table.estimates.items()
            },
            "settings": dict(self.settings),
        }

    def _page(self, title: str) -> Page:
        from ..report.comparison_page import comparison_page

        return comparison_page(self, title)

    def _short_page(self) -> Page:
        from ..report.comparison_page import comparison_summary

        return comparison_summary(self)

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagrams of all models side by side, drawn by matplotlib."""
        return self.aligned().plot(ax)

    def aligned(self) -> AlignedReliability:
        """The reliability diagrams of all models side by side."""
        return AlignedReliability.of_grids(self.grids, errors=self._eces, event=self._of)

    def forest(self, metrics: Sequence[str] = MAIN) -> PairedDifferences:
        """The forest plot: each model minus the reference, with paired 95% intervals, one panel
        for each metric.

        metrics : names of estimates, in order; those without any difference are left out.
        """
        check_metrics(metrics)
        known = [name for name in metrics if any(name in d for d in self.differences.values())]
        return PairedDifferences.of(
            {
                METRICS[name].label: {
                    model: parts[name] for model, parts in self.differences.items() if name in parts
                }
                for name in known
            },
            self.reference,
            lower={METRICS[name].label: METRICS[name].lower for name in known},
            order=self.names,
        )

    def reliability(self) -> OverlaidReliability:
        """The reliability curves of all models in one panel."""
        return OverlaidReliability.of_grids(self.grids, errors=self._eces, event=self._of)

    @property
    def _eces(self) -> dict[str, float]:
        return {model: float(self.estimates[model]["ece"]) for model in self.names}

    @property
    def _of(self) -> str:
        """The event that reliability diagrams show."""
        if self.event is not None:
            return f"the {self.judged}"
        return "the confidence" if self.pairs else "the most probable class"


@takes_row_options
def compare(
    models: Mapping[str, Any],
    y_true: Any = None,
    *,
    costs: Any = None,
    features: Any = None,
    columns: Any = None,
    reference: str | None = None,
    score: Literal["log", "brier"] = "log",
    cv: Any = None,
    repair: bool | None = None,
    regions: Any = None,
    calibrators: Mapping[str, Calibrator] | None = None,
    lenses: bool | Sequence[Lens] | Mapping[str, Lens] = False,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Comparison:
    """Compare several models, or recalibrated versions of one, on the same rows: scores of each,
    and paired differences from a reference.

    models : outputs by name, each as in `log_score`; or `Predictions`, as returned by `read`, which
        have their own labels and may mix logits and probabilities. Labels and weights must agree
        row by row; classes may be in different orders. Calibration errors judge the event of the
        first model: by default the second of two classes, and the most probable of more.
    costs : matrix [K, M] as in `bayes_risk`, its rows in the order of the first model's classes;
        adds `cost_risk`.
    features, columns, regions : as in `audit`; add a loss budget for each model.
    reference : the model to compare the others with; the first by default.
    score : the proper score that decides which model is better, "log" or "brier".
    cv, repair : the folds of the calibration loss, the same for all models (five by default, if
        there are enough rows); and whether to estimate it (by default, for up to 20 million outputs
        per model).
    calibrators : the fitted calibrator that made the outputs of a model, by the name of the model.
        The comparison then checks whether it was fitted to these rows. Files of `probaudit apply`
        need none.
    lenses : True, or lenses as in `lens_table`: adds that table, which the page shows.
    resamples, seed : the number and the seed of resamples, for intervals of calibration errors.

    Differences of scores are linearised row by row. Differences of calibration errors come from the
    same resampled rows of both models, and are corrected for the bias of either. Each interval has
    a coverage of 95% by itself. With clusters, differences are summed within clusters, clusters are
    resampled whole, and no fold splits a cluster.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(2000, 3)
    >>> found = compare({"original": world.mcs, "calibrated": world.cal}, world.y)
    >>> found.ranks["log_score"]
    {'original': 2, 'calibrated': 1}
    >>> found.differences["calibrated"]["log_score"].high < 0
    True
    """
    _check_choices(models, score, resamples, reference, calibrators)
    shared = same_rows(models, y_true, columns=columns, **options)
    cost = named_costs(costs).get("costs")
    if cost is not None:
        cost.check_classes(shared.first.n_classes)
    known_features = _kept_rows(features, shared, "features")
    ground = Ground.of(
        shared.first,
        cost=cost,
        cv=_kept_rows(cv, shared, "cv") if isinstance(cv, (list, np.ndarray)) else cv,
        repair=repair,
        resamples=resamples,
        seed=seed,
    )
    chosen = None
    if lenses is not False:
        chosen = named_lenses(None if lenses is True else lenses, shared.first)
    contestants = _contestants(shared, ground)
    base = next(iter(contestants)) if reference is None else reference
    budgets = _budgets(shared, known_features, regions, seed)
    for name, budget in budgets.items():
        contestants[name].estimates["grouping_loss"] = budget.grouping
    settings = {
        "calibration_loss": contestants[base].tried,
        "score": score,
        "seed": seed,
        "resamples": resamples,
        "interval": _interval_words(ground.clusters),
    } | ({"ignored": shared.ignored} if shared.ignored else {})
    fits = {name: rows.calibrator_fit for name, rows in shared.models.items()}
    fits |= {name: fitted.fit_identity for name, fitted in (calibrators or {}).items()}
    found = _assembled(contestants, base, ground, shared, score, budgets=budgets, settings=settings)
    found = replace(found, own_fits=_on_these_rows(fits, contestants))
    return found if chosen is None else replace(found, lens_table=table_of(shared, chosen))


def _contestants(shared: SameRows, ground: Ground) -> dict[str, Contestant]:
    """The estimates of each model."""
    contestants = {}
    with Progress(len(shared.models), unit="models") as bar:
        for name, rows in shared.models.items():
            contestants[name] = judge_model(rows, ground)
            bar.advance(1)
    return contestants


def _on_these_rows(
    fits: Mapping[str, CalibratorFit | None], contestants: Mapping[str, Contestant]
) -> dict[str, CalibratorFit]:
    """The fits of calibrators to the rows on which their models are compared."""
    return {
        name: fit
        for name, fit in fits.items()
        if fit is not None
        and fit.was_on(
            contestants[name].summary.rows, float(contestants[name].estimates["log_score"])
        )
    }


def _assembled(
    contestants: dict[str, Contestant],
    base: str,
    ground: Ground,
    shared: SameRows,
    score: str,
    *,
    budgets: Mapping[str, Budget],
    settings: Mapping[str, Any],
) -> Comparison:
    """The comparison of all models with the model `base`."""
    names, models = tuple(contestants), list(contestants.values())
    lower = lower_estimates(models, ground)
    ranks = {
        key: dict(zip(names, paired.ranks(lower[key]).tolist(), strict=True))
        for key in RANKED
        if key in lower
    }
    differences = {
        m: difference(contestants[m], contestants[base], f"{m} less {base}", ground)
        for m in names
        if m != base
    }
    return Comparison(
        names=names,
        reference=base,
        score=f"{score}_score",
        estimates={m: contestants[m].estimates for m in names},
        differences=differences,
        ranks=ranks,
        lower=lower,
        lens=ground.lens,
        grids={m: contestants[m].grid for m in names},
        top_grids={m: contestants[m].top_grid for m in names},
        summaries={m: contestants[m].summary for m in names},
        budgets=budgets,
        dropped=shared.dropped,
        dropped_rows=shared.set_aside,
        settings=settings,
        fingerprints={m: contestants[m].fingerprint for m in names},
        clusters=None if ground.clusters is None else int(ground.clusters.max()) + 1,
    )


def _check_choices(
    models: Any,
    score: str,
    resamples: int,
    reference: str | None,
    calibrators: Mapping[str, Calibrator] | None,
) -> None:
    if score not in ("log", "brier"):
        raise InputError("score", 'must be "log" or "brier"', repr(score))
    if resamples < 2:
        raise InputError("resamples", "must be at least 2", resamples)
    if reference is not None and (not isinstance(models, Mapping) or reference not in models):
        known = ", ".join(map(repr, models)) if isinstance(models, Mapping) else "none"
        raise InputError("reference", f"must name one of the models ({known})", repr(reference))
    for name, calibrator in (calibrators or {}).items():
        if name not in models:
            raise InputError("calibrators", "must be named like models", repr(name))
        if not hasattr(calibrator, "fit_report_"):
            rule = "must be fitted calibrators"
            raise InputError("calibrators", rule, repr(calibrator)[:80])


def _interval_words(clusters: np.ndarray | None) -> str:
    units = "rows" if clusters is None else f"{clusters.max() + 1:,} clusters"
    return f"95%, paired: scores by linearisation, errors from resamples of the same {units}"


def _kept_rows(data: Any, shared: SameRows, argument: str) -> Any:
    """The values of the rows that are kept, from one value per row."""
    if data is None:
        return None
    named = named_columns(data, argument)
    if named is None:
        values = as_array(data, argument)
        if values.shape[:1] != (shared.given,):
            raise InputError(
                argument,
                f"must have one value per row ({shared.given:,})",
                f"shape {values.shape}",
            )
        return values if shared.kept is None else values[shared.kept]
    for name, column in named.items():
        if len(column) != shared.given:
            raise InputError(
                argument,
                f"column {name!r} must have one value per row ({shared.given:,})",
                len(column),
            )
    return (
        named
        if shared.kept is None
        else {name: column[shared.kept] for name, column in named.items()}
    )


def _budgets(shared: SameRows, features: Any, regions: Any, seed: int) -> dict[str, Budget]:
    """The loss budget of each model, if there are features or regions."""
    source = next((rows for rows in shared.models.values() if rows.features is not None), None)
    if features is None and source is not None:
        features = features_of(source)
    if features is None and regions is None:
        return {}
    columns = next((rows.columns for rows in shared.models.values() if rows.columns), None)
    budgets, chosen = {}, "tree" if regions is None else regions
    with Progress(len(shared.models), unit="loss budgets") as bar:
        for name, rows in shared.models.items():
            own = rows if rows.columns or columns is None else replace(rows, columns=columns)
            budgets[name] = loss_budget(own, features=features, regions=chosen, seed=seed)
            bar.advance(1)
    return budgets
