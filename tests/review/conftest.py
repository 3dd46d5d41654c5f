"""A small data set of drawn photos with boxes in COCO's format, and the server on it: a real process on loopback."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
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


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A second such set, for another review."""
    return draw_labels(tmp_path / "others")


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


def _browser_or_why() -> Any:
    """Return the browser's path, or the reason why there is none."""
    found = shutil.which("chromium")
    try:
        import playwright.sync_api  # noqa: F401
    except ModuleNotFoundError:
        return None, "needs playwright: pip install playwright"
    return found, "needs Debian's chromium: apt-get install chromium"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser. Where DPL_BROWSER_REQUIRED is 1, tests fail without it; elsewhere they are skipped."""
    path, why = _browser_or_why()
    if path is None:
        if os.environ.get("DPL_BROWSER_REQUIRED") == "1":
            pytest.fail(f"DPL_BROWSER_REQUIRED is 1, and the test {why}")
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*quiet, "--disable-component-update"])
        yield browser
        browser.close()


STILL = "document.documentElement.dataset.busy === '0' && document.getElementById('saved').dataset.state === 'saved'"


class Person:
    """Somebody in front of the page, in a browser of their own; notes every complaint of the browser."""

    def __init__(self, browser: Any, review: Review, expected: tuple[str, ...] = (), **context: Any) -> None:
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | context))
        self.review, self.complaints, self.strangers = review, [], []
        self.expected = expected
        self.page = self.tab()

    def tab(self) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(30_000)
        page.on(
            "console", lambda message: self.complain(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complain(str(error)))
        page.on("request", lambda request: self.foreign(request.url))
        page.goto(self.review.link)
        self.ready(page)
        return page

    def ready(self, page: Any = None) -> None:
        page = page or self.page
        page.wait_for_selector("html[data-ready]", state="attached")
        self.still(page)

    def still(self, page: Any = None) -> None:
        """Wait until everything is saved and shown."""
        page = page or self.page
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
        self.until(STILL, page)

    def until(self, condition: str, page: Any = None) -> None:
        """Wait until something holds; playwright's own way evaluates text in the page, which its policy forbids."""
        end = time.monotonic() + 30
        while not (page or self.page).evaluate(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def complain(self, text: str) -> None:
        if not any(part in text for part in self.expected):
            self.complaints.append(text)

    def foreign(self, url: str) -> None:
        if not url.startswith((self.review.address, "data:", "blob:")):
            self.strangers.append(url)


@pytest.fixture
def person(chromium: Any, serve: Callable) -> Iterator[Callable[..., Person]]:
    """A function that sits somebody in front of a review; at the end no browser may have complained, or asked elsewhere.

    It needs `serve`, so that browsers close before their server does.
    """
    people: list[Person] = []

    def sit(review: Review, **context: Any) -> Person:
        people.append(Person(chromium, review, **context))
        return people[-1]

    yield sit
    for one in people:
        one.context.close()
    assert [one.complaints for one in people] == [[]] * len(people)
    assert [one.strangers for one in people] == [[]] * len(people)
