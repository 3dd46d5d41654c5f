"""A small run on hand-made images, true boxes known, a network that was never trained; and a browser."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.data.truth import TrueBoxes
from deep_patch_learning.inference.model import Model, PredictSettings
from deep_patch_learning.inference.prediction import Prediction
from deep_patch_learning.patches.sliding_window import SlidingWindow
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.runs.folder import RunFolder

CLASSES = ('<b>&"cat', "dog's")  # names that break a page which does not escape them
LOG = [
    {"step": step, "samples": 16 * step, "loss": 1.4 / step, "classification": 0.8 / step, "discovery": 0.6 / step}
    for step in range(1, 8)
]
TRUE_BOX = np.array([10, 10, 50, 40], np.float32)


@dataclass(frozen=True)
class Ready:
    images: TaggedImages
    patches: list[np.ndarray]


def make_prediction(name: str, boxes: np.ndarray | None, scores: tuple[float, float] = (2.0, -2.0)) -> Prediction:
    nothing = np.zeros((0, 4)), np.zeros(0, int), np.zeros(0)
    return Prediction(name, CLASSES, 60, 80, np.array(scores), *nothing, best_boxes=boxes)


def truth_of(index: int) -> TrueBoxes:
    return TrueBoxes(TRUE_BOX[None], np.array([index]), np.array([False]))


@pytest.fixture
def ready(tmp_path: Path) -> Ready:
    """Eight images, the even ones tagged with the first class and the odd ones with the second."""
    rng = np.random.default_rng(0)
    names, paths = [], []
    for number in range(8):
        names.append(f'<i>"{number}&.jpg')
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(rng.integers(0, 256, (60, 80, 3), np.uint8)).save(paths[-1])
    labels = np.array([[1 - number % 2, number % 2] for number in range(8)], np.int8)
    patches = np.array([[0, 0, 80, 60], [10, 10, 50, 40], [5, 20, 30, 60], [40, 0, 80, 30]], np.uint16)
    return Ready(TaggedImages(CLASSES, tuple(names), tuple(paths), labels), [patches] * 8)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "runs" / "a<b>&c")
    folder.folder.mkdir(parents=True)
    folder.config.write_text('name = "</dl><script>"\nscales = [160]\nflips = true\nlearning_rate = 0.003\n')
    folder.versions.write_text(json.dumps({"torch": "2.6.0"}))
    folder.log.write_text("".join(json.dumps(entry) + "\n" for entry in LOG))
    return folder


def make_model(
    heads: tuple[str, ...] = ("classification", "discovery"), filters: int = 6, classes: int = len(CLASSES)
) -> Model:
    torch.manual_seed(1)
    network, _ = build_network(Recipe.of(backbone="tiny", heads=heads, filters=filters), classes)
    if network.classification is not None:  # larger weights than a new network has, so that responses differ
        torch.nn.init.normal_(network.classification.part_filters.weight)
        torch.nn.init.normal_(network.classification.classifier.weight)
    return Model(network, CLASSES, PredictSettings((64,)), SlidingWindow(), "cpu")


@pytest.fixture
def model() -> Model:
    return make_model()


@pytest.fixture
def hand() -> SimpleNamespace:
    """What tests build their own cases from."""
    return SimpleNamespace(
        classes=CLASSES, log=LOG, true_box=TRUE_BOX, prediction=make_prediction, truth=truth_of, model=make_model
    )


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --remote-debugging-pipe"
)


class Browser:
    """A headless Chromium, spoken to through its debugging pipe: it opens pages, runs scripts in them, hears errors."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self.ours_out = os.pipe()
        self.ours_in, theirs_out = os.pipe()
        command = f'exec "{CHROMIUM}" {FLAGS} --user-data-dir="{profile}" about:blank 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.waiting, self.number, self.events = b"", 0, []  # type: tuple[bytes, int, list[dict[str, Any]]]
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.waiting:
            more = os.read(self.ours_in, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.waiting += more
        message, self.waiting = self.waiting.split(b"\0", 1)
        return json.loads(message)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {} if self.session is None else {"sessionId": self.session}
        os.write(self.ours_out, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path: Path, width: int, scheme: str = "light", media: str = "") -> None:
        """Load a page in a window of this width (a phone's below 600)."""
        self.events.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media=media, features=preferred)
        self.send("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def run(self, script: str) -> Any:
        """Return the value of a script."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[dict[str, Any]]:
        """Return what the page has written to the console, and its uncaught errors."""
        kinds = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [event for event in self.events if event.get("method") in kinds]

    def close(self) -> None:
        self.session = None
        self.send("Browser.close")
        self.process.wait(30)
        os.close(self.ours_out)
        os.close(self.ours_in)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser, where this machine has one."""
    if CHROMIUM is None:
        pytest.skip("no Chromium or Chrome on this machine: the page is not tried in a browser")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
