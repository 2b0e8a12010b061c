"""The table of a comparison: one row per model in the given order, the best of each metric in bold,
and those tied with the best marked. As text for Markdown and LaTeX, and as cells for the page and
the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError, in_a_list
from ..estimate import Estimate
from ..text import MISSING, counted, in_latex, in_markdown, number, percent
from .metrics import METRICS, Metric

if TYPE_CHECKING:
    from .comparison import Comparison

TIED = "†"
TIED_WORDS = "tied with the best: the paired 95% interval of the difference contains 0"
ARROWS = {True: "↓", False: "↑", None: ""}


def cell_text(x: Estimate | None, name: str, decimals: int = 4) -> str:
    """An estimate in a table, as a share if it is one."""
    if x is None:
        return MISSING
    return percent(x) if name.endswith(".relative") else number(x, decimals)


@dataclass(frozen=True)
class Cell:
    """A number as text, and whether it is the best of its column or tied with the best."""

    text: str
    best: bool = False
    tied: bool = False

    @property
    def marked(self) -> str:
        """The text, followed by the mark of a tie."""
        return self.text + TIED * self.tied


@dataclass(frozen=True)
class ModelTable:
    """Metrics of all models. `cells` has one row per model."""

    models: tuple[str, ...]
    metrics: tuple[Metric, ...]
    cells: tuple[tuple[Cell, ...], ...]
    rows: int

    @classmethod
    def of(cls, found: Comparison, names: Iterable[str], decimals: int = 4) -> ModelTable:
        """The metrics of these names that any model has."""
        known = [name for name in names if any(name in parts for parts in found.estimates.values())]
        columns = [_column(found, METRICS[name], decimals) for name in known]
        return cls(
            found.names,
            tuple(METRICS[name] for name in known),
            tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in found.names),
            found.rows,
        )

    @property
    def has_ties(self) -> bool:
        return any(cell.tied for row in self.cells for cell in row)

    def note(self, bold: str, mark: str = TIED) -> str:
        """What the marks mean; `bold` is the word for the style of the best."""
        tied = f" {mark} {TIED_WORDS}." if self.has_ties else ""
        return f"{bold}: best of {len(self.models)} models on {counted(self.rows)}.{tied}"

    def to_markdown(self) -> str:
        """A table in Markdown, with a note that explains its marks."""
        header = ["model", *(_headed(metric) for metric in self.metrics)]
        lines = [header, ["---", *("---:" for _ in self.metrics)]]
        for model, row in zip(self.models, self.cells, strict=True):
            cells = [
                (f"**{in_markdown(cell.text)}**" if cell.best else in_markdown(cell.text))
                + TIED * cell.tied
                for cell in row
            ]
            lines.append([in_markdown(model), *cells])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{table}\n\n{self.note('**Bold**')}\n"

    def to_latex(self, caption: str = "") -> str:
        """A table in LaTeX. It requires the package booktabs."""
        header = ["model", *(_headed(metric) for metric in self.metrics)]
        lines = [in_latex(name) for name in header]
        body = []
        for model, row in zip(self.models, self.cells, strict=True):
            cells = [
                (rf"\textbf{{{in_latex(cell.text)}}}" if cell.best else in_latex(cell.text))
                + rf"\rlap{{{in_latex(TIED)}}}" * cell.tied  # of no width: numbers stay aligned
                for cell in row
            ]
            body.append(" & ".join([in_latex(model), *cells]) + r" \\")
        words = " ".join(filter(None, [caption, self.note("Bold")]))
        return "\n".join(
            [
                r"% requires \usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{in_latex(words)}}}",
                rf"\begin{{tabular}}{{l{'r' * len(self.metrics)}}}",
                r"\toprule",
                " & ".join(lines) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def check_metrics(names: Sequence[str]) -> None:
    """Raise an error if a name is not that of a metric."""
    wrong = [name for name in names if name not in METRICS]
    if isinstance(names, str) or wrong:
        given = names if isinstance(names, str) else wrong[0]
        rule = f"must list some of {', '.join(METRICS)}"
        raise InputError("metrics", rule, repr(given), way_out=in_a_list("metrics", given, METRICS))


def _column(found: Comparison, metric: Metric, decimals: int) -> list[Cell]:
    """The metric of each model."""
    each = [found.estimates[model].get(metric.name) for model in found.names]
    values = [math.nan if x is None else float(x) for x in each]
    best = _best(values, metric)
    return [
        Cell(
            cell_text(x, metric.name, decimals),
            k in best,
            bool(best) and k not in best and _tied(found, metric, k, best[0], values),
        )
        for k, x in enumerate(each)
    ]


def _best(values: Sequence[float], metric: Metric) -> list[int]:
    """The places of the best value, if a finite one is best."""
    known = [value for value in values if not math.isnan(value)]
    if metric.lower is None or not known:
        return []
    best = min(known) if metric.lower else max(known)
    return [k for k, value in enumerate(values) if value == best and math.isfinite(value)]


def _tied(
    found: Comparison, metric: Metric, model: int, best: int, values: Sequence[float]
) -> bool:
    """Whether the paired interval of a model's difference to the best one contains 0."""
    lower = found.lower.get(metric.name)
    if lower is None or not math.isfinite(values[model]):
        return False
    return not (lower[best, model] or lower[model, best])


def _headed(metric: Metric) -> str:
    return f"{metric.label} {ARROWS[metric.lower]}".rstrip()
