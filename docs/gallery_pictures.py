"""What gallery scripts show on the site: diagrams, and the pages of audits."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import Any

from reference_pages import escaped

from probaudit.diagrams import Diagram

REPORTS = Path(__file__).parent / "generated" / "extra" / "reports"


class Diagrams:
    """Saves the diagram that a block of a gallery script ends with, with its caption."""

    def __repr__(self) -> str:
        return "Diagrams"

    def __call__(self, block: Any, variables: Any, settings: Any) -> str:
        _, code, _ = block
        statements = ast.parse(code).body
        last = variables["example_globals"].get("___")  # of the last block that ends with a value
        if not isinstance(last, Diagram) or not isinstance(statements[-1], ast.Expr):
            return ""
        picture, path = last.picture(), next(variables["image_path_iterator"])
        last.save(path)
        name = Path(path).relative_to(settings["src_dir"]).as_posix()
        return f"""
.. image-sg:: /{name}
   :alt: {" ".join(picture.description.split())}
   :srcset: /{name}
   :class: sphx-glr-single-img

*{" ".join(escaped(picture.caption).split())}*
"""


class EmbeddedReports:
    """Moves the pages that a gallery script wrote into the site, and shows them in a frame."""

    def __repr__(self) -> str:
        return "EmbeddedReports"

    def __call__(self, block: Any, variables: Any, settings: Any) -> str:
        frames = []
        for page in sorted(Path.cwd().glob("*.html")):
            REPORTS.mkdir(parents=True, exist_ok=True)
            shutil.move(page, REPORTS / page.name)
            frames.append(
                f"""
.. raw:: html

   <iframe class="report" src="../reports/{page.name}" loading="lazy"
     title="The report of this example"></iframe>
   <p class="report"><a href="../reports/{page.name}">Open the report in a page of its own</a></p>
"""
            )
        return "\n".join(frames)
