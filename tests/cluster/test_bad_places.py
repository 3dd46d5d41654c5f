"""What cannot work is said in one line before any worker starts: addresses, places, folders, shards."""

import http.server
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.cluster import places
from deep_patch_learning.cluster.folder import ChangedError, PartsFolder
from deep_patch_learning.cluster.parts import items_of, read_parts
from deep_patch_learning.cluster.places import UnreachableError, content_of, opened, version_of
from deep_patch_learning.commands.label import label
from deep_patch_learning.commands.patches import patches
from deep_patch_learning.common.errors import DataError, RunError, SettingError
from deep_patch_learning.data.images import read_image
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.shards import samples_of


def dpl(*words: object, **environment: str) -> tuple[int, str]:
    """Return the exit status of a command and what it says on standard error."""
    command = [sys.executable, "-m", "deep_patch_learning", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env=os.environ | environment
    )
    return done.returncode, done.stderr


def test_no_ray_at_an_address_is_one_line(small_world: Path, small_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = ("--engine", "ray", "--address", f"127.0.0.1:{port}", "--out", tmp_path / "out")
    status, said = dpl("label", small_world, "--model", small_run, "--split", "test", *how)
    assert status == 2
    assert said == (
        f"dpl: --address 127.0.0.1:{port}: no Ray answers there (Connection refused). Start one with `ray start --head`, or "
        "correct the address.\n"
    )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"engine": "spark"}, "--engine spark: not known. Choose one of: local, ray"),
        ({"address": "auto"}, "only --engine ray has them"),
        ({"shard_images": 5}, "only --engine ray has them"),
        ({"engine": "ray", "format": "yolo"}, "--format yolo: not with --engine ray"),
        ({"engine": "ray", "address": "somewhere"}, "--address somewhere: wanted HOST:PORT"),
    ],
)
def test_options_that_do_not_fit(
    small_world: Path, small_run: Path, tmp_path: Path, options: dict, wanted: str
) -> None:
    if "address" in options and options.get("engine") == "ray":
        pytest.importorskip("ray")
    with pytest.raises(SettingError, match=wanted):
        label(small_world, small_run, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    if options.get("engine") != "ray":
        with pytest.raises(SettingError, match=wanted):
            patches(small_world, **options)


def test_the_folder_of_another_run_is_refused(small_world: Path, small_run: Path, tmp_path: Path) -> None:
    PartsFolder(tmp_path / "out").begin({"what": "labels", "model": "another"})
    with pytest.raises(RunError, match=r"out: holds another run: model was \"another\", now .*give a new folder"):
        label(small_world, small_run, out=tmp_path / "out", engine="ray", format="parquet")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty, and no run with --engine ray began it"):
        label(small_world, small_run, out=tmp_path / "mine", engine="ray", format="parquet")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_two_commands_do_not_fill_one_folder(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path / "out")
    folder.begin({"what": "labels"})
    with folder.locked(), pytest.raises(RunError, match="another process fills it"), folder.locked():
        pass


def test_changed_data_is_noticed(tmp_path: Path) -> None:
    folder = PartsFolder(tmp_path / "out")
    folder.begin({"what": "labels"})
    facts = {"part": "part-00000", "digest": "before", "source": "a.jpg and the next 3", "broken": []}
    (folder.done / "part-00000.json").write_text(json.dumps(facts))
    assert folder.finished("part-00000", "before") is not None
    with pytest.raises(ChangedError, match=r"other images or tags than a.jpg and the next 3: the data set has changed"):
        folder.finished("part-00000", "now")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"digest": 3}', "\udcff", "[" * 100_000])
def test_a_tampered_note_of_a_part_is_named(tmp_path: Path, content: str) -> None:
    folder = PartsFolder(tmp_path / "out")
    folder.begin({"what": "labels"})
    note = folder.done / "part-00000.json"
    note.write_text(content, errors="surrogateescape")
    with pytest.raises(RunError, match=rf"{note}: is damaged \(.+\)\. Remove it, and repeat the command\."):
        folder.finished("part-00000", "now")


def test_a_shard_that_was_written_again_is_another_one(shards: Path) -> None:
    shard = shards / "000.tar"
    before, size = version_of(str(shard)), shard.stat().st_size
    time.sleep(0.02)
    shard.write_bytes(shard.read_bytes())
    assert shard.stat().st_size == size
    assert version_of(str(shard)) != before


def test_a_missing_shard_is_named(shards: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"003.tar: there is no such shard. Did you mean '00\d.tar'\? Copy it there"):
        read_parts(f"{shards}/{{000..003}}.tar")
    with pytest.raises(DataError, match="no file has such a name"):
        read_parts(f"{shards}/x*.tar")
    parts = read_parts(shards)
    (shards / "002.tar").unlink()
    with pytest.raises(DataError, match=r"002\.tar: there is no such shard"):
        list(map(parts.part, range(3)))


def test_shards_hold_what_was_put_in(shards: Path, tables: Path, small_world: Path) -> None:
    images = read_tags(small_world, "train")
    for place in (shards, tables):
        items = [item for part in read_parts(place) for item in items_of(part, images.classes)]
        assert [item.content for item in items] == [path.read_bytes() for path in images.paths]
        np.testing.assert_array_equal([item.states for item in items], images.labels)
        for number, item in enumerate(items):  # the place of each leads into its shard
            np.testing.assert_array_equal(read_image(item.place), images.read(number))


def test_a_cut_shard_gives_what_is_whole_and_then_says_so(shards: Path, tables: Path) -> None:
    for place, whole in ((shards / "000.tar", 8), (tables / "0.parquet", 12)):
        content = place.read_bytes()
        place.write_bytes(content[: len(content) * 2 // 3])
        found = []
        with pytest.raises(DataError, match=rf"{place.name}: the shard is cut off or .*Copy it again"):
            found += [sample.name for sample in samples_of(place.open("rb"), str(place))]
        assert len(found) < whole


def test_a_table_without_images_says_what_it_has(tmp_path: Path) -> None:
    pyarrow, table = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table.write_table(pyarrow.table({"picture": [b"x"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no column 'image' with the images' bytes; it has picture"):
        list(items_of(read_parts(tmp_path / "a.parquet").part(0), ()))


def test_an_unknown_class_in_a_shard_is_an_error(shards: Path) -> None:
    with pytest.raises(DataError, match=r"000.tar/000000.jpg: unknown class"):
        list(items_of(read_parts(shards).part(0), ("zebra",)))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real web server with an image, tags, and a closed folder."""
    files = tmp_path / "served"
    files.mkdir()
    small = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    Image.fromarray(small).save(files / "a.jpg")
    (files / "tags.csv").write_text("image,tags\na.jpg,dog\nb.jpg,cat\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/closed"):
                self.send_error(403)
            else:
                super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(files)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


def test_tags_and_images_are_read_from_a_web_server(server: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    parts = read_parts(f"{server}/tags.csv")
    assert parts.classes == ("cat", "dog")
    there, missing = items_of(parts.part(0), parts.classes)
    assert Image.open(io.BytesIO(there.content)).size == (60, 40)
    assert there.states.tolist() == [0, 1]
    assert isinstance(missing.content, DataError)  # listed, not fatal
    assert f"{server}/b.jpg: there is no such image" in str(missing.content)
    (tmp_path / "far.csv").write_text(f"image,tags\n{server}/a.jpg,dog\n")
    assert len(read_parts(tmp_path / "far.csv")) == 1
    with pytest.raises(DataError, match=r"is a URI\. Only --engine ray"):
        read_tags(tmp_path / "far.csv")


def test_a_place_that_lets_nobody_in_is_no_broken_image(server: str, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(UnreachableError, match=r"closed/a.jpg: no credentials that may read it"):
        content_of(f"{server}/closed/a.jpg")
    (tmp_path / "far.csv").write_text(f"image,tags\n{server}/closed/a.jpg,dog\n")
    with pytest.raises(UnreachableError, match="no credentials"):
        read_parts(tmp_path / "far.csv")


class StatusError(Exception):
    """An error as aiohttp has it, with the state that a server answered."""

    def __init__(self, status: int, place: str) -> None:
        super().__init__(f"{status}, message='no', url='{place}'")
        self.status = status


@pytest.mark.parametrize(
    ("place", "error", "closed"),
    [
        ("https://a/000403.tar", StatusError(503, "https://a/000403.tar"), False),
        ("https://a/403/0.tar", OSError("no answer from https://a/403/0.tar"), False),
        ("https://forbidden.org/0.tar", TimeoutError("https://forbidden.org/0.tar"), False),
        ("https://a/0.tar", OSError("read 1403 of 14010 bytes"), False),
        ("https://a/0.tar", StatusError(403, "https://a/0.tar"), True),
        ("https://a/0.tar", StatusError(401, "https://a/0.tar"), True),
        ("s3://a/0.tar", OSError("An error occurred (403) when calling HeadObject"), True),
        ("s3://a/0.tar", PermissionError("Access Denied"), True),
        ("s3://a/0.tar", RuntimeError("Unable to locate credentials"), True),
    ],
)
def test_only_what_a_server_answers_says_that_a_place_is_closed(
    place: str, error: Exception, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PAUSE", 0.0)
    asked = []

    class Store:
        def cat_file(self, place: str) -> bytes:
            asked.append(place)
            raise error

    monkeypatch.setattr(places, "_file_system", lambda _: Store())
    with pytest.raises(UnreachableError, match="no credentials that may read it" if closed else "cannot be reached"):
        content_of(place)
    assert len(asked) == (1 if closed else places.TRIES)  # what may pass is asked again


@pytest.mark.parametrize("place", ["tags.csv", "shards/000.tar", "shards/*.tar"])
def test_missing_credentials_for_s3_are_one_line(
    place: str, small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs: pip install s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    nothing = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    how = ("--model", small_run, "--engine", "ray", "--format", "parquet", "--out", tmp_path / "out")
    status, said = dpl("label", f"s3://bucket/{place}", *how, **nothing)
    assert "Traceback" not in said
    assert status == 2
    assert said.count("\n") == 1
    assert "no credentials that may read it" in said
    assert "AWS_ACCESS_KEY_ID" in said
    assert not (tmp_path / "out").exists()


class RangesHandler(http.server.SimpleHTTPRequestHandler):
    """Answers ranges, as stores do, and breaks off every second answer in its middle."""

    answers = 0
    broken = 0
    silent = False

    def do_GET(self) -> None:
        kind = type(self)
        content = Path(self.translate_path(self.path)).read_bytes()
        start, end = 0, len(content)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found:
            start, end = int(found[1]), min(int(found[2] or end) + 1, end)
        kind.answers += 1
        if kind.silent:
            self.send_error(503)
            return
        self.send_response(206 if found else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", f'"{hash(content)}"')
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.end_headers()
        if kind.answers % 2:
            self.wfile.write(content[start:end])
        else:
            kind.broken += 1
            self.wfile.write(content[start : (start + end) // 2])
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ranges(shards: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[RangesHandler]]]:
    """A web server with the shards that breaks off answers, and its handler."""
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(places, "PAUSE", 0.0)
    handler = type("Handler", (RangesHandler,), {})
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(shards)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}", handler
    served.shutdown()


def test_a_connection_that_breaks_loses_nothing_of_a_shard(
    ranges: tuple[str, type[RangesHandler]], shards: Path
) -> None:
    address, handler = ranges
    place = f"{address}/000.tar"
    with opened(place) as file:
        assert file.read() == (shards / "000.tar").read_bytes()
    with opened(place) as file:
        far = [(one.name, one.content, one.present) for one in samples_of(file, place)]
    with (shards / "000.tar").open("rb") as file:
        assert far == [(one.name, one.content, one.present) for one in samples_of(file, place)]
    assert handler.broken > 0


def test_a_store_that_stops_to_answer_is_named(ranges: tuple[str, type[RangesHandler]]) -> None:
    address, handler = ranges
    handler.silent = True
    with pytest.raises(UnreachableError, match=r"000.tar: cannot be reached"), opened(f"{address}/000.tar") as file:
        file.read()
    assert handler.answers >= places.TRIES
