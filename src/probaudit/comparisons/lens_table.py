"""Several models or repairs under several lenses (Kirchenbauer et al. 2022, Section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ..calibration.errors import calibration_error
from ..calibration.resampling import FEWER_RESAMPLES, check_resamples
from ..calibration.views import PreparedRows
from ..choices.definitions import Definition
from ..choices.distances import Distance, as_distance
from ..choices.lenses import Classwise, Full, Groups, Lens, OneVsRest, TopK, TopLabel, judged_lens
from ..choices.partitions import KDTree, Partition, checked_partition
from ..data.inputs import RowOptions, takes_row_options
from ..data.predictions import Predictions
from ..diagrams.lens_table import LensTable
from ..errors import InputError
from .same_rows import SameRows, same_rows

RANKS = (2, 3, 5)
FULL_CLASSES = 20  # the error of all classes together has many dimensions


@takes_row_options
def lens_table(
    models: Mapping[str, Any],
    y_true: Any = None,
    *,
    lenses: Sequence[Lens] | Mapping[str, Lens] | None = None,
    partition: Partition | None = None,
    distance: str | Distance = "tvd",
    resamples: int = FEWER_RESAMPLES,
    seed: int = 0,
    **options: Unpack[RowOptions],
) -> LensTable:
    """Calibration errors of one or more models under several lenses, with 95% intervals: whether a
    repair of the top label also repairs the other probabilities (Kirchenbauer et al. 2022, Figures
    1, 3 and 4).

    models : outputs by name, as in `compare`.
    lenses : lenses, or lenses by name; by default the event (if there is one), the most probable
        class, the top 2, 3 and 5, each class against all others, and all classes together (up to 20
        classes).
    partition, distance : the same for all lenses, so that errors can be compared;
        `KDTree(2**-4)` by default, as in Kirchenbauer et al. 2022, Appendix B.
    resamples, seed : of the intervals, which are those of `calibration_error`.

    >>> from probaudit.simulate import gaussian_posteriors
    >>> world = gaussian_posteriors(1000, 4)
    >>> table = lens_table({"original": world.mcs, "calibrated": world.cal}, world.y)
    >>> table.lenses
    ('top label', 'top 2', 'top 3', 'classwise', 'full')
    >>> bool(table["top 2"]["calibrated"] < table["top 2"]["original"])
    True
    """
    check_resamples(resamples)
    shared = same_rows(models, y_true, least=1, **options)
    return table_of(
        shared,
        lenses,
        partition=partition,
        distance=distance,
        resamples=resamples,
        seed=seed,
    )


def table_of(
    shared: SameRows,
    lenses: Sequence[Lens] | Mapping[str, Lens] | None = None,
    *,
    partition: Partition | None = None,
    distance: str | Distance = "tvd",
    resamples: int = FEWER_RESAMPLES,
    seed: int = 0,
) -> LensTable:
    """As `lens_table`, for rows that have been checked."""
    chosen = named_lenses(lenses, shared.first)
    partition = checked_partition(partition, KDTree(2.0**-4))
    rows = {name: PreparedRows.of(model, TopLabel()) for name, model in shared.models.items()}
    choices: dict[str, Any] = {"distance": distance, "resamples": resamples, "seed": seed}
    if shared.kept is not None:
        partition = partition.select(shared.kept, shared.given)
    estimates = {
        label: {
            name: calibration_error(
                model.predictions,
                lens=model.lens if isinstance(lens, TopLabel) else lens,
                partition=model.partition(partition),
                interval=True,
                **choices,
            )
            for name, model in rows.items()
        }
        for label, lens in chosen.items()
    }
    words = Definition(partition, as_distance(distance)).words()
    return LensTable(estimates, words)


def named_lenses(
    lenses: Sequence[Lens] | Mapping[str, Lens] | None, rows: Predictions
) -> dict[str, Lens]:
    """The lenses by name, in order."""
    if lenses is None:
        event = rows.event_column
        name = f"class {rows.event_class}"
        first = {} if event is None else {name: judged_lens(event, rows.n_classes)}
        return first | {lens_name(lens): lens for lens in _default_lenses(rows)}
    each = (
        [lenses]
        if isinstance(lenses, Lens)
        else list(lenses.values() if isinstance(lenses, Mapping) else lenses)
    )
    wrong = [lens for lens in each if not isinstance(lens, Lens)]
    if wrong or not each:
        rule = "must be one lens or more, or lenses by name"
        raise InputError("lenses", rule, repr(wrong[0] if wrong else lenses))
    if isinstance(lenses, Mapping):
        return dict(lenses)
    named = {lens_name(lens): lens for lens in each}
    if len(named) < len(each):
        way_out = ("pass a mapping of names to lenses",)
        raise InputError("lenses", "must not repeat a lens", repr(each), way_out=way_out)
    return named


def _default_lenses(rows: Predictions) -> list[Lens]:
    if rows.pairs:
        return [TopLabel()]
    classes = rows.n_classes
    if classes == 2:  # the other lenses show the same event
        return [TopLabel()]
    lenses: list[Lens] = [TopLabel(), *(TopK(k) for k in RANKS if k < classes), Classwise()]
    return [*lenses, Full()] if classes <= FULL_CLASSES else lenses


def lens_name(lens: Lens) -> str:
    """A short name, for tables.

    >>> lens_name(TopK(2)), lens_name(Groups([[0, 1], [2]]))
    ('top 2', 'groups')
    """
    match lens:
        case TopK(k):
            return f"top {k}"
        case OneVsRest(index):
            return f"column {index}"
    return {TopLabel: "top label", Classwise: "classwise", Full: "full", Groups: "groups"}.get(
        type(lens), lens.words()
    )
