"""The base class of diagrams: a picture, its numbers as columns, and drawing by either drawer."""

from __future__ import annotations

import base64
import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..files.writing import write_bytes
from .picture import Picture

if TYPE_CHECKING:
    from .matplotlib_drawer import Drawing

FORMATS = (".png", ".svg", ".pdf")
# Names of columns that many diagrams have. An interval follows the number that it belongs to.
LOW_END, HIGH_END = ", low", ", high"
INTERVAL, FROM, TO = "95% interval", "from", "to"
LOW, HIGH = INTERVAL + LOW_END, INTERVAL + HIGH_END
EXPECTED, LIMIT = "expected if calibrated", "95% limit if calibrated"
SHARE = "share of rows"


class Diagram(ABC):
    """Plain data that can be drawn. A subclass is a frozen dataclass that implements `picture` and
    `columns`, and has an entry in `diagrams.DIAGRAMS`.

    percents : the columns that a table shows in percent, as the axis of the picture does.
    in_files : the columns that a page leaves to files, as other columns imply them.
    """

    percents: ClassVar[tuple[str, ...]] = ()
    in_files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def picture(self) -> Picture:
        """Panels and marks, for a drawer."""

    @abstractmethod
    def columns(self) -> dict[str, np.ndarray]:
        """The numbers of the picture, as columns of equal length, by the names that a table
        shows."""

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame, or as a dictionary if pandas is not installed."""
        if find_spec("pandas") is None:
            return self.columns()
        return import_module("pandas").DataFrame(self.columns())

    def plot(self, ax: Any = None, **options: Any) -> Drawing:
        """Draw with matplotlib: inside given axes, or on a new figure (`figure_`, `axes_`) that
        notebooks display. `options` as in `Display.plot`."""
        from .matplotlib_drawer import draw

        return draw(self.picture(), ax, **options)

    def to_vega_lite(self, **choices: Any) -> dict[str, Any]:
        """As a Vega-Lite specification, a plain dictionary. `choices` as in `vega_drawer.document`:
        `theme`, "light" or "dark", and `width` in pixels."""
        from .vega_drawer import document

        return document(self.picture(), **choices)

    def save(self, path: str | Path, **options: Any) -> None:
        """Write a .png, .svg or .pdf file atomically, drawn with matplotlib. `options` as in
        `Display.plot`, for instance `compact=True`."""
        from .matplotlib_drawer import image

        path = Path(path)
        kind = path.suffix.lower()
        if kind not in FORMATS:
            raise InputError(
                "path", f"must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}", str(path)
            )
        write_bytes(path, image(self.picture(), kind[1:], **options))

    def _repr_html_(self) -> str:
        """An inline PNG image with the description as alternative text, and the caption below."""
        from .matplotlib_drawer import inline_image

        picture = self.picture()
        content, width = inline_image(picture)
        alt = html.escape(picture.description, quote=True)
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        shown = f'<img alt="{alt}" width="{width}" style="max-width:100%" src="{source}">'
        caption = html.escape(picture.caption)
        return f'<figure style="margin:0">{shown}<figcaption>{caption}</figcaption></figure>'


def shown_columns(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The columns of a table on a page: the header of each, and the columns whose cells it joins.
    Both ends of an interval or a range share a column.

    >>> shown_columns(["from", "to", "observed", "ratio, low", "ratio, high"])
    {'range': ('from', 'to'), 'observed': ('observed',), 'ratio': ('ratio, low', 'ratio, high')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        whole = "range" if name in (FROM, TO) else name.removesuffix(LOW_END).removesuffix(HIGH_END)
        found[whole] = (*found.get(whole, ()), name)
    return found


def stacked(
    what: str, parts: Mapping[str, Mapping[str, np.ndarray]], *, named: bool = True
) -> dict[str, np.ndarray]:
    """The columns of several parts one below the other, after a column `what` of their names.

    >>> parts = {"a": {"rows": np.array([2, 3])}, "b": {"rows": np.array([5])}}
    >>> {name: column.tolist() for name, column in stacked("model", parts).items()}
    {'model': ['a', 'a', 'b'], 'rows': [2, 3, 5]}
    """
    each = list(parts.values())
    sizes = [len(next(iter(part.values()))) for part in each]
    names = {what: np.repeat(np.array(list(parts), object), sizes)} if named else {}
    return names | {name: np.concatenate([part[name] for part in each]) for name in each[0]}
