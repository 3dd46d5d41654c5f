"""A small data set of drawn photos with boxes in COCO's format, and the server on it: a real process on loopback."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image, ImageDraw

from deep_patch_learning.commands.review import opened_review

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
    return draw_labels(tmp_path / "photos")


def draw_labels(folder: Path) -> Path:
    """Return the COCO json, after drawing its images beside it."""
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


class Review:
    """A review that is served: its address, the link to the page, and clients that have opened it."""

    link = ""

    @property
    def address(self) -> str:
        return self.link.partition("?")[0].rstrip("/").replace(os.uname().nodename, "127.0.0.1")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def client(self) -> httpx.Client:
        client = httpx.Client(base_url=self.address, timeout=30)
        client.get(f"/?{self.link.partition('?')[2]}").raise_for_status()
        return client

    def stop(self) -> None:
        raise NotImplementedError


class Here(Review):
    """A server in a thread of this process."""

    def __init__(self, data: Path, **options: Any) -> None:
        self.served = opened_review(data, None, None, None, {"port": 0, **options})
        self.link, self.store = self.served.url, self.served.store.path
        self._thread = threading.Thread(target=self.served.server.run, kwargs={"sockets": [self.served.sock]})
        self._thread.start()

    def stop(self) -> None:
        self.served.server.should_exit = True
        self._thread.join()
        self.served.sock.close()
        self.served.store.close()


class Process(Review):
    """`dpl review` in a process of its own, on a port that stays the same when it is started again."""

    def __init__(self, data: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "deep_patch_learning", "review", str(data), "--port", str(port)]
        self._command = [*command, *options]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            found = re.match(r"review at (http\S+)", line)
            if found:
                self.link = found[1]
                return
        raise AssertionError("".join(said))

    def kill(self) -> None:
        """End it at once, as when the power fails."""
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> str:
        """Stop it as Ctrl-C does; return what it said."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[1]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def serve() -> Iterator[Callable[..., Here]]:
    """A function that starts servers in threads; all end with the test."""
    started: list[Here] = []

    def start(data: Path, **options: Any) -> Here:
        started.append(Here(data, **options))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """A server for all tests of a file that change nothing."""
    server = Here(draw_labels(tmp_path_factory.mktemp("shared") / "photos"))
    yield server
    server.stop()


@pytest.fixture
def process(labels: Path) -> Iterator[Process]:
    """The server in a process of its own."""
    server = Process(labels)
    yield server
    server.stop()
