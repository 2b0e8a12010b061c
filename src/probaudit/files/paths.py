"""Paths: the files that a source names, and the columns that folders called name=value add."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..data.extras import needed
from ..errors import InputError, nearest

SUFFIXES = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
COMPRESSED = (".gz", ".zst")  # endings after that of a text file, such as .csv.gz
TEXT = ("csv", "jsonl")
ARRAYS = ("npz", "npy")  # formats that are read whole, in memory
RENAME = "save it in one of these formats, or rename it if it has one of them"
WAYS_OUT = {  # by the ending of files that are often given
    ".json": "write one JSON object per line, as .jsonl",
    ".pkl": "pickled files are never opened, because they can run code: save the arrays as .npz",
    ".pt": "save the tensors as .npz: numpy.savez(path, label=labels, logits=logits)",
    ".xls": "save the sheet as CSV",
    ".xlsx": "save the sheet as CSV",
}
MISSING = "__HIVE_DEFAULT_PARTITION__"  # Hive's folder name for a missing value

Folders = Mapping[str, Any]  # one Arrow scalar per column that folders name


def is_path(source: Any) -> bool:
    """Whether a source is a path or a list of paths."""
    several = (
        isinstance(source, (list, tuple))
        and len(source) > 0
        and all(isinstance(p, (str, Path)) for p in source)
    )
    return several or isinstance(source, (str, Path))


def files_of(source: Any) -> tuple[Path, ...]:
    """The files of a path, a folder, a pattern such as "day-*.parquet", or a list of these, sorted
    by path and without duplicates.

    A folder stands for all readable files in it and its subfolders, except names that begin with a
    dot or an underscore.
    """
    return tuple(_expanded_source(source))


def folders_of(source: Any) -> dict[Path, Folders]:
    """The same files, each with the columns that its folders name: "day=3/part.parquet" below a
    given folder or pattern has a column `day`. As in Arrow, a column is int32 if all its values are
    whole numbers, and text otherwise."""
    files = _expanded_source(source)
    if not all(form_of(path) in ARRAYS for path in files):
        needed("pyarrow", "Reading these files")
    columns: dict[str, list[str | None]] = {}
    for named in files.values():
        for name, text in named.items():
            columns.setdefault(name, []).append(text)
    values = {name: _typed(texts) for name, texts in columns.items()}
    return {
        path: {name: values[name][text] for name, text in named.items()}
        for path, named in files.items()
    }


def _typed(texts: Sequence[str | None]) -> dict[str | None, Any]:
    """The Arrow scalar of each text."""
    import pyarrow as pa

    column = pa.array(texts, pa.string())
    with contextlib.suppress(pa.ArrowInvalid):
        column = column.cast(pa.int32())
    return dict(zip(texts, column, strict=True))


def _expanded_source(source: Any) -> dict[Path, dict[str, str | None]]:
    """Files in the order of their paths, each with the columns that its folders name."""
    if not is_path(source):
        raise InputError("source", "must be a path or a list of paths", type(source).__name__)
    found: dict[Path, dict[str, str | None]] = {}
    for given in [source] if isinstance(source, (str, Path)) else source:
        root, files = _expanded(Path(given))
        for path in files:
            named = _folder_columns(path.relative_to(root).parts[:-1])
            if named and form_of(path) in ARRAYS:
                column = repr(next(iter(named)))
                raise InputError(
                    "source",
                    f"an {ending_of(path)} file cannot have a column {column} from its folder",
                    str(path),
                    way_out=("give the path of the file itself",),
                )
            found[path] = found.get(path, {}) | named
    return dict(sorted(found.items()))


def _folder_columns(folders: Iterable[str]) -> dict[str, str | None]:
    """The columns that folders called name=value add.

    >>> _folder_columns(["2024", "day=3", "site=S%C3%A3o Paulo"])
    {'day': '3', 'site': 'São Paulo'}
    """
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder[1:]]
    return {unquote(name): None if value == MISSING else unquote(value) for name, value in pairs}


def fixed_part(path: Path) -> Path:
    """The folders of a pattern before the first part with a wildcard; all of any other path."""
    parts = path.parts
    wild = [place for place, part in enumerate(parts) if any(sign in part for sign in "*?[")]
    return path if not wild or path.exists() else Path(*parts[: wild[0]])


def _expanded(path: Path) -> tuple[Path, list[Path]]:
    """The files that a path names, and the folder from which they were searched."""
    if path.is_dir():
        files = _inside(path, path.rglob("*"))
        if not files:
            endings = ", ".join(SUFFIXES)
            rule = (
                f"must be a file that exists, or a folder with files that end in one of {endings}"
            )
            raise InputError("source", rule, str(path))
        return path, files
    root = fixed_part(path)
    if root != path:
        matched = list(root.glob(str(path.relative_to(root))))
        files = [
            file
            for folder in matched
            if folder.is_dir()
            for file in _inside(root, folder.rglob("*"))
        ]
        files += _inside(root, matched, named=1)
        if not files:
            raise InputError("source", "must match a file that can be read", str(path))
        return root, files
    form_of(path)
    if not path.is_file():
        inside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        way_out = nearest(path.name, inside)
        raise InputError("source", "must be a file that exists", str(path), way_out=way_out)
    return path.parent, [path]


def _inside(root: Path, paths: Iterable[Path], named: int = 0) -> list[Path]:
    """The readable files, without hidden ones. The last `named` parts of a path may be hidden,
    because the caller named them."""
    files = [path for path in paths if is_readable(path) and path.is_file()]
    parts = [path.relative_to(root).parts for path in files]
    return [
        path
        for path, own in zip(files, parts, strict=True)
        if not any(p[0] in "._" for p in own[: len(own) - named])
    ]


def ending_of(path: Path) -> str:
    """The ending of the name that tells the format, which a compressed file has before the last
    one.

    >>> ending_of(Path("preds.CSV.gz")), ending_of(Path("preds.v2.parquet"))
    ('.csv', '.parquet')
    """
    named = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return named.suffix.lower()


def is_readable(path: Path) -> bool:
    """Whether the ending of a name is that of a file that can be read."""
    form = SUFFIXES.get(ending_of(path))
    return form in TEXT if path.suffix.lower() in COMPRESSED else form is not None


def form_of(path: Path) -> str:
    """The file format, by the ending of the name."""
    if is_readable(path):
        return SUFFIXES[ending_of(path)]
    if path.suffix.lower() in COMPRESSED:
        raise InputError(
            "source",
            "only .csv, .tsv and .jsonl files may be compressed as a whole",
            str(path),
            way_out=("decompress it",),
        )
    rule = f"must end in one of {', '.join(SUFFIXES)}; text also in .gz or .zst after that"
    raise InputError("source", rule, str(path), way_out=(WAYS_OUT.get(ending_of(path), RENAME),))
