"""The files of a patch cache: the records of images' patches, and the claims of processes that make them.

A record is: the mark `DPLP`, the image's hash (16 bytes), the seconds its patches took (float32), their number (uint32),
their corners (uint16 x 4 each), and a CRC-32 of all that; numbers are little-endian.

A claim says which of several processes makes the patches of which image. It is a lock on one byte of a file beside the records;
which byte follows from the image's hash. The kernel frees the locks of a process when it ends, however it ends, so that a claim
never outlives its process and nothing has to be cleaned up. The file stays empty. Such a lock belongs to a process, not to a
thread, and closing the file anywhere in the process frees all of them. Hence one `Claims` per file and process, which also keeps
threads apart.
"""

import errno
import hashlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

try:
    import fcntl
except ImportError:  # not on this system: processes do not see each other's claims, and may make an image twice
    fcntl = None  # type: ignore[assignment]

NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}  # said by file systems


class Claims:
    """The images that this process makes now, out of those whose claims are kept in one file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._handle: int | None = None

    def take(self, image: bytes) -> bool:
        """Return whether the image with this hash is now this caller's to make, and no other thread's or process's."""
        byte = _byte_of(image)
        with self._lock:
            if byte in self._held:
                return False
            if self._handle is None:
                self._handle = os.open(self.file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            try:
                taken = _lock_byte(self._handle, byte)
                if taken:
                    self._held.add(byte)
            finally:
                self._close_if_unused()
            return taken

    def release(self, image: bytes) -> None:
        """Give back an image that was taken."""
        byte = _byte_of(image)
        with self._lock:
            self._held.remove(byte)
            if self._held and self._handle is not None and fcntl is not None:
                fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, byte)
            self._close_if_unused()  # closing frees the last lock

    def forget(self) -> None:
        """Hold nothing: for a forked child, to which its parent's claims do not belong."""
        self._lock = threading.Lock()
        self._held.clear()
        self._handle = None  # its parent's; a lock of its own is made through another

    def _close_if_unused(self) -> None:
        if not self._held and self._handle is not None:
            os.close(self._handle)
            self._handle = None


_OF_THIS_PROCESS: dict[Path, Claims] = {}
_LOCK = threading.Lock()


def claims_in(file: Path) -> Claims:
    """Return the claims of this process in `file`, the same object for every caller."""
    with _LOCK:
        return _OF_THIS_PROCESS.setdefault(file.absolute(), Claims(file.absolute()))


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.Lock()
    for claims in _OF_THIS_PROCESS.values():
        claims.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _byte_of(image: bytes) -> int:
    return int.from_bytes(image[:8], "little") >> 2  # places in a file are signed numbers of 64 bits


def _lock_byte(handle: int, byte: int) -> bool:
    """Return whether the lock on a byte was free and is now held; True where the file system knows no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno in NO_LOCKS:
            return True
        raise
    return True


MARK = b"DPLP"
HEAD = struct.Struct("<4s16sfI")  # mark, image's hash, seconds, number of boxes
CHECK = struct.Struct("<I")
MOST_BOXES = 1 << 24  # a count above this is damage, not a record


def pack_record(image: bytes, boxes: np.ndarray, seconds: float) -> bytes:
    """Return the record of an image's hash, its boxes (P, 4) and the seconds they took."""
    body = HEAD.pack(MARK, image, seconds, len(boxes)) + np.ascontiguousarray(boxes, "<u2").tobytes()
    return body + CHECK.pack(zlib.crc32(body))


def digest_of_content(content: bytes) -> bytes:
    """Return the digest of an image file's content, under which its patches are kept."""
    return hashlib.blake2b(content, digest_size=16).digest()


def records(shard: Path, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (image's hash, offset, end) of each whole record from `offset` on; a torn one ends the file."""
    size = shard.stat().st_size
    if offset + HEAD.size > size:
        return
    with shard.open("rb") as file:
        while offset + HEAD.size + CHECK.size <= size:
            file.seek(offset)
            mark, image, _, count = HEAD.unpack(file.read(HEAD.size))
            end = offset + HEAD.size + 8 * count + CHECK.size
            if mark != MARK or count > MOST_BOXES or end > size:
                return
            yield image, offset, end
            offset = end


def read_record(shard: Path, offset: int) -> tuple[bytes, np.ndarray, float] | None:
    """Return the image's hash, boxes and seconds of the record at `offset`, or None when it is damaged or gone."""
    try:
        with shard.open("rb") as file:
            file.seek(offset)
            head = file.read(HEAD.size)
            if len(head) < HEAD.size:
                return None
            mark, image, seconds, count = HEAD.unpack(head)
            if mark != MARK or count > MOST_BOXES:
                return None
            body, check = file.read(8 * count), file.read(CHECK.size)
    except OSError:
        return None
    if len(check) < CHECK.size or CHECK.unpack(check)[0] != zlib.crc32(body, zlib.crc32(head)):
        return None
    return image, np.frombuffer(body, "<u2").reshape(-1, 4).astype(np.uint16), seconds


def read_count(shard: Path, offset: int, content: bytes) -> int | None:
    """Return the number of boxes that the record at `offset` says it holds, or None if it is not that of `content`."""
    try:
        with shard.open("rb") as file:
            file.seek(offset)
            head = file.read(HEAD.size)
    except OSError:
        return None
    if len(head) < HEAD.size:
        return None
    mark, image, _, count = HEAD.unpack(head)
    return count if mark == MARK and image == content and count <= MOST_BOXES else None
