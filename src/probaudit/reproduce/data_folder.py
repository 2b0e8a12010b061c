"""The folder of predictions that a user provides with `--data`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..data.predictions import Predictions
from ..engines.good_rows import GoodRows
from ..errors import InputError
from ..files.tables import table_of_file
from ..training.images import DEBIAN_FOLDER

OUTPUTS = ("logits", "probs")
FASHION = "fashion-mnist"


@dataclass(frozen=True)
class DataFolder:
    """A folder of .npz files with `labels` [n], whole numbers from 0, and `logits` or `probs`
    [n, K]. They may also have `features` [n, d]. docs/reproduce.md lists the names of the files."""

    path: Path | None

    @classmethod
    def of(cls, path: Path | None) -> DataFolder:
        if path is not None and not path.is_dir():
            raise InputError("data", "must be a folder that exists", str(path))
        return cls(path)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of the names that have no file."""
        return [name for name in names if self.path is None or not self._file(name).is_file()]

    def rows(self, name: str) -> Predictions:
        """The predictions of a file, checked."""
        file = self._file(name)
        arrays = table_of_file(file)
        kinds = [kind for kind in OUTPUTS if kind in arrays]
        if "labels" not in arrays or len(kinds) != 1:
            rule = "a file must have an array `labels`, and one of `logits` and `probs`"
            raise InputError("data", rule, f"{file}: {', '.join(arrays) or 'no array'}")
        try:
            rows = Predictions(
                arrays["labels"],
                arrays[kinds[0]],
                features=arrays.get("features"),
                from_logits=kinds[0] == "logits",
            )
            GoodRows.of(rows)  # checks values
        except InputError as problem:
            rule = "a file must have valid predictions"
            raise InputError("data", rule, f"{file}: {problem}") from None
        return rows

    @property
    def images(self) -> Path:
        """The folder of Fashion-MNIST: of this folder, or else that of the Debian package."""
        own = None if self.path is None else self.path / FASHION
        return own if own is not None and own.is_dir() else Path(DEBIAN_FOLDER)

    def fingerprint(self, name: str) -> str:
        """Identifies the content of a file."""
        return hashlib.sha256(self._file(name).read_bytes()).hexdigest()

    def _file(self, name: str) -> Path:
        if self.path is None:
            raise InputError("data", f"is required for {name}")
        return self.path / f"{name}.npz"
