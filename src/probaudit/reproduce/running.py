"""Run the experiments of a paper. Each result is stored when it is complete, so that an interrupted
run resumes where it stopped."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError
from ..files.writing import write_text
from ..text import listed
from ..version import __version__
from .data_folder import FASHION, DataFolder
from .outcome import Outcome
from .papers import MODULES, Experiment, Paper
from .reproduction import Done, LeftOut, Reproduction
from .trained import Networks, training_source

Mode = Literal["quick", "full"]
Report = Callable[[str], None]


def reproduce(
    paper: Paper, output: Path, data: DataFolder, *, quick: bool = False, report: Report
) -> Reproduction:
    """Run the experiments that can run, and load those that are stored.

    output : the folder of stored results. A stored result is used if the version of probaudit, the
        modules of the paper, the settings and the files are the same.
    report : called with a line of progress.
    """
    mode: Mode = "quick" if quick else "full"
    networks = Networks(output / "stored" / "networks", data.images)
    reasons = {one.name: _obstacle(one, data) for one in paper.experiments}
    ready = [one for one in paper.experiments if not reasons[one.name]]
    for name in sorted({name for one in ready for name in one.files}):
        data.rows(name)  # a malformed file stops the run before any work
    folder = output / "stored" / f"paper-{paper.number}" / mode
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        rule = "could not be written"
        raise InputError("output", rule, f"{output}: {problem.strerror}") from None
    done = {}
    for one in ready:
        stored = Stored(folder / f"{one.name}.json", _key(paper, one, data, mode))
        found = stored.load()
        how = "stored"
        if found is None:
            found = _run(one, data, networks, mode)
            stored.save(found)
            how = f"{found.seconds:.1f} s"
        report(f"paper {paper.number}, {one.title}: {how}")
        done[one.name] = found
    left_out = [
        LeftOut(one.name, one.title, reasons[one.name])
        for one in paper.experiments
        if reasons[one.name]
    ]
    return Reproduction(paper, mode, done, tuple(left_out))


def _obstacle(experiment: Experiment, data: DataFolder) -> str:
    """Why an experiment cannot run; "" if it can."""
    needed = (*experiment.packages, *(("torch",) if experiment.trains else ()))
    packages = [name for name in needed if find_spec(name) is None]
    if packages:
        return f"requires {listed(packages)}, which is not installed"
    if experiment.trains and not Path(data.images).is_dir():
        return (
            "requires Fashion-MNIST: install the Debian package dataset-fashion-mnist, or put its "
            f"four IDX files into the folder {FASHION} of --data FOLDER"
        )
    files = [f"{name}.npz" for name in data.missing(experiment.files)]
    if not files:
        return ""
    where = "--data FOLDER" if data.path is None else f"the folder {data.path}"
    return f"requires {listed(files)} in {where}"


def _settings(experiment: Experiment, mode: Mode) -> dict[str, Any]:
    return dict(experiment.quick if mode == "quick" else experiment.full)


def _run(experiment: Experiment, data: DataFolder, networks: Networks, mode: Mode) -> Done:
    start = time.perf_counter()
    rows = [data.rows(name) for name in experiment.files]
    settings = _settings(experiment, mode)
    trained = {"networks": networks} if experiment.trains else {}
    outcome = experiment.run(*rows, **trained, **settings)
    return Done(outcome, settings, round(time.perf_counter() - start, 3))


def _key(paper: Paper, experiment: Experiment, data: DataFolder, mode: Mode) -> str:
    """Identifies everything that a result depends on."""
    parts = {
        "version": __version__,
        "source": _source(MODULES[paper.number]),
        "name": experiment.name,
        "settings": _settings(experiment, mode),
        "networks": training_source() if experiment.trains else "",
        "files": {name: data.fingerprint(name) for name in experiment.files},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.cache
def _source(module: str) -> str:
    """Identifies the modules and the printed values of a paper, which begin with its name."""
    folder = Path(__file__).parent
    found = hashlib.sha256()
    for path in sorted([*folder.glob(f"{module}*.py"), *folder.glob(f"printed/{module}*.csv")]):
        found.update(path.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Stored:
    """The file of a result, and the key it must have."""

    path: Path
    key: str

    def load(self) -> Done | None:
        """The result, unless there is none or it is of another version, setting or file."""
        try:
            stored = json.loads(self.path.read_text("utf-8"))
            if stored["key"] != self.key:
                return None
            outcome = Outcome.of_dict(stored["outcome"])
            return Done(outcome, stored["settings"], stored["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, done: Done) -> None:
        """Write atomically."""
        content = {"key": self.key, "settings": dict(done.settings), "seconds": done.seconds}
        content |= {"outcome": done.outcome.to_dict()}
        write_text(self.path, json.dumps(content, allow_nan=False, ensure_ascii=False))
