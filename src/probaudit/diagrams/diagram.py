"""What every diagram can do: say what it draws, give its numbers, and be drawn by either drawer."""

from __future__ import annotations

import base64
import html
import math
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files.writing import write_bytes
from .picture import Picture

if TYPE_CHECKING:
    from .matplotlib_drawer import Drawing

FORMATS = (".png", ".svg", ".pdf")


def number(value: float) -> str:
    """A number in a caption: four decimals, or two digits if it is small.

    >>> number(0.10339), number(0.0000208), number(float("inf"))
    ('0.1034', '2.1e-05', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    return f"{value:.4f}" if abs(value) >= 5e-4 or value == 0 else f"{value:.2g}"


class Diagram(ABC):
    """Plain data that can be looked at. To write one, subclass as a frozen dataclass and implement
    `picture` and `columns`."""

    @abstractmethod
    def picture(self) -> Picture:
        """Panels and marks, for a drawer."""

    @abstractmethod
    def columns(self) -> dict[str, np.ndarray]:
        """The numbers that are drawn, as columns of equal length."""

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame, or as they are if pandas is not installed."""
        if find_spec("pandas") is None:
            return self.columns()
        return import_module("pandas").DataFrame(self.columns())

    def plot(self, ax: Any = None) -> Drawing:
        """Drawn by matplotlib: into given axes, or on a figure of its own (`figure_`, `axes_`) that
        notebooks show."""
        from .matplotlib_drawer import draw

        return draw(self.picture(), ax)

    def chart(self, **choices: Any) -> Any:
        """As an Altair chart; `choices` as in `vega_drawer.chart`."""
        from .vega_drawer import chart

        return chart(self.picture(), **choices)

    def save(self, path: str | Path) -> None:
        """Write a .png, .svg or .pdf file, whole or not at all. No browser is needed."""
        from .vega_drawer import image

        path = Path(path)
        kind = path.suffix.lower()
        if kind not in FORMATS:
            raise InputError(
                "path", f"must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}", str(path)
            )
        write_bytes(path, image(self.picture(), kind[1:]))

    def _repr_html_(self) -> str:
        """A picture inside the page, with its description for those who cannot see it."""
        from .vega_drawer import image

        picture = self.picture()
        content = base64.b64encode(image(picture, "svg")).decode()
        alt = html.escape(picture.description, quote=True)
        return f'<img alt="{alt}" style="max-width:100%" src="data:image/svg+xml;base64,{content}">'
