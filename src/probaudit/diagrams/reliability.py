"""The reliability diagram: observed rate of an event against its predicted probability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from ..calibration.cells import Cells, mean_gap
from ..calibration.corp import OutputLevels
from ..calibration.errors import calibration_error
from ..calibration.fine_grid import FineGrid
from ..calibration.null import BinomialNull
from ..calibration.resampling import RESAMPLES
from ..calibration.significance import calibration_test, p_value
from ..calibration.views import dependent_events, diagram_grids, event_rows, lens_of
from ..choices.distances import L1
from ..choices.lenses import Binary, Lens, OneVsRest, TopLabel, View, default_lens
from ..choices.partitions import EqualWidth, Partition
from ..data.inputs import RowOptions, rows_of, takes_row_options
from ..data.predictions import Predictions
from ..errors import InputError
from ..scoring.intervals import wilson
from ..states import CELLS
from ..text import number, p_words, percent, significant
from .bins import Bins, bin_ends, bins_words, few_rows, histogram, partition_of
from .diagram import FROM, HIGH, LOW, SHARE, TO, Diagram
from .picture import Axis, Band, Bars, Line, Mark, Panel, Picture, Points, Rule

HISTOGRAM = 50  # bars of the histogram, unless bins have equal width
RANGE_LOW, RANGE_HIGH = "95% range if calibrated, low", "95% range if calibrated, high"
NARROWEST = 0.006  # width of a bar that is still visible
BAND_POINTS = 121
USUAL_BINS = "15 equal-width bins"  # of the ECE in tables
LINES = " Vertical lines: 95% intervals (Wilson 1927)."
CLEAR = 0.05  # p-value of all bins together, above which single bins are not judged


@dataclass(frozen=True, eq=False)
class Reliability(Diagram):
    """The bins that have rows, and the calibration error.

    stated, observed, rows, share : mean predicted probability, observed rate, number of rows and
        share of the weight of each bin.
    low, high : the 95% interval of the rate (Wilson 1927, on the effective number of rows). For
        CORP, whose steps depend on the labels, it is too narrow.
    chance_low, chance_high : the 95% range of the rate if the model is calibrated.
    left, right : the range of outputs.

    error : the sum of share x |predicted - observed|; for CORP the miscalibration, the part of the
        mean Brier score 2 (p - y)^2 that isotonic regression removes.
    null_mean, null_high, p_value : mean and 95% limit of the error if calibrated, and the p-value.
    histogram : [3, bars]: left and right end, and rows.
    remark : a sentence at the end of the caption.
    judged : whether single bins are judged; not if the rows are too few for a verdict.
    curve : for CORP, the knots [2, m] of the isotonic regression. band : [3, m], outputs and the
        95% range of the regression of a calibrated model.
    """

    percents = ("from", "to", SHARE, "predicted", "observed", LOW, HIGH, RANGE_LOW, RANGE_HIGH)
    in_files = (FROM, TO, SHARE, RANGE_LOW, RANGE_HIGH)  # so that it fits beside a square chart

    stated: np.ndarray
    observed: np.ndarray
    rows: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    chance_low: np.ndarray
    chance_high: np.ndarray
    left: np.ndarray
    right: np.ndarray
    error: float
    null_mean: float
    null_high: float
    p_value: float
    histogram: np.ndarray
    event: str
    bins: str
    curve: np.ndarray | None = None
    band: np.ndarray | None = None
    remark: str = ""
    judged: bool = True

    @classmethod
    def of_grid(
        cls,
        grid: FineGrid,
        bins: Bins = 15,
        *,
        event: str = "the most probable class",
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> Reliability:
        """From a fine grid instead of rows. The edges of bins are edges of grid cells."""
        partition = partition_of(bins)
        if not np.isfinite(grid.weight_squared[grid.kept]).all():
            raise InputError("grid", "must have the sums of squared weights")
        if partition is None:
            return _corp(OutputLevels.of_grid(grid), grid, event, resamples, seed)
        kept, size = np.flatnonzero(grid.kept), len(grid.rows)
        cell = partition.grid_cells(grid.place, grid.rows[kept])
        cells = grid.cells(cell)
        ends = bin_ends(partition, cells.number, cell, kept / size, (kept + 1) / size)
        chosen: dict[str, Any] = {"event": event, "resamples": resamples, "seed": seed}
        return _binned(cells, BinomialNull.of_grid(grid, cell), ends, partition, grid, **chosen)

    def judged_by(self, error: float, test: Any) -> Reliability:
        """The same diagram with an error and a test computed elsewhere."""
        return replace(
            self,
            error=error,
            null_mean=test.null_mean,
            null_high=test.null_high,
            p_value=test.p_value,
        )

    @property
    def clear(self) -> bool:
        """Whether all bins together are significantly off."""
        return self.judged and self.error > self.null_high and self.p_value <= CLEAR

    @property
    def thin(self) -> np.ndarray:
        """Which bins have too few rows for a verdict."""
        return np.asarray(self.rows < few_rows(self.rows))

    @property
    def verdict(self) -> np.ndarray:
        """Per bin: "high" if predictions are significantly too high, "low" if too low, else "". If
        all bins together are not significantly off, single bins may be so by chance."""
        if not self.clear:
            return np.full(len(self.rows), "")
        found = np.where(self.observed < self.chance_low - 1e-12, "high", "")
        found = np.where(self.observed > self.chance_high + 1e-12, "low", found)
        return np.where(self.thin, "", found)

    @property
    def n(self) -> int:
        return int(self.rows.sum())

    def columns(self) -> dict[str, np.ndarray]:
        words = {"high": "too high", "low": "too low", "": ""}
        return self.bin_columns() | {
            RANGE_LOW: self.chance_low,
            RANGE_HIGH: self.chance_high,
            "verdict": np.array([words[kind] for kind in self.verdict], object),
        }

    def bin_columns(self) -> dict[str, np.ndarray]:
        """The columns that do not depend on the range if calibrated."""
        return {
            "from": self.left,
            "to": self.right,
            "rows": self.rows,
            "predicted": self.stated,
            "observed": self.observed,
            LOW: self.low,
            HIGH: self.high,
            SHARE: self.share,
        }

    def panel(
        self, *, names: bool = True, title: str = "", x: str = "", y: str = "observed"
    ) -> Panel:
        """The panel of rates, without the histogram."""
        across, up = Axis(x, 0, 1, percent=True), Axis(y, 0, 1, percent=True)
        return Panel(tuple(self._marks(names)), across, up, title, square=True)

    def picture(self) -> Picture:
        above = self.panel()
        left, right, rows = self.histogram
        detail = _ranges(left, right) | {"rows": rows.astype(np.int64)}
        bars = Bars(left, right, np.zeros(len(rows)), rows, role="density", detail=detail)
        below = Panel(
            (bars,),
            Axis("predicted probability", 0, 1, percent=True),
            Axis("rows", low=0),
            share=0.3,
            histogram=True,
        )
        return Picture(
            (above, below), f"Reliability of {self.event}", self._description(), self._caption()
        )

    def _marks(self, names: bool) -> list[Mark]:
        band_name = "95% range if calibrated" if names else ""
        if self.curve is not None and self.band is not None:
            band = Band(*self.band, role="null", name=band_name)
            line = Line(
                *self.curve,
                role="observed",
                name="isotonic regression" if names else "",
                detail=self._knots(),
            )
            return [band, Rule(role="reference"), line]
        wide = np.maximum(NARROWEST - (self.right - self.left), 0) / 2
        spans = (self.left - wide, self.right + wide, self.chance_low, self.chance_high)
        thin = self.thin
        marks: list[Mark] = [Rule(role="reference")]
        if not thin.all():
            left, right, low, high = (end[~thin] for end in spans)
            marks.insert(0, Bars(left, right, low, high, True, role="null", name=band_name))
        judged = "inside its 95% range" if self.clear else "observed"
        kinds = (
            (~thin & (self.verdict == ""), "agrees", judged),
            (self.verdict == "high", "over", "predicted too high"),
            (self.verdict == "low", "under", "predicted too low"),
            (thin, "thin", f"fewer than {few_rows(self.rows)} rows"),
        )
        for of, role, name in kinds:
            if of.any():
                marks.append(
                    Points(
                        self.stated[of],
                        self.observed[of],
                        self.low[of],
                        self.high[of],
                        size=self.share[of] / self.share.max(),
                        role=role,
                        name=name if names else "",
                        hollow=role == "thin",
                        detail={
                            key: np.asarray(column)[of] for key, column in self._detail().items()
                        },
                    )
                )
        return marks

    def _knots(self) -> dict[str, Any]:
        return {name: np.repeat(column, 2) for name, column in self._detail().items()}

    def _detail(self) -> dict[str, Any]:
        columns = {"rows": self.rows, "predicted": self.stated, "observed": self.observed}
        found: dict[str, Any] = _ranges(self.left, self.right) | columns
        if self.curve is None:
            found["95% interval"] = [
                f"{low:.3f} to {high:.3f}" for low, high in zip(self.low, self.high, strict=True)
            ]
        return found

    def _caption(self) -> str:
        usual = " (ECE)" if self.bins == USUAL_BINS else ""
        what = "Miscalibration (CORP)" if self.curve is not None else f"Calibration error{usual}"
        return (
            f"{what} {number(self.error, 3)}; a calibrated model would have "
            f"{number(self.null_mean, 3)} on average and {number(self.null_high, 3)} at most (95% "
            f"limit; {p_words(self.p_value)}). {self.bins}, {self.n:,} rows."
            f"{'' if self.curve is not None else LINES}{self._unjudged}"
            f"{self.remark and f' {self.remark}'}"
        )

    @property
    def _unjudged(self) -> str:
        """Why bins outside their range are not called too high or too low, if some are."""
        outside = (self.observed < self.chance_low - 1e-12) | (
            self.observed > self.chance_high + 1e-12
        )
        if self.curve is not None or self.clear or not (outside & ~self.thin).any():
            return ""
        why = "all together are not clearly off" if self.judged else "the rows are too few"
        return f" Single bins are not judged, as {why}."

    def _description(self) -> str:
        worst = int(np.argmax(self.share * np.abs(self.stated - self.observed)))
        text = f"Reliability diagram of {self.event}. {self._caption()}"
        text += f" The bin that adds most to the error has {self.rows[worst]:,} rows,"
        text += (
            f" predicted {percent(self.stated[worst])}, observed {percent(self.observed[worst])}."
        )
        if self.curve is None:
            high, low = int((self.verdict == "high").sum()), int((self.verdict == "low").sum())
            text += (
                f" Of {len(self.rows)} bins with rows, {high} are predicted significantly too high"
            )
            text += f" and {low} too low."
        return text


@takes_row_options
def reliability_diagram(
    y_true: Any,
    y_proba: Any = None,
    *,
    lens: Lens | None = None,
    bins: Bins = 15,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> Reliability:
    """The observed rate of an event against its predicted probability, with the 95% range of a
    calibrated model.

    lens : a lens with a single event; by default the second of two classes, or else the top label.
    bins : a number of equal-width bins, `EqualWidth`, `EqualMass` or `Edges`; or "corp" for
        isotonic regression, which needs no bins (Dimitriadis, Gneiting & Jordan 2021). With more
        than 16,800 distinct outputs, or clusters, outputs are rounded to a grid of 16,800 cells.
    resamples, seed : of labels drawn from the outputs, for the null distribution of the error, as
        in `calibration_test`.
    options : see `RowOptions`. Rows in `clusters` count as fewer, by the design effect of each bin
        (Kish 1965).

    >>> found = reliability_diagram([1, 0, 1, 1], [0.8, 0.7, 0.6, 0.9], bins=2)
    >>> found.stated, found.observed, round(found.error, 4)
    (array([0.75]), array([0.75]), 0.0)
    """
    partition = partition_of(bins)
    if resamples < 1:
        raise InputError("resamples", "must be at least 1", resamples)
    predictions = rows_of(y_true, y_proba, **options)
    lens = default_lens(predictions, lens)
    rows, event = event_rows(predictions, lens), event_name(predictions, lens)
    (grid,), dependent = diagram_grids(predictions, lens), dependent_events(predictions, lens)
    view = View(np.clip(rows.view.outputs, 0, 1), rows.view.labels)
    if partition is None:
        levels = OutputLevels.of_view(view, rows.weights)
        few = len(levels.rows) <= CELLS and dependent is None
        return _corp(levels if few else OutputLevels.of_grid(grid), grid, event, resamples, seed)
    cell = rows.cells(partition)
    (cells,) = calibration_error(predictions, lens=lens, partition=partition).cells
    if predictions.sample_weight is None:
        null = BinomialNull.of_view(rows.view, cell)
    else:
        null = BinomialNull.of_grid(grid, partition.grid_cells(grid.place, grid.rows[grid.kept]))
    ends, drawn = bin_ends(partition, cells.number, cell, view.outputs, view.outputs), resamples
    if dependent is not None:
        cells = replace(cells, effective=cells.effective / dependent[0].effects(cells, cell))
        drawn = 1  # the test below has a null distribution of its own
    diagram = _binned(cells, null, ends, partition, grid, event=event, resamples=drawn, seed=seed)
    if dependent is None:
        return diagram
    choices: dict[str, Any] = {
        "lens": lens,
        "partition": partition,
        "resamples": resamples,
        "seed": seed,
    }
    return diagram.judged_by(diagram.error, calibration_test(predictions, **choices))


def event_name(predictions: Predictions, lens: Lens) -> str:
    """The event of a lens, as text for titles."""
    lens = lens_of(predictions, lens)
    names = predictions.class_order
    if isinstance(lens, TopLabel):
        return "the most probable class"
    if isinstance(lens, Binary):
        return "the confidence" if predictions.pairs else f"class {names[1]}"
    if isinstance(lens, OneVsRest):
        return f"class {names[lens.index]}"
    return f"the event {lens.words()}"


def binomial_range(probability: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The central 95% range of the rate among rows that all have this probability. If probabilities
    differ between rows, the rate varies a little less, so that the range is conservative.

    >>> [float(end[0]) for end in binomial_range(np.array([0.5]), np.array([10]))]
    [0.2, 0.8]
    """
    from scipy.special import betainc

    n, p = np.maximum(1, np.round(size)), np.clip(probability, 0, 1)

    def quantile(tail: float) -> np.ndarray:
        """The least k with P(X <= k) = 1 - I_p(k + 1, n - k) >= tail, over n, by bisection."""
        below, found = np.full_like(n, -1.0), n.copy()
        while (wide := found - below > 1).any():
            k = np.floor((below + found) / 2)
            enough = betainc(k + 1, n - k, p) <= 1 - tail
            below, found = np.where(wide & ~enough, k, below), np.where(wide & enough, k, found)
        return found / n

    return quantile(0.025), quantile(0.975)


def _binned(
    cells: Cells,
    null: BinomialNull,
    ends: tuple[np.ndarray, np.ndarray],
    partition: Partition,
    grid: FineGrid,
    *,
    event: str,
    resamples: int,
    seed: int,
) -> Reliability:
    """The diagram of bins, with the given null distribution of the error."""
    error, nulls = float(mean_gap(cells, L1())), null.null(L1(), resamples, seed)
    low, high = wilson(np.clip(cells.targets, 0, 1), cells.effective)
    chance_low, chance_high = binomial_range(cells.outputs, cells.effective)
    bars = partition.bins if isinstance(partition, EqualWidth) else HISTOGRAM
    return Reliability(
        stated=cells.outputs,
        observed=cells.targets,
        rows=cells.rows,
        share=cells.share,
        low=low,
        high=high,
        chance_low=chance_low,
        chance_high=chance_high,
        left=ends[0],
        right=ends[1],
        error=error,
        null_mean=float(nulls.mean()),
        null_high=float(np.quantile(nulls, 0.95)),
        p_value=p_value(error, nulls),
        histogram=histogram(grid, bars),
        event=event,
        bins=bins_words(partition),
    )


def _ranges(left: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    return {
        "predicted between": [
            f"{significant(low)} and {significant(high)}"
            for low, high in zip(left, right, strict=True)
        ]
    }


def _corp(
    levels: OutputLevels, grid: FineGrid, event: str, resamples: int, seed: int
) -> Reliability:
    """Isotonic regression, with consistency bands from labels drawn from the outputs (Dimitriadis,
    Gneiting & Jordan 2021)."""
    fitted = levels.fitted
    starts = np.flatnonzero(np.r_[True, np.diff(fitted) > 0])
    fields = (
        levels.rows,
        levels.weight,
        levels.squared,
        levels.weight * levels.output,
        levels.hits,
    )
    rows, weight, squared, outputs, hits = (np.add.reduceat(field, starts) for field in fields)
    left, right = levels.output[starts], levels.output[np.r_[starts[1:], len(fitted)] - 1]
    error = levels.miscalibration(fitted)
    at = np.unique(
        np.searchsorted(
            levels.output, np.linspace(levels.output[0], levels.output[-1], BAND_POINTS)
        )
    )
    x, (draws, null) = levels.output[at], levels.null(at, resamples, seed)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    rate, stated = fitted[starts], outputs / weight
    rate_low, rate_high = wilson(np.clip(hits / weight, 0, 1), weight**2 / squared)
    return Reliability(
        stated=stated,
        observed=rate,
        rows=rows,
        share=weight / weight.sum(),
        low=rate_low,
        high=rate_high,
        chance_low=np.interp(stated, x, low),
        chance_high=np.interp(stated, x, high),
        left=left,
        right=right,
        error=error,
        null_mean=float(null.mean()),
        null_high=float(np.quantile(null, 0.95)),
        p_value=p_value(error, null),
        histogram=histogram(grid, HISTOGRAM),
        event=event,
        bins=f"{len(starts)} steps of isotonic regression",
        curve=np.stack([np.column_stack([left, right]).reshape(-1), np.repeat(rate, 2)]),
        band=np.stack([x, low, high]),
    )
