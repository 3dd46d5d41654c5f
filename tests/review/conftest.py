"""A small data set of drawn photos with boxes in COCO's format, and the server on it: a real process on loopback."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image, ImageDraw

CLASSES = ("cat", "dog")
WIDTH, HEIGHT = 160, 120
COLOURS = {0: (200, 90, 60), 1: (60, 120, 200)}
IMAGES = 30


def box_of(number: int, index: int) -> list[int]:
    """Return the box (x, y, width, height) of a class in an image."""
    return [8 + 3 * (number % 9), 12 + 2 * (number % 7), 50, 60] if index == 0 else [90, 20 + number, 40, 50]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A COCO json of 30 images, each with a cat and every third with a dog."""
    folder = tmp_path / "photos"
    (folder / "images").mkdir(parents=True)
    random = np.random.default_rng(0)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(IMAGES):
        noise = random.integers(90, 140, (12, 16, 3), np.uint8)
        image = Image.fromarray(noise).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        for index in range(2 if number % 3 == 0 else 1):
            x, y, width, height = box_of(number, index)
            ImageDraw.Draw(image).ellipse((x, y, x + width, y + height), fill=COLOURS[index])
            entry = {"id": len(annotations) + 1, "image_id": number + 1, "category_id": index + 1, "iscrowd": 0}
            score = round(0.99 - 0.02 * number - 0.2 * index, 4)
            annotations.append(entry | {"bbox": [x, y, width, height], "area": width * height, "score": score})
        image.save(folder / "images" / f"{number:03}.jpg", quality=92)
        entry = {"id": number + 1, "file_name": f"images/{number:03}.jpg", "width": WIDTH, "height": HEIGHT}
        images.append(entry)
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    file = folder / "photos.json"
    file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return file


class Server:
    """`dpl review` in a process of its own, on a port that stays the same when it is started again."""

    def __init__(self, data: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [sys.executable, "-m", "deep_patch_learning", "review", str(data), "--port", str(self.port)]
        self._command += options
        self.link = ""
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            found = re.match(r"review at (http\S+)", line)
            if found:
                self.link = found[1]
                break
        assert self.link, "".join(said)
        for _ in range(200):
            try:
                httpx.get(self.address + "/static/review.css", timeout=5)
                return
            except httpx.TransportError:
                self.process.poll()
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """End it at once, as when the power fails."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> str:
        """Stop it as Ctrl-C does; return what it said."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=30)
        return said

    def client(self) -> httpx.Client:
        """Return a client that has opened the page."""
        client = httpx.Client(base_url=self.address, timeout=30)
        client.get(self.link).raise_for_status()
        return client


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """A function that starts servers; all end with the test."""
    started: list[Server] = []

    def start(data: Path, *options: str) -> Server:
        started.append(Server(data, *options))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()
        assert server.process.stderr is not None
        server.process.stderr.close()


def required() -> bool:
    """Whether tests in a browser must run, and not be skipped."""
    return os.environ.get("DPL_BROWSER_REQUIRED") == "1"
