"""Pictures of several models in the same axes: which marks they share, and where each has its
place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from .picture import Band, Bars, Line, Mark, Panel, Picture, Points, Rule, Side, Text, scaled

SLOT = 0.8  # width of the bars or points of all models in a category
SIDES: tuple[Side, ...] = ("x", "y")


def over(picture: Picture, shown: Sequence[Panel]) -> Picture:
    """The picture of a model for axes that show other models in `shown`: panels and categories in
    the same order, without marks that are clear for a single model only and without references
    that are drawn already.

    >>> bars = Bars.lying(np.arange(2.0), np.zeros(2), np.array([0.2, 0.4]))
    >>> from probaudit.diagrams.picture import Axis
    >>> a, b = (Panel((bars,), Axis("error"), Axis("", categories=c)) for c in ("xy", "yx"))
    >>> over(Picture((b,), "", ""), [a]).panels[0].marks[0].bottom.tolist()
    [0.65, -0.35]
    """
    if picture.alone:
        raise _refused(f"must be empty for {picture.alone}", "axes with a diagram")
    if len(picture.panels) != len(shown):
        counts = f"{len(shown)} and {len(picture.panels)} panels"
        raise _refused("must show a diagram with the same panels", counts)
    panels = [
        _aligned(panel, before)
        for panel, before in zip(_ordered(picture.panels, shown), shown, strict=True)
    ]
    for panel in panels:
        if any(isinstance(m, Bars) and m.series for m in panel.marks) and not _category(panel):
            rule = "must be empty for bars without categories, which would hide those of others"
            raise _refused(rule, "axes with a diagram")
    return replace(picture, panels=tuple(panels))


def for_one_model(mark: Mark) -> bool:
    """Whether a mark is clear for a single model only: text, ranges behind the marks, and lines
    that join them."""
    faint = isinstance(mark, Bars) and mark.faint
    joins = isinstance(mark, Line) and mark.role == "reference" and not mark.name
    range_ = isinstance(mark, Band) and mark.role == "null"
    return faint or joins or range_ or isinstance(mark, Text)


def placed(mark: Mark, panel: Panel, model: int, models: int, top: float) -> Mark:
    """A mark of one of several models: beside those of the others in each category; or, in a
    histogram inside the panel, scaled to the common height `top`."""
    if mark.role == "density" and panel.histogram_top:
        return scaled(mark, panel.extent("y")[0], panel.histogram_top / top)
    side = _category(panel)
    if side is None or models == 1 or any(isinstance(m, Line) and m.series for m in panel.marks):
        return mark
    shift = SLOT * ((model + 0.5) / models - 0.5)
    return _with_places(mark, side, lambda middle, off: middle + off / models + shift)


def can_move(mark: Mark, panel: Panel) -> bool:
    """Whether the place of a mark depends on the other models."""
    movable = isinstance(mark, (Bars, Points)) and _category(panel) is not None
    return movable or (mark.role == "density" and panel.histogram_top > 0)


def _category(panel: Panel) -> Side | None:
    return next((side for side in SIDES if _names(panel, side) is not None), None)


def _names(panel: Panel, side: Side) -> tuple[str, ...] | None:
    return (panel.x if side == "x" else panel.y).categories


def _with_places(mark: Mark, side: Literal["x", "y"], move: Any) -> Mark:
    """Bars or points at other places: `move` of the category and of the distance from it."""
    if not isinstance(mark, (Bars, Points)):
        return mark
    ends = ("left", "right") if side == "x" else ("bottom", "top")
    keys = ends if isinstance(mark, Bars) else (side,)
    values = {key: np.asarray(getattr(mark, key), float) for key in keys}
    middle = np.rint(np.mean(list(values.values()), axis=0))
    moved: dict[str, Any] = {key: move(middle, v - middle) for key, v in values.items()}
    return replace(mark, **moved)


def _ordered(panels: tuple[Panel, ...], shown: Sequence[Panel]) -> tuple[Panel, ...]:
    """The panels in the order of those shown, if they have keys."""
    keys = [panel.key for panel in panels]
    if not all(keys):
        return panels
    _check_names(keys, [panel.key for panel in shown], "panels")
    return tuple(panels[keys.index(panel.key)] for panel in shown)


def _aligned(panel: Panel, shown: Panel) -> Panel:
    """The panel with categories in the order of the panel shown, without marks to leave out."""
    marks = [
        mark
        for mark in panel.marks
        if not for_one_model(mark) and not any(_same_reference(mark, m) for m in shown.marks)
    ]
    for side in SIDES:
        own, other = getattr(panel, side), getattr(shown, side)
        if own.scale != other.scale or (own.categories is None) != (other.categories is None):
            raise _refused("must show a diagram with the same axes", "a diagram with other axes")
        if own.categories is None or own.categories == other.categories:
            continue
        _check_names(own.categories, other.categories, "categories")
        if any(isinstance(mark, Line) for mark in marks):
            raise _refused("must have the categories in the same order", "in another order")
        place = np.array([other.categories.index(name) for name in own.categories])
        marks = [
            _with_places(mark, side, lambda middle, off, to=place: to[middle.astype(int)] + off)
            for mark in marks
        ]
        panel = replace(panel, **{side: replace(own, categories=other.categories)})
    return replace(panel, marks=tuple(marks), title=shown.key or shown.title)


def _same_reference(mark: Mark, other: Mark) -> bool:
    if mark.role != "reference" or not isinstance(mark, (Line, Rule)):
        return False
    return (
        type(mark) is type(other)
        and (mark.role, mark.name) == (other.role, other.name)
        and all(np.array_equal(mark.values(s), other.values(s), equal_nan=True) for s in SIDES)
    )


def _check_names(own: Sequence[str], shown: Sequence[str], what: str) -> None:
    differ = sorted(set(own) ^ set(shown))
    if differ or len(set(own)) < len(own):
        found = ", ".join(map(repr, differ[:3])) + (", ..." if len(differ) > 3 else "")
        found = f"only one of them has {found}" if differ else "a name occurs twice"
        raise _refused(f"must show a diagram with the same {what}", found)


def _refused(rule: str, found: str) -> InputError:
    return InputError("ax", rule, found, way_out=("draw it in other axes",))
