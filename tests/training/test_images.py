"""Image data from IDX files, CIFAR files and folders. None of it needs torch."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import probaudit as pb
from probaudit.training import FASHION_CLASSES, cifar, fashion_mnist, folder_dataset
from probaudit.training.images import DEBIAN_FOLDER

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (5, 28, 28), np.uint8)
LABELS = np.uint8([3, 0, 9, 1, 3])


def idx(array: np.ndarray) -> bytes:
    """The IDX format: two zeros, the type of bytes, the number of dimensions, sizes, values."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(PIXELS)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS))
    return tmp_path


def test_fashion_mnist_reads_compressed_and_plain_files(folder):
    images, labels = fashion_mnist("train", folder=folder)
    assert images.shape == (5, 1, 28, 28)
    assert images.dtype == np.float32
    np.testing.assert_allclose(images[:, 0], PIXELS / 255, rtol=1e-6)
    np.testing.assert_array_equal(labels, LABELS)
    some, few = fashion_mnist("train", folder=folder, rows=2)
    np.testing.assert_array_equal(some, images[:2])
    assert few.tolist() == [3, 0]


def test_fashion_mnist_errors(folder):
    with pytest.raises(pb.InputError, match=r"needs a file t10k-images.*dataset-fashion-mnist"):
        fashion_mnist("test", folder=folder)
    with pytest.raises(pb.InputError, match=r'`part`: must be "train" or "test"'):
        fashion_mnist("valid", folder=folder)
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(LABELS)[:-1])
    with pytest.raises(pb.InputError, match=r"must have 5 values .* has 4"):
        fashion_mnist("train", folder=folder)
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:3]))
    with pytest.raises(pb.InputError, match="needs one label for each image"):
        fashion_mnist("train", folder=folder)
    (folder / "train-labels-idx1-ubyte").write_bytes(b"text")
    with pytest.raises(pb.InputError, match="must be an IDX file of bytes"):
        fashion_mnist("train", folder=folder)


@pytest.mark.skipif(not Path(DEBIAN_FOLDER).is_dir(), reason="dataset-fashion-mnist is absent")
def test_the_debian_package():
    images, labels = fashion_mnist("test")
    assert images.shape == (10000, 1, 28, 28)
    # 1,000 images of each class: Xiao et al. 2017, section 2
    assert np.bincount(labels).tolist() == [1000] * len(FASHION_CLASSES)


def test_cifar_10_and_100(tmp_path):
    images = RANDOM.integers(0, 256, (3, 3 * 32 * 32), np.uint8)
    ten = np.column_stack([np.uint8([7, 1, 2]), images])
    ten[:2].tofile(tmp_path / "data_batch_1.bin")
    ten[2:].tofile(tmp_path / "data_batch_2.bin")
    found, labels = cifar(tmp_path)
    assert labels.tolist() == [7, 1, 2]
    np.testing.assert_allclose(found.reshape(3, -1), images / 255, rtol=1e-6)
    hundred = np.column_stack([np.uint8([1, 1, 2]), np.uint8([70, 80, 99]), images])
    hundred.tofile(tmp_path / "test.bin")
    found, labels = cifar(tmp_path, "test", rows=2)
    assert labels.tolist() == [70, 80]
    np.testing.assert_allclose(found.reshape(2, -1), images[:2] / 255, rtol=1e-6)


def test_cifar_errors(tmp_path):
    with pytest.raises(pb.InputError, match=r"`folder`: needs data_batch_\*.bin \(CIFAR-10\)"):
        cifar(tmp_path)
    (tmp_path / "test.bin").write_bytes(b"short")
    with pytest.raises(pb.InputError, match=r"need 3074 bytes per image \(found: 5 bytes\)"):
        cifar(tmp_path, "test")


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 255, 0))):
        (tmp_path / name).mkdir()
        image.new("RGB", (40, 30), colour).save(tmp_path / name / "one.png")
    image.new("L", (16, 50), 255).save(tmp_path / "dog" / "two.jpg")
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    return tmp_path


def test_folders_of_images(photographs):
    found = folder_dataset(photographs, size=14, mean=(0, 0, 0), std=(1, 1, 0.5))
    assert found.classes == ("cat", "dog")
    assert len(found) == 3
    images, labels = zip(*[found[place] for place in range(3)], strict=True)
    assert labels == (0, 1, 1)
    assert {each.shape for each in images} == {(3, 14, 14)}
    assert images[0][:, 7, 7].tolist() == [1, 0, 0]
    np.testing.assert_allclose(images[2][:, 7, 7], [1, 1, 2], atol=0.02)


def test_the_crop_is_the_centre(tmp_path):
    """A 16x16 image with a bright middle: scaled by 1 (8/7 of 14 is 16), then one pixel is cut from
    each side."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pixels = RANDOM.integers(0, 256, (16, 16, 3), np.uint8)
    (tmp_path / "a").mkdir()
    image.fromarray(pixels).save(tmp_path / "a" / "one.png")
    found, _ = folder_dataset(tmp_path, size=14, mean=(0, 0, 0), std=(1, 1, 1))[0]
    np.testing.assert_allclose(found, pixels[1:15, 1:15].transpose(2, 0, 1) / 255, rtol=1e-6)


def test_folder_errors(photographs, tmp_path):
    with pytest.raises(pb.InputError, match="must be a folder that exists"):
        folder_dataset(tmp_path / "absent")
    with pytest.raises(pb.InputError, match=r"needs subfolders with images.*no subfolder"):
        folder_dataset(photographs / "cat")
    (photographs / "empty").mkdir()
    with pytest.raises(pb.InputError, match=r"needs subfolders with images.*empty"):
        folder_dataset(photographs)
    (photographs / "empty" / "damaged.png").write_bytes(b"not a picture")
    with pytest.raises(pb.InputError, match=r"must hold readable images .*damaged.png"):
        folder_dataset(photographs)[3]
    with pytest.raises(pb.InputError, match="`size`: must be at least 1"):
        folder_dataset(photographs, size=0)
