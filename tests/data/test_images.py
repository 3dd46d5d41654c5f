import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data import images
from deep_patch_learning.data.images import IMAGE_SUFFIXES, image_size, pixels_of, problem, read_image
from deep_patch_learning.data.readers.read import recognise
from deep_patch_learning.patches.cache import PatchCache
from deep_patch_learning.patches.generator import generator

CORNERS = [[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 255)]]  # red green / blue white
# How a camera stores an upright image U for each EXIF orientation, in array terms.
STORED = {
    1: lambda u: u,
    2: lambda u: u[:, ::-1],
    3: lambda u: u[::-1, ::-1],
    4: lambda u: u[::-1],
    5: lambda u: u.transpose(1, 0, 2),
    6: lambda u: np.rot90(u),  # must be turned 90 degrees clockwise to stand upright
    7: lambda u: u[::-1, ::-1].transpose(1, 0, 2),
    8: lambda u: np.rot90(u, -1),
}


def upright_image() -> np.ndarray:
    """Return a 48 x 64 image with a colour of its own in each quarter."""
    return np.array(CORNERS, np.uint8).repeat(24, axis=0).repeat(32, axis=1)


def jpeg(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_comes_out_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = upright_image()
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a{suffix}"
    Image.fromarray(np.ascontiguousarray(STORED[orientation](upright))).save(path, exif=exif)
    read = read_image(path)
    assert read.shape == upright.shape
    # Away from the seams between the quarters, where JPEG mixes colours.
    for y, x in ((4, 4), (4, 60), (44, 4), (44, 60)):
        assert np.abs(read[y, x].astype(int) - upright[y, x]).max() < 12, (y, x)


@pytest.mark.parametrize("exif", [b"Exif\0\0rubbish", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_exif_that_cannot_be_parsed_does_not_spoil_a_good_image(tmp_path: Path, exif: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(Image.new("RGB", (4, 3)), exif=exif))
    assert read_image(path).shape == (3, 4, 3)


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_orientation_outside_the_standard_leaves_the_pixels_as_they_lie(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png").shape == (3, 4, 3)


def palette_with_a_transparent_index() -> Image.Image:
    image = Image.new("P", (5, 4), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.info["transparency"] = 1
    return image


MODES = [
    ("grey.png", Image.new("L", (5, 4), 77), (77, 77, 77)),
    ("grey.jpg", Image.new("L", (5, 4), 77), (77, 77, 77)),
    ("bilevel.png", Image.new("1", (5, 4), 1), (255, 255, 255)),
    ("palette.png", Image.new("RGB", (5, 4), (10, 20, 30)).convert("P"), None),
    ("animation.gif", Image.new("P", (5, 4), 0), None),
    ("cmyk.jpg", Image.new("CMYK", (5, 4), (0, 255, 255, 0)), (254, 0, 0)),
    ("opaque.png", Image.new("RGBA", (5, 4), (10, 20, 30, 255)), (10, 20, 30)),
    ("clear.png", Image.new("RGBA", (5, 4), (10, 20, 30, 0)), (255, 255, 255)),
    ("half.png", Image.new("LA", (5, 4), (0, 128)), (127, 127, 127)),
    ("clear-palette.png", palette_with_a_transparent_index(), (255, 255, 255)),
    ("grey16.png", Image.fromarray(np.full((4, 5), 0x8001, np.uint16)), (128, 128, 128)),
    ("dark16.png", Image.fromarray(np.full((4, 5), 200, np.uint16)), (0, 0, 0)),
    ("grey16.tif", Image.fromarray(np.full((4, 5), 0xFFFF, np.uint16)), (255, 255, 255)),
    ("int32.tif", Image.fromarray(np.full((4, 5), 90, np.int32)), (90, 90, 90)),
    ("float.tif", Image.fromarray(np.full((4, 5), 0.5, np.float32)), (128, 128, 128)),
    ("float255.tif", Image.fromarray(np.full((4, 5), 90.0, np.float32)), (90, 90, 90)),
]


@pytest.mark.parametrize(("name", "image", "wanted"), MODES, ids=[mode[0] for mode in MODES])
def test_every_mode_becomes_rgb(tmp_path: Path, name: str, image: Image.Image, wanted: tuple[int, ...] | None) -> None:
    image.save(tmp_path / name)
    read = read_image(tmp_path / name)
    assert read.shape == (4, 5, 3)
    assert read.dtype == np.uint8
    if wanted is not None:
        assert np.abs(read.astype(int) - wanted).max() <= 2


def test_one_pixel_is_an_image(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), (1, 2, 3)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[[1, 2, 3]]]


def test_what_is_read_may_be_written_to(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    read_image(tmp_path / "a.png")[0, 0] = 9


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
BROKEN = [
    ("text.jpg", b"hello, I am a text", ["not an image", "b'hello, I am a te'", "Replace the file"]),
    ("empty.jpg", b"", ["the file is empty (0 bytes)"]),
    ("half.jpg", jpeg(NOISE)[:1500], ["the image is broken", "truncated", "Replace the file"]),
]


@pytest.mark.parametrize(("name", "content", "fragments"), BROKEN, ids=[case[0] for case in BROKEN])
def test_broken_file_is_named_with_its_reason(tmp_path: Path, name: str, content: bytes, fragments: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_image(path)
    for fragment in [str(path), *fragments]:
        assert fragment in str(caught.value)
    assert problem(path) == str(caught.value).removeprefix(f"{path}: ")


def test_missing_folder_and_forbidden_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.jpg").mkdir()
    assert "this is a folder" in (problem(tmp_path / "folder.jpg") or "")
    assert "there is no such image" in (problem(tmp_path / "missing.jpg") or "")
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    assert problem(tmp_path / "a.png") is None
    if os.geteuid() == 0:  # the super-user may read everything; so the refusal is played

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Image, "open", refuse)
    else:
        (tmp_path / "a.png").chmod(0)
    assert "permission denied" in (problem(tmp_path / "a.png") or "")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of odd metadata before it gives up
@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "tif", "webp"])
def test_any_damage_gives_an_image_or_the_one_error(tmp_path: Path, suffix: str) -> None:
    """Bytes overwritten anywhere, or the end cut off: pixels come back, or a `DataError` that names the file."""
    random = np.random.default_rng(1)
    path = tmp_path / f"a.{suffix}"
    (NOISE if suffix in ("jpg", "webp") else NOISE.convert("P")).save(path)
    good = path.read_bytes()
    assert read_image(path).shape == (64, 64, 3)
    failed = 0
    for _ in range(60):
        damaged = bytearray(good)
        for place in random.integers(0, min(len(good), 400), 8):
            damaged[place] = random.integers(0, 256)
        path.write_bytes(damaged[: random.integers(1, len(good))])
        wrong = problem(path)
        if wrong is None:
            read = read_image(path)
            assert read.dtype == np.uint8
            assert read.ndim == 3
            assert read.shape[2] == 3
        else:
            failed += 1
            assert wrong.endswith("remove it from the tags.")
    assert failed >= 20  # most of the damage is noticed


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0))
# Files for which Pillow raises something other than OSError.
ODD = [
    ("a PNG with a short header", ValueError, SIGNATURE + png_chunk(b"IHDR", b"\0\0")),
    (
        "a PNG with a broken chunk",
        SyntaxError,
        SIGNATURE + HEADER + png_chunk(b"IDAT", b"") + b"\0\0\0\1\x94]5\2" + bytes(8),
    ),
]


@pytest.mark.parametrize(("name", "raised", "content"), ODD, ids=[case[0] for case in ODD])
def test_other_errors_of_the_decoder_are_broken_images(
    tmp_path: Path, name: str, raised: type[Exception], content: bytes
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(raised), Image.open(path) as opened:
        opened.load()
    with pytest.raises(DataError, match="the image is broken"):
        read_image(path)


@pytest.mark.parametrize(
    "raised", [struct.error, zlib.error, EOFError, IndexError, KeyError, OverflowError, MemoryError]
)
def test_what_other_versions_of_the_decoder_raise_is_a_broken_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised("odd")

    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(DataError, match=r"a\.png: the image is broken"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("function", ["_upright", "_to_rgb"])
@pytest.mark.parametrize("raised", [ValueError, TypeError, IndexError, AttributeError])
def test_a_bug_of_ours_is_not_called_a_broken_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, raised: type[Exception]
) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")

    def bug(*_: object) -> None:
        raise raised("a bug")

    monkeypatch.setattr(images, function, bug)
    with pytest.raises(raised, match="a bug"):
        read_image(tmp_path / "a.png")


def test_a_bug_in_the_decoding_is_not_called_a_broken_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Image, "open")
    with pytest.raises(AttributeError):
        read_image(tmp_path / "a.png")


def test_an_image_too_large_to_trust_is_not_called_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (30, 30)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert "larger than 200 pixels" in (problem(tmp_path / "a.png") or "")


def test_no_decoder_is_started_that_is_not_meant(tmp_path: Path) -> None:
    """Pillow would hand an EPS file to the program Ghostscript, whatever its name."""
    Image.new("RGB", (20, 10)).save(tmp_path / "a.eps")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.eps").read_bytes())
    with Image.open(tmp_path / "a.jpg") as known:
        assert known.format == "EPS"
    assert "not an image that can be read: found b'%!PS-Adobe" in (problem(tmp_path / "a.jpg") or "")
    with pytest.raises(DataError, match="not an image"):
        image_size(tmp_path / "a.jpg")


def test_every_suffix_has_its_decoder(tmp_path: Path) -> None:
    for suffix in sorted(IMAGE_SUFFIXES):
        Image.new("RGB", (20, 10), (9, 9, 9)).save(tmp_path / f"a{suffix}")
        assert read_image(tmp_path / f"a{suffix}").shape == (10, 20, 3)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(DataError, match=r"a\.jpg: this is a pipe or a device"):
        read_image(tmp_path / "a.jpg")
    os.mkfifo(tmp_path / "tags.csv")
    with pytest.raises(DataError, match=r"tags\.csv: this is a pipe or a device"):
        recognise(tmp_path / "tags.csv")
    cache = PatchCache(tmp_path, generator("sliding-window"))
    assert "pipe" in cache.fill([tmp_path / "a.jpg"]).broken[0][1]


def test_an_image_above_the_limit_is_refused_by_its_header(tmp_path: Path) -> None:
    png = tmp_path / "large.png"
    Image.new("1", (13_000, 13_000)).save(png)  # 21 kB
    assert "13000 x 13000 pixels, wanted at most 120 million" in (problem(png) or "")
    jpeg = tmp_path / "large.jpg"
    Image.new("L", (12_000, 11_000)).save(jpeg, quality=1)
    assert "12000 x 11000 pixels" in (problem(jpeg) or "")
    assert max(read_image(jpeg, enough=256).shape) <= 2000  # decoded at an eighth


def test_what_libtiff_says_does_not_reach_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tif"
    NOISE.save(path, compression="tiff_lzw")
    content = bytearray(path.read_bytes())
    with Image.open(path) as whole:
        start = whole.tag_v2[273][0]  # of the pixels
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    problem(path)
    assert capfd.readouterr().err == ""


def test_transparent_pixels_are_composited_without_another_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.new("RGBA", (3, 2), (10, 20, 30, 0))
    image.getexif()[0x0112] = 6
    monkeypatch.setattr(Image.Image, "convert", None)  # which copies, also where the mode is the same
    found = pixels_of(image)
    assert found.shape == (3, 2, 3)
    assert (found == 255).all()
