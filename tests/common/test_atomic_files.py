"""Files written whole or not at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deep_patch_learning.cluster.folder import PartsFolder
from deep_patch_learning.common.atomic_files import open_lock, sweep, write_whole, written_afresh, written_whole
from deep_patch_learning.common.errors import DplError
from deep_patch_learning.data.fetch import _held
from deep_patch_learning.runs.folder import locked_folder


@pytest.mark.parametrize("content", ["täglich\n", b"\x00\xff"])
def test_a_file_is_replaced_in_one_step(content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with written_whole(path) as part:
        part.write_text("half")
        assert path.read_text() == "before"
        assert part.parent == path.parent  # a name can only be taken over within a file system
    assert path.read_text() == "half"
    write_whole(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


def test_where_writing_fails_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")

    def fill_the_disk() -> None:
        with written_whole(path) as part:
            part.write_text("half")
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        fill_the_disk()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere" / "a.txt", "x")


def test_others_may_read_what_a_library_keeps_for_its_owner(tmp_path: Path) -> None:
    usual, path = tmp_path / "usual", tmp_path / "a.bin"
    usual.touch()
    with written_whole(path) as part:
        part.unlink()
        part.touch(mode=0o600)
    assert path.stat().st_mode == usual.stat().st_mode


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 125 + ".json")  # 255 bytes, as many as a name may have
    write_whole(path, "x")
    assert path.read_text() == "x"


def test_an_error_names_the_file_and_not_its_temporary_name(tmp_path: Path) -> None:
    with pytest.raises(OSError) as found, written_whole(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert found.value.filename == str(tmp_path / "a.txt")


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from deep_patch_learning.common.atomic_files import written_whole\n"
        "with written_whole(Path(sys.argv[1])) as part:\n"
        "    part.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.txt")], check=False).returncode
    assert ended == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    users = [tmp_path / name for name in (".a.txt.12.part", "a.dpl-part", ".hidden")]
    for user in users:
        user.write_text("mine")
    (tmp_path / ".link.3.dpl-part").symlink_to(users[0])
    with written_whole(tmp_path / "b.txt") as part:
        part.write_text("being written")
        sweep(tmp_path)
        assert part.read_text() == "being written"
    assert not left.exists()
    assert {*users, tmp_path / "b.txt"} <= set(tmp_path.iterdir())
    assert os.readlink(tmp_path / ".link.3.dpl-part") == str(users[0])  # noqa: PTH115


def test_what_was_left_of_a_file_is_removed_when_it_is_written_again(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from deep_patch_learning.common.atomic_files import written_whole\n"
        "with written_whole(Path(sys.argv[1])) as part:\n"
        "    part.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    for name in ("a.txt", "b.txt"):
        ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=False).returncode
        assert ended == -signal.SIGKILL
    with written_afresh(tmp_path / "a.txt") as part:
        part.write_text("whole")
    assert (tmp_path / "a.txt").read_text() == "whole"
    (other,) = set(tmp_path.iterdir()) - {tmp_path / "a.txt"}
    assert other.name.startswith(".b.txt.")  # of another file, which its own writer may still be about to take over


LOCKED = {
    "run": (locked_folder, ".lock"),
    "parts": (lambda folder: PartsFolder(folder).locked(), ".lock"),
    "fetch": (_held, "lock"),
}


@pytest.mark.parametrize("kind", LOCKED)
def test_a_lock_empties_no_file_and_waits_for_no_pipe(kind: str, tmp_path: Path) -> None:
    held, name = LOCKED[kind]
    mine, folder = tmp_path / "mine.txt", tmp_path / "folder"
    mine.write_text("mine")
    folder.mkdir()

    def refused() -> None:
        with pytest.raises(DplError, match=rf"{name}: is no file of its own"), held(folder):
            pass
        (folder / name).unlink()

    (folder / name).symlink_to(mine)
    refused()
    os.mkfifo(folder / name)
    refused()
    assert mine.read_text() == "mine"
    (folder / name).write_text("mine")
    with held(folder):
        pass
    assert (folder / name).read_text() == "mine"


def test_a_lock_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DplError, match="is no file of its own"):
        open_lock(tmp_path)


def test_a_pipe_with_the_name_of_a_half_written_file_stays(tmp_path: Path) -> None:
    pipe, left = tmp_path / ".a.json.1.dpl-part", tmp_path / ".b.json.1.dpl-part"
    os.mkfifo(pipe)
    left.touch()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [pipe]
