"""Files written whole or not at all."""

from pathlib import Path

import pytest

from deep_patch_learning.common.atomic_files import write_whole, written_whole


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
