"""Images with labels: Fashion-MNIST and CIFAR from their own files, and folders of images."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..data.extras import needed
from ..errors import InputError
from ..text import listed

Part = Literal["train", "test"]

DEBIAN_FOLDER = "/usr/share/datasets/fashion-mnist"  # of the package dataset-fashion-mnist
FASHION_CLASSES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".webp")
CIFAR_PIXELS = 3 * 32 * 32


def fashion_mnist(
    part: Part = "train", *, folder: str | Path = DEBIAN_FOLDER, rows: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 1, 28, 28], float32 in [0, 1], and labels 0 to 9 of Fashion-MNIST (Xiao et al.
    2017). `FASHION_CLASSES` names the labels.

    part : "train" (60,000 images) or "test" (10,000).
    folder : where the four IDX files are, compressed or not; by default where the Debian package
        `dataset-fashion-mnist` installs them. MNIST has files of the same names and format.
    rows : only the first rows. The files are in random order.
    """
    _check_part(part)
    stem = {"train": "train", "test": "t10k"}[part]
    images = read_idx(_idx_file(folder, f"{stem}-images-idx3-ubyte"), rows)
    labels = read_idx(_idx_file(folder, f"{stem}-labels-idx1-ubyte"), rows)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        found = f"images {images.shape}, labels {labels.shape}"
        raise InputError("folder", "needs one label for each image", found)
    return (images[:, None] / np.float32(255)).astype(np.float32), labels.astype(np.int64)


def _check_part(part: str) -> None:
    if part not in ("train", "test"):
        raise InputError("part", 'must be "train" or "test"', repr(part))


def _idx_file(folder: str | Path, name: str) -> Path:
    for path in (Path(folder) / name, Path(folder) / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(
        "folder",
        f"needs a file {name}, or {name}.gz",
        str(folder),
        way_out=("pass the folder of the IDX files, or `apt install dataset-fashion-mnist`",),
    )


def read_idx(path: str | Path, rows: int | None = None) -> np.ndarray:
    """An array of bytes from an IDX file (the format of MNIST), compressed if its name ends in .gz.

    rows : only the first rows.
    """
    path = Path(path)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        magic = file.read(4)
        if len(magic) < 4 or magic[:3] != b"\0\0\x08":
            raise InputError("path", "must be an IDX file of bytes", f"{path} begins {magic!r}")
        shape = np.frombuffer(file.read(4 * magic[3]), ">u4").astype(int)
        if rows is not None:
            shape[0] = min(rows, shape[0])
        content = file.read(int(shape.prod()))
    if len(content) < shape.prod():
        raise InputError("path", f"must have {shape.prod()} values", f"{path} has {len(content)}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def cifar(
    folder: str | Path, part: Part = "train", *, rows: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, 3, 32, 32], float32 in [0, 1], and labels of CIFAR-10 or CIFAR-100 (Krizhevsky
    2009), from a folder with the binary version (`data_batch_1.bin`, or `train.bin`).

    CIFAR-100 has its 100 fine labels. rows : only the first rows.
    """
    _check_part(part)
    ten = "data_batch_*.bin" if part == "train" else "test_batch.bin"
    files = sorted(Path(folder).glob(ten)) or sorted(Path(folder).glob(f"{part}.bin"))
    if not files:
        rule = f"needs {ten} (CIFAR-10) or {part}.bin (CIFAR-100), of the binary version"
        raise InputError("folder", rule, str(folder))
    labels = 2 if files[0].name == f"{part}.bin" else 1  # the coarse label comes first
    size = labels + CIFAR_PIXELS
    content = np.concatenate([np.fromfile(path, np.uint8) for path in files])
    if len(content) % size:
        rule = f"the files of {folder} need {size} bytes per image"
        raise InputError("folder", rule, f"{len(content)} bytes")
    content = content.reshape(-1, size)[:rows]
    images = content[:, labels:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    return images, content[:, labels - 1].astype(np.int64)


@dataclass(frozen=True)
class ImageFolder:
    """Images of class folders, read one at a time; see `folder_dataset`."""

    path: Path
    size: int
    mean: Sequence[float] = field(repr=False)
    std: Sequence[float] = field(repr=False)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the class folders, sorted; their places are the labels."""
        return tuple(sorted(path.name for path in self.path.iterdir() if path.is_dir()))

    @cached_property
    def files(self) -> list[tuple[Path, int]]:
        """All images, each with its label."""
        return [
            (file, label)
            for label, name in enumerate(self.classes)
            for file in sorted((self.path / name).rglob("*"))
            if file.suffix.lower() in SUFFIXES
        ]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place: int) -> tuple[np.ndarray, int]:
        image = needed("PIL.Image", "Reading images")
        path, label = self.files[place]
        try:
            with image.open(path) as opened:
                pixels = self._cropped(opened.convert("RGB"))
        except OSError as problem:
            raise InputError("path", "must hold readable images", f"{path}: {problem}") from None
        mean, std = (np.array(channels, np.float32) for channels in (self.mean, self.std))
        values = np.asarray(pixels, np.float32) / np.float32(255)
        return ((values - mean) / std).transpose(2, 0, 1), label

    def _cropped(self, image: Any) -> Any:
        """The usual view of ImageNet: the shorter side scaled to 8/7 of the size, then the
        centre."""
        scale = round(self.size * 8 / 7) / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        resized = image.resize((width, height), resample=2)  # bilinear
        return resized.crop((left, top, left + self.size, top + self.size))


def folder_dataset(
    path: str | Path,
    *,
    size: int = 224,
    mean: Sequence[float] = (0.485, 0.456, 0.406),
    std: Sequence[float] = (0.229, 0.224, 0.225),
) -> ImageFolder:
    """The images of a folder with one subfolder per class, as ImageNet is stored: a data set for
    `torch.utils.data.DataLoader`. Images are read with Pillow when they are needed.

    size : the height and width of the central crop, after the shorter side was scaled to 8/7 of it.
    mean, std : of each channel, subtracted and divided by; those of ImageNet by default.

    The subfolders, sorted by name, are the classes 0, 1, ... in `.classes`.
    """
    if size < 1:
        raise InputError("size", "must be at least 1", size)
    found = ImageFolder(Path(path), size, tuple(mean), tuple(std))
    if not Path(path).is_dir():
        raise InputError("path", "must be a folder that exists", str(path))
    empty = sorted(set(range(len(found.classes))) - {label for _, label in found.files})
    if empty or not found.classes:
        rule = f"needs subfolders with images ({', '.join(SUFFIXES)}), one per class"
        named = listed([found.classes[label] for label in empty]) if empty else "no subfolder"
        raise InputError("path", rule, f"{path}: {named}")
    return found
