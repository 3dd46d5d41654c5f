"""Files that are written whole or not at all: under another name first, so that no reader ever sees half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; at the end it takes the name of `path`, and where anything failed it is gone.

    Its permissions are those of any new file there, even where the library that writes it makes files for their owner alone.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch()
        rights = part.stat().st_mode
        yield part
        part.chmod(rights)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, as UTF-8 where it is text; one of that name is replaced in one step."""
    with written_whole(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
