"""Claims on images: which of several processes makes the patches of which image.

A claim is a lock on one byte of a file beside the records; which byte follows from the image's hash. The kernel frees the
locks of a process when it ends, however it ends, so that a claim never outlives its process and nothing has to be
cleaned up. The file stays empty.

Such a lock belongs to a process, not to a thread, and closing the file anywhere in the process frees all of them. Hence
one `Claims` per file and process, which also keeps threads apart.
"""

import errno
import os
import threading
from pathlib import Path

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
