"""The record of one image's patches, as `cache.py` appends it to a file.

A record is: the mark `DPLP`, the image's hash (16 bytes), the seconds its patches took (float32), their number (uint32),
their corners (uint16 x 4 each), and a CRC-32 of all that; numbers are little-endian.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

MARK = b"DPLP"
HEAD = struct.Struct("<4s16sfI")  # mark, image's hash, seconds, number of boxes
CHECK = struct.Struct("<I")
MOST_BOXES = 1 << 24  # a count above this is damage, not a record


def pack_record(image: bytes, boxes: np.ndarray, seconds: float) -> bytes:
    """Return the record of an image's hash, its boxes (P, 4) and the seconds they took."""
    body = HEAD.pack(MARK, image, seconds, len(boxes)) + np.ascontiguousarray(boxes, "<u2").tobytes()
    return body + CHECK.pack(zlib.crc32(body))


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
