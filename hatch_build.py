"""Build step: bundle Vega, Vega-Lite and Vega-Embed into the package.

The script is too large for the repository. This step runs for wheels and for editable installs;
only it needs vl-convert. At run time, a report then needs no network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "src/probaudit/report/page/vega.js"


class VegaHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        import vl_convert

        script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        Path(self.root, SCRIPT).write_text(script, "utf-8", newline="\n")
