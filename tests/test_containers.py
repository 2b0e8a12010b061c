"""The steps of the documented images, run in a folder instead of a container.

Absolute paths become paths in that folder, `pip install` uses the packages of this environment, and
`USER` is left out; everything else runs as it is written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
(PAGE,) = re.findall(
    r"```dockerfile\n(.*?)```", (ROOT / "docs" / "first-run.md").read_text("utf-8"), re.DOTALL
)
IMAGES = {"Dockerfile": (ROOT / "Dockerfile").read_text("utf-8"), "docs/first-run.md": PAGE}
KNOWN = {"FROM", "ARG", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}
REQUIREMENT = "probaudit"


class Image(NamedTuple):
    """The RUN steps of an image, its variables, and the command that it starts."""

    steps: list[str]
    variables: dict[str, str]
    command: list[str]


def parsed(text: str, root: Path) -> Image:
    """An image whose folders are in `root`."""
    text = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", "")
    text = re.sub(r"(?<=[\s=\"])/(opt|data)\b", rf"{root}/\1", text)
    steps, variables, command = [], {}, []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, content = line.partition(" ")
        assert name in KNOWN, line
        if name in ("ARG", "ENV"):
            key, _, value = content.partition("=")
            variables[key] = value.strip('"')
        elif name == "WORKDIR":
            Path(content).mkdir()
        elif name in ("ENTRYPOINT", "CMD"):
            command += json.loads(content)
        elif name == "RUN":
            steps.append(content)
    return Image(steps, variables, command)


@pytest.mark.parametrize("name", IMAGES)
def test_images_install_and_then_warm_up_in_a_folder_that_stays(name, tmp_path):
    image = parsed(IMAGES[name], tmp_path)
    install, warm_up = image.steps
    assert install.startswith("pip install")
    folder = image.variables["NUMBA_CACHE_DIR"]
    assert folder.startswith(str(tmp_path))
    assert "probaudit warm-up" in warm_up
    assert warm_up.endswith((f"chmod -R a+rX {folder}", 'chmod -R a+rX "$NUMBA_CACHE_DIR"'))
    assert image.command[0] == "probaudit"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {done.stderr[-300:]}")
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A fresh environment, which sees the packages of this one but not probaudit itself."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    (site,) = home.glob("lib/python*/site-packages")
    for path in map(Path, sys.path):
        for package in path.iterdir() if path.name == "site-packages" else ():
            if "probaudit" not in package.name and package.suffix not in (".pth", ".pyc"):
                (site / package.name).exists() or (site / package.name).symlink_to(package)
    return home / "bin"


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", IMAGES)
def test_the_steps_of_an_image_run(name, tmp_path, wheel, programs):
    image = parsed(IMAGES[name], tmp_path)
    (tmp_path / "opt").mkdir()
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables |= image.variables | {"PATH": f"{programs}:{os.environ['PATH']}"}
    if "REQUIREMENT" in variables:
        variables["REQUIREMENT"] = str(wheel)

    def shell(script):
        done = subprocess.run(
            ["bash", "-ec", script], env=variables, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr[-2000:]}"
        return done.stdout

    install, *others = image.steps
    shell(re.sub(rf" {REQUIREMENT}$", f" {wheel}", install) + " --force-reinstall --no-deps")
    for step in others:
        assert re.search(r"Kernels compiled: [1-9]", shell(step))
    folder = image.variables["NUMBA_CACHE_DIR"]
    stored = sorted(Path(folder).rglob("*.nbi"))
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in stored)
    rows = "\n".join(f"{k % 2},{0.3 + 0.4 * (k % 2)}" for k in range(100))
    (tmp_path / "preds.csv").write_text(f"label,p\n{rows}\n")
    assert "Usage" in shell(" ".join([*image.command[:1], "--help"]))
    assert "ok " in shell(f"{image.command[0]} check preds.csv --probs p --max ece=1")
    assert "Kernels compiled: 0." in shell("probaudit warm-up")
    assert sorted(Path(folder).rglob("*.nbi")) == stored
