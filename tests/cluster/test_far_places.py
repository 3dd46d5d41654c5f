"""Shards and images on a web server of which some are missing, closed or silent: the others are done."""

import errno
import http.server
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from here_engine import HereEngine, work_here

from deep_patch_learning.cluster import parts as parts_module
from deep_patch_learning.cluster import places
from deep_patch_learning.cluster.folder import PartsFolder
from deep_patch_learning.cluster.parts import MOST_UNREACHABLE, items_of, read_parts
from deep_patch_learning.cluster.places import UnreachableError
from deep_patch_learning.cluster.runs import Asked, Tally, broken_of, facts_of, run_parts
from deep_patch_learning.cluster.work import PatchJob, part_file
from deep_patch_learning.commands.patches import patches
from deep_patch_learning.common.errors import DataError, RunError, SettingError
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.patches.cache import cache_folder
from deep_patch_learning.patches.generator import generator

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
pytest.importorskip("pyarrow")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Answers some names with an error, and counts what it is asked for."""

    states: dict[str, int]
    asked: "Counter[tuple[str, str]]"

    def send_head(self) -> Any:
        name = self.path.rpartition("/")[2]
        self.asked[self.command, name] += 1
        if name in self.states:
            self.send_error(self.states[name])
            return None
        return super().send_head()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str, type[Handler]]]:
    """A folder that is served, its address, and the handler."""
    monkeypatch.setattr(places, "PAUSE", 0.0)
    handler = type("Own", (Handler,), {"states": {}, "asked": Counter()})
    folder = tmp_path / "served"
    folder.mkdir()
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{served.server_port}", handler
    served.shutdown()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `run_parts` work without Ray."""
    work_here(monkeypatch)


def patch_job(folder: Path) -> PatchJob:
    made = generator("sliding-window")
    return PatchJob(PartsFolder(cache_folder(folder, made) / "parts" / "some"), made, folder)


@pytest.fixture
def far_shards(server: tuple[Path, str, type[Handler]], shards: Path) -> tuple[str, type[Handler]]:
    """A pattern of three shards on the server, and the handler."""
    folder, address, handler = server
    for shard in shards.iterdir():
        shutil.copy(shard, folder / shard.name)
    return f"{address}/{{000..002}}.tar", handler


@pytest.mark.parametrize(
    ("name", "state", "wanted"),
    [
        ("001.tar", 404, r"001\.tar: there is no such shard"),
        ("001.tar", 403, r"001\.tar: no credentials that may read it"),
        ("000.tar", 404, r"000\.tar: there is no such shard"),
    ],
)
def test_a_shard_that_is_missing_or_closed_does_not_stop_the_others(
    far_shards: tuple[str, type[Handler]], here: None, tmp_path: Path, name: str, state: int, wanted: str
) -> None:
    pattern, handler = far_shards
    handler.states[name] = state
    job = patch_job(tmp_path)
    with pytest.raises(RunError, match=rf"1 of 3 parts failed: .*{wanted}"):
        run_parts(job, read_parts(pattern), {"what": "patches"}, Asked(workers=1), "patches")
    assert len(list(job.out.done.iterdir())) == 2
    with pytest.raises(RunError, match=rf"1 of 3 parts failed: .*{wanted}"):  # what is left is known without a worker
        run_parts(job, read_parts(pattern), {"what": "patches"}, Asked(workers=1), "patches")
    handler.states.clear()
    parts = read_parts(pattern)
    tally = run_parts(job, parts, {"what": "patches"}, Asked(workers=1), "patches")
    assert (tally.found, tally.images) == (2, 8)
    assert sum(facts["images"] for facts in facts_of(job, parts, tally)) == 24


def test_a_store_is_asked_once_for_the_version_of_a_shard(
    far_shards: tuple[str, type[Handler]], here: None, tmp_path: Path
) -> None:
    pattern, handler = far_shards
    parts, job = read_parts(pattern), patch_job(tmp_path)
    run_parts(job, parts, {"what": "patches"}, Asked(workers=1), "patches")
    handler.asked.clear()
    parts = read_parts(pattern)
    tally = run_parts(job, parts, {"what": "patches"}, Asked(workers=1), "patches")
    assert list(broken_of(job, parts, tally)) == []
    assert tally.found == 3
    assert sum(handler.asked.values()) == 3


def test_what_a_worker_has_said_is_not_read_from_a_folder_that_lags(shards: Path, here: None, tmp_path: Path) -> None:
    job, parts = patch_job(tmp_path), read_parts(shards)
    HereEngine.after = lambda part: (job.out.done / f"{part.name}.json").unlink()  # not seen yet
    tally = run_parts(job, parts, {"what": "patches"}, Asked(workers=1), "patches")
    assert [facts["images"] for facts in facts_of(job, parts, tally)] == [8, 8, 8]
    with pytest.raises(RunError, match="part-00000 is not there"):
        list(facts_of(job, parts, Tally()))


@pytest.fixture
def far_images(server: tuple[Path, str, type[Handler]], small_world: Path) -> tuple[Path, type[Handler]]:
    """A table of 24 images on the server, and the handler."""
    folder, address, handler = server
    rows = ["image,tags"]
    for number, path in enumerate(read_tags(small_world, "train").paths):
        shutil.copy(path, folder / f"{number:02d}.jpg")
        rows.append(f"{address}/{number:02d}.jpg,dog")
    (folder.parent / "far.csv").write_text("\n".join(rows) + "\n")
    return folder.parent / "far.csv", handler


@pytest.mark.parametrize("state", [403, 503])
@pytest.mark.parametrize("lost", [(0,), (7,), (23,), (0, 1, 2), (4, 5, 9, 22, 23)])
def test_an_image_that_cannot_be_reached_is_listed(
    far_images: tuple[Path, type[Handler]], state: int, lost: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, handler = far_images
    monkeypatch.setattr(parts_module, "_must_answer", lambda _: None)
    handler.states.update({f"{number:02d}.jpg": state for number in lost})
    items = list(items_of(read_parts(table).part(0), ("dog",)))
    assert [Path(item.name).name for item in items] == [f"{number:02d}.jpg" for number in range(24)]
    assert [number for number, item in enumerate(items) if isinstance(item.content, DataError)] == list(lost)
    tries = places.TRIES if state == 503 else 1
    assert all(handler.asked["GET", f"{number:02d}.jpg"] == tries for number in lost)


def test_many_unreachable_images_in_a_row_are_no_broken_images(far_images: tuple[Path, type[Handler]]) -> None:
    table, handler = far_images
    part = read_parts(table).part(0)
    handler.states.update({f"{number:02d}.jpg": 503 for number in range(5, 5 + MOST_UNREACHABLE)})
    with pytest.raises(UnreachableError, match=r"05\.jpg: cannot be reached .* So it is with 9 images after it"):
        list(items_of(part, ("dog",)))


def test_a_part_of_which_nothing_can_be_reached_has_failed(far_images: tuple[Path, type[Handler]]) -> None:
    table, handler = far_images
    parts = read_parts(table, part_images=4)
    handler.states.update({f"{number:02d}.jpg": 403 for number in (4, 5, 6, 7)})
    (last,) = (part for part in parts if part.number == 1)
    with pytest.raises(UnreachableError, match=r"04\.jpg: no credentials"):
        list(items_of(last, ("dog",)))
    handler.states["06.jpg"] = 404  # it answers, but gives no image
    with pytest.raises(UnreachableError, match=r"no credentials"):
        list(items_of(last, ("dog",)))


def test_the_first_image_alone_does_not_stop_a_command(far_images: tuple[Path, type[Handler]]) -> None:
    table, handler = far_images
    handler.states["00.jpg"] = 403
    assert len(read_parts(table)) == 1
    handler.states.update({f"{number:02d}.jpg": 403 for number in range(3)})
    with pytest.raises(UnreachableError, match=r"00\.jpg: no credentials"):
        read_parts(table)


def test_fresh_patches_keep_the_notes_until_the_folder_is_held(shards: Path, here: None, tmp_path: Path) -> None:
    job, parts = patch_job(tmp_path), read_parts(shards)
    how: tuple[Any, ...] = ({"what": "patches"}, Asked(workers=1), "patches")
    run_parts(job, parts, *how)
    with job.out.locked(), pytest.raises(RunError, match="another process fills it"):
        run_parts(job, parts, *how, fresh=True)
    assert len(list(job.out.done.iterdir())) == 3
    assert run_parts(job, parts, *how, fresh=True).images == 24


def test_fresh_patches_take_nothing_away_where_there_is_no_cluster(
    shards: Path, here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("DPL_CACHE", str(tmp_path))
    how: dict[str, Any] = {"method": "sliding-window", "engine": "ray"}
    patches(shards, **how)
    monkeypatch.undo()
    monkeypatch.setenv("DPL_CACHE", str(tmp_path))
    notes = list(tmp_path.rglob("done/part-*.json"))
    with pytest.raises(SettingError, match="no Ray answers there"):
        patches(shards, fresh=True, address="127.0.0.1:1", **how)
    assert all(note.is_file() for note in notes)
    assert len(notes) == 3


def test_patches_whose_file_is_gone_are_made_again(shards: Path, here: None, tmp_path: Path) -> None:
    job, parts = patch_job(tmp_path), read_parts(shards)
    how: tuple[Any, ...] = ({"what": "patches"}, Asked(workers=1), "patches")
    run_parts(job, parts, *how)
    file = part_file(job.cache, job.generator, parts.part(1))
    file.unlink()
    assert run_parts(job, parts, *how).images == 8
    assert file.is_file()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_only_a_lock_that_is_held_means_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fcntl = pytest.importorskip("fcntl")
    folder = PartsFolder(tmp_path / "out")
    folder.begin({"what": "labels"})

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    if number == errno.EIO:
        with pytest.raises(RunError, match=r"out: cannot be locked \(Input/output error\)"), folder.locked():
            pass
        return
    with folder.locked():  # a file system without locks
        pass
