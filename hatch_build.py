"""Build steps: bundle Vega, Vega-Lite and Vega-Embed, and compile the kernels for this platform.

The script is too large for the repository. Its step runs for wheels and for editable installs; only
it needs vl-convert. At run time, a report then needs no network.

PROBAUDIT_PLATFORM_WHEEL=1 puts compiled kernels into a wheel, which is then for one platform and
one version of Python. Releases do so; it takes minutes. Without them, a wheel runs everywhere, and
compiles at first use what it needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "src/probaudit/report/page/vega.js"
COMPILED = "src/probaudit/kernels/compiled"
PLATFORM = os.environ.get("PROBAUDIT_PLATFORM_WHEEL", "") not in ("", "0")
COMPILE = "from probaudit.kernels.signatures import compile_listed; compile_listed()"


class BuildHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """What a build needs beyond pyproject.toml: kernels are compiled with numba."""
        return ["numba>=0.68", "numpy>=2.0"] if PLATFORM else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        import vl_convert

        script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        Path(self.root, SCRIPT).write_text(script, "utf-8", newline="\n")
        shutil.rmtree(Path(self.root, COMPILED), ignore_errors=True)
        if version != "editable" and PLATFORM and self._compile():
            build_data |= {"pure_python": False, "infer_tag": True}

    def _compile(self) -> bool:
        """Compile the kernels for each target of this platform; returns whether there are any."""
        sys.path.insert(0, str(Path(self.root, "src")))
        try:
            from probaudit.kernels.targets import targets
        except ImportError as error:
            self.app.display_warning(f"no compiled kernels: {error}")
            return False
        with tempfile.TemporaryDirectory() as folder:
            jobs = [self._started(folder, *target) for target in targets()]
            codes = [job.wait() for job in jobs]
            if not jobs or any(codes):
                self.app.display_warning("no compiled kernels: they compile at first use")
                return False
            Path(self.root, COMPILED).mkdir()
            for path in Path(folder).rglob("*.nb[ci]"):
                shutil.copy(path, Path(self.root, COMPILED))
        return True

    def _started(self, folder: str, name: str, features: str) -> subprocess.Popen[bytes]:
        path = filter(None, [os.environ.get("PYTHONPATH")])
        settings = {
            "NUMBA_CPU_NAME": name,
            "NUMBA_CPU_FEATURES": features,
            "NUMBA_CACHE_DIR": folder,
            # after it, where pip put the packages of the build
            "PYTHONPATH": os.pathsep.join([str(Path(self.root, "src")), *path]),
        }
        return subprocess.Popen([sys.executable, "-c", COMPILE], env=os.environ | settings)
