"""Fetching VOC: from a real host on this machine that serves, cuts short, refuses or lies."""

import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data import fetch
from deep_patch_learning.data.fetch import ARCHIVES, Archive, fetch_voc


class Host(ThreadingHTTPServer):
    """Serves `files`; `cut` sends only so many bytes of each answer, `resumes` tells whether it can send a file's end."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.resumes = True
        self.stall = threading.Event()  # not set: an answer that is cut keeps the line open until the host closes
        self.stall.set()
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.resumes else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.cut])
        self.wfile.flush()
        self.server.stall.wait(20)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[Host]:
    server = Host()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.stall.set()
    server.shutdown()
    server.server_close()


def voc_files(part: str, *ids: str) -> dict[str, bytes]:
    files = {f"ImageSets/Main/{part}.txt": "".join(f"{one}\n" for one in ids).encode()}
    files |= {f"ImageSets/Main/dog_{part}.txt": "".join(f"{one} -1\n" for one in ids).encode()}
    for one in ids:
        files |= {f"JPEGImages/{one}.jpg": one.encode() * 2000, f"Annotations/{one}.xml": f"<a>{one}</a>".encode()}
    return files


def tar(files: dict[str, bytes], top: str = "VOCdevkit/VOC2007/") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for name, content in files.items():
            about = tarfile.TarInfo(top + name)
            about.size = len(content)
            packed.addfile(about, io.BytesIO(content))
    return buffer.getvalue()


TRAINVAL, TEST = voc_files("trainval", "000005", "000007"), voc_files("test", "000001", "000002")
Archives = dict[str, dict[str, Archive]]


def offer(host: Host, **contents: bytes) -> Archives:
    """Put archives on the host and return how they are described."""
    described = {}
    for part, content in contents.items():
        host.files[f"/{part}.tar"] = content
        md5 = hashlib.md5(content).hexdigest()
        described[part] = Archive(f"{host.address}/{part}.tar", md5, len(content), f"ImageSets/Main/{part}.txt")
    return {"VOC2007": described}


@pytest.fixture
def archives(host: Host) -> Archives:
    return offer(host, trainval=tar(TRAINVAL), test=tar(TEST))


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_both_parts_come_into_one_folder(host: Host, archives: Archives, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = fetch_voc("2007", ["trainval", "test"], tmp_path, lambda *show: seen.append(show), archives=archives)
    assert folder == tmp_path / "VOCdevkit" / "VOC2007"
    assert content_of(tmp_path) == {f"VOCdevkit/VOC2007/{name}": data for name, data in (TRAINVAL | TEST).items()}
    total = sum(map(len, host.files.values()))
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_second_call_fetches_nothing(host: Host, archives: Archives, tmp_path: Path) -> None:
    fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    host.asked.clear()
    assert fetch_voc("VOC2007", ["trainval"], tmp_path, archives=archives) == tmp_path / "VOCdevkit" / "VOC2007"
    assert host.asked == []


def test_a_part_is_added_to_a_folder_and_its_files_stay(host: Host, archives: Archives, tmp_path: Path) -> None:
    folder = fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    (folder / "notes.txt").write_text("mine")
    (folder / "JPEGImages" / "000001.jpg").write_bytes(TEST["JPEGImages/000001.jpg"])  # the same as the archive's
    host.asked.clear()
    fetch_voc("2007", ["trainval", "test"], tmp_path, archives=archives)
    assert [path for path, _ in host.asked] == ["/test.tar"]
    assert content_of(folder) == TRAINVAL | TEST | {"notes.txt": b"mine"}


def test_another_file_of_the_same_name_is_left_alone(archives: Archives, tmp_path: Path) -> None:
    folder = fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    (folder / "JPEGImages" / "000001.jpg").write_bytes(b"mine")
    before = content_of(folder)
    with pytest.raises(DataError, match=r"000001\.jpg: differs from the archive's .* move .* away"):
        fetch_voc("2007", ["test"], tmp_path, archives=archives)
    assert content_of(folder) == before


def test_a_folder_that_is_not_whole_is_made_whole(archives: Archives, tmp_path: Path) -> None:
    folder = fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    (folder / "Annotations" / "000007.xml").unlink()
    fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert content_of(folder) == TRAINVAL


def test_two_archives_that_disagree(host: Host, tmp_path: Path) -> None:
    archives = offer(host, trainval=tar(TRAINVAL | {"readme": b"1"}), test=tar(TEST | {"readme": b"2"}))
    with pytest.raises(DataError, match="readme: differs"):
        fetch_voc("2007", ["trainval", "test"], tmp_path, archives=archives)
    assert not (tmp_path / "VOCdevkit").exists()


def test_a_wrong_sum(host: Host, archives: Archives, tmp_path: Path) -> None:
    good = host.files["/trainval.tar"]
    host.files["/trainval.tar"] = good[:-1] + b"x"
    with pytest.raises(DataError, match=r"trainval\.tar: .* MD5 sum .*, wanted .* download it elsewhere"):
        fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert not (tmp_path / "VOCdevkit").exists()
    assert not list(tmp_path.rglob("*.part"))  # it cannot be gone on from
    host.files["/trainval.tar"] = good
    assert content_of(fetch_voc("2007", ["trainval"], tmp_path, archives=archives)) == TRAINVAL


def test_a_file_of_another_size_is_not_even_fetched(host: Host, archives: Archives, tmp_path: Path) -> None:
    host.files["/trainval.tar"] = b"<html>moved</html>"
    with pytest.raises(DataError, match=r"is 18 bytes, wanted \d+"):
        fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert not (tmp_path / "VOCdevkit").exists()


@pytest.mark.parametrize("resumes", [True, False])
def test_a_cut_connection_goes_on(host: Host, archives: Archives, tmp_path: Path, resumes: bool) -> None:
    host.cut, host.resumes = 3000, resumes
    with pytest.raises(DataError, match=r"ended after 3000 of \d+ bytes. Repeat to go on"):
        fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert not (tmp_path / "VOCdevkit").exists()
    host.cut = None
    assert content_of(fetch_voc("2007", ["trainval"], tmp_path, archives=archives)) == TRAINVAL
    assert host.asked == [("/trainval.tar", None), ("/trainval.tar", "bytes=3000-")]
    assert not (tmp_path / ".fetch-VOC2007").exists()


def test_remains_of_another_file_are_thrown_away(archives: Archives, tmp_path: Path) -> None:
    part = tmp_path / ".fetch-VOC2007" / "trainval.tar.part"
    part.parent.mkdir()
    part.write_bytes(b"something else")
    with pytest.raises(DataError, match="MD5"):
        fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert content_of(fetch_voc("2007", ["trainval"], tmp_path, archives=archives)) == TRAINVAL


def test_nobody_there(archives: Archives, tmp_path: Path) -> None:
    with socket.socket() as free:  # bound and not listening: refused
        free.bind(("127.0.0.1", 0))
        mirror = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(DataError, match=r"trainval\.tar: cannot be reached .*refused.* download it elsewhere"):
            fetch_voc("2007", ["trainval"], tmp_path, mirror=mirror, archives=archives)
    assert not (tmp_path / "VOCdevkit").exists()


@pytest.mark.parametrize(("mirror", "words"), [("/nowhere", "answered 404"), ("no address", "cannot be reached")])
def test_bad_mirrors(host: Host, archives: Archives, tmp_path: Path, mirror: str, words: str) -> None:
    mirror = host.address + mirror if mirror.startswith("/") else mirror
    with pytest.raises(DataError, match=words):
        fetch_voc("2007", ["trainval"], tmp_path, mirror=mirror, archives=archives)


def test_a_mirror(host: Host, archives: Archives, tmp_path: Path) -> None:
    host.files["/copy/test.tar"] = host.files.pop("/test.tar")
    folder = fetch_voc("2007", ["test"], tmp_path, mirror=f"{host.address}/copy/", archives=archives)
    assert content_of(folder) == TEST


def test_a_mirror_on_disk(host: Host, archives: Archives, tmp_path: Path) -> None:
    (tmp_path / "test.tar").write_bytes(host.files["/test.tar"])
    folder = fetch_voc("2007", ["test"], tmp_path / "new", mirror=tmp_path.as_uri(), archives=archives)
    assert content_of(folder) == TEST
    assert host.asked == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not a tar at all" * 100, "the archive is broken"),
        (tar(TRAINVAL)[:5000], "the archive is broken"),
        (tar(TRAINVAL, top="VOC2007/"), "wanted VOCdevkit/VOC2007/ImageSets/Main/trainval.txt"),
        (tar({**TRAINVAL, "ImageSets/Main/trainval.txt": b"000099\n"}), "they are not all there"),
        (tar({**TRAINVAL, "../../../../outside": b""}), "the archive is broken .*outside"),
    ],
)
def test_broken_archives(host: Host, tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch_voc("2007", ["trainval"], tmp_path / "here", archives=offer(host, trainval=content))
    assert not (tmp_path / "here" / "VOCdevkit").exists()
    assert not list(tmp_path.rglob("outside"))


KILLS = {
    "while receiving": "fetch._CHUNK = 1000",
    "while unpacking": """
        whole = fetch.tarfile.TarFile.extractall
        def half(self, *a, **k):
            whole(self, *a, members=self.getmembers()[:3], **k)
            os._exit(9)
        fetch.tarfile.TarFile.extractall = half
    """,
    "while merging": """
        rename, count = Path.rename, []
        def third(self, target):
            count.append(1)
            os._exit(9) if len(count) == 3 else rename(self, target)
        Path.rename = third
    """,
}


@pytest.mark.parametrize("when", KILLS)
def test_a_kill_and_then_good_again(host: Host, archives: Archives, tmp_path: Path, when: str) -> None:
    folder = fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    script = f"""
        import os, sys
        from pathlib import Path
        from deep_patch_learning.data import fetch
        from deep_patch_learning.data.fetch import Archive
        {textwrap.indent(textwrap.dedent(KILLS[when]), " " * 8).strip()}
        show = lambda done, total: print(done, flush=True)
        fetch.fetch_voc("2007", ["test"], Path({str(tmp_path)!r}), show, archives={archives!r})
    """
    if when == "while receiving":
        host.cut = 20_000
        host.stall.clear()  # the line stays open after these bytes
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    if when == "while receiving":
        assert child.stdout is not None
        assert next(line for line in child.stdout if int(line) == 20_000)
        child.kill()
    child.communicate(timeout=60)
    assert child.returncode in (9, -9)
    assert (tmp_path / ".fetch-VOC2007").exists()
    assert not (folder / "ImageSets" / "Main" / "test.txt").exists()
    assert TRAINVAL.items() <= content_of(folder).items()

    host.cut = None
    host.stall.set()
    received = (tmp_path / ".fetch-VOC2007" / "test.tar.part").stat().st_size
    host.asked.clear()
    fetch_voc("2007", ["test"], tmp_path, archives=archives)
    assert received > 0
    assert host.asked == ([("/test.tar", f"bytes={received}-")] if when == "while receiving" else [])
    assert content_of(tmp_path) == {f"VOCdevkit/VOC2007/{name}": data for name, data in (TRAINVAL | TEST).items()}


def test_a_disk_that_is_too_small(
    host: Host, archives: Archives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DataError, match=r"0\.0 GB free, wanted .* download it elsewhere"):
        fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    assert host.asked == []


@pytest.mark.parametrize("limit", [5000, 21_000])  # too small for the archive; enough for it, not for what comes out
def test_a_disk_that_fills_up(host: Host, tmp_path: Path, limit: int) -> None:
    resource = pytest.importorskip("resource")
    content = tar(TRAINVAL) if limit == 5000 else gzipped(TRAINVAL | {"JPEGImages/000005.jpg": bytes(30_000)})
    archives = offer(host, trainval=content)
    assert (len(content) > limit) == (limit == 5000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(DataError, match=r"cannot be written .*Make room.* download it elsewhere"):
            fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "VOCdevkit").exists()
    fetch_voc("2007", ["trainval"], tmp_path, archives=archives)


def gzipped(files: dict[str, bytes]) -> bytes:
    import gzip

    return gzip.compress(tar(files))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(archives: Archives, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match="cannot be written"):
            fetch_voc("2007", ["trainval"], tmp_path, archives=archives)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_where_the_folder_should_be(archives: Archives, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    with pytest.raises(DataError, match=r"data.*cannot be written"):
        fetch_voc("2007", ["trainval"], tmp_path / "data", archives=archives)
    assert (tmp_path / "data").read_text() == "mine"


def test_two_at_once(archives: Archives, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / ".fetch-VOC2007").mkdir()
    with (tmp_path / ".fetch-VOC2007" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is fetching there"):
            fetch_voc("2007", ["trainval"], tmp_path, archives=archives)


@pytest.mark.parametrize(
    ("year", "parts", "words"),
    [
        ("2013", ["trainval"], "VOC2013: cannot be fetched. Did you mean"),
        ("2007", ["tset"], "its part 'tset' cannot be fetched. Did you mean 'test'"),
        ("2012", ["test"], "its part 'test' cannot be fetched"),
        ("2007", [], "no part was asked for. Choose from trainval, test"),
    ],
)
def test_what_cannot_be_asked_for(tmp_path: Path, year: str, parts: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch_voc(year, parts, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_sums_are_torchvisions() -> None:
    from torchvision.datasets.voc import DATASET_YEAR_DICT

    names = {"2007": ("VOC2007", "trainval"), "2007-test": ("VOC2007", "test"), "2012": ("VOC2012", "trainval")}
    for theirs, (year, part) in names.items():
        archive = ARCHIVES[year][part]
        assert (archive.url, archive.md5) == (DATASET_YEAR_DICT[theirs]["url"], DATASET_YEAR_DICT[theirs]["md5"])


def test_real_voc_counts_as_whole(real_voc: Path) -> None:
    assert fetch.is_whole(real_voc, ARCHIVES["VOC2007"]["trainval"])
