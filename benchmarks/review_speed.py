"""How fast a review goes: screens and keys for 500 boxes, the time until something is shown, and 50 clients at once.

python benchmarks/review_speed.py            # needs Debian's chromium; writes results/review.csv
"""

import argparse
import asyncio
import csv
import os
import platform
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from PIL import Image

from deep_patch_learning.review.store import FoundBox, FoundImage, create_store

RESULTS = Path(__file__).parent.parent / "results" / "review.csv"
COLUMNS = ("what", "value", "unit", "detail", "images", "seed", "command", "date", "machine")
CLASSES = tuple(f"class {number}" for number in range(20))


def make_store(folder: Path, images: int, seed: int = 0) -> Path:
    """Return a store of noise images of 500 x 375 pixels, half of them with a second box."""
    random_ = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    found = []
    for number in range(images):
        path = folder / "images" / f"{number:05}.jpg"
        small = random_.integers(0, 255, (24, 32, 3), np.uint8)
        Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=88)
        boxes = []
        for index in random_.choice(20, 1 + number % 2, replace=False):
            x, y = map(float, random_.integers(0, 180, 2))
            right = float(random_.uniform(0.2, 0.98))
            boxes.append(
                FoundBox(int(index), (x, y, x + 180.0, y + 150.0), right, right, 1 - right, f"{right:.0%} likely right")
            )
        states = [int(any(box.index == index for box in boxes)) for index in range(20)]
        found.append(FoundImage(path.name, path.resolve(), 500, 375, states, boxes, "", float(random_.uniform())))
    create_store(folder / "review.sqlite", CLASSES, found, {"title": "speed"}, seed)
    return folder / "review.sqlite"


class Server:
    """`dpl review` in a process of its own."""

    def __init__(self, store: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.store, self.address = store, f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "deep_patch_learning", "review", str(self.store), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr or ():
            if "every action" in line:
                return
        raise SystemExit("the server does not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


# In the browser


def browse(server: Server, changes: int, boxes: int) -> list[tuple[str, float, str, str]]:
    """Return the times and counts of a scripted review in a real browser."""
    from playwright.sync_api import sync_playwright

    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        paints = [first_paint(page, server.address) for _ in range(5)]
        rows.append(("first paint", median(paints), "ms", "median of 5, grid of 21 crops, from the request"))
        times = [image_change(page, number) for number in range(2, changes + 2)]
        rows.append(("image change", median(times), "ms", f"median of {changes}, with its boxes, until it is decoded"))
        page.evaluate("location.hash = '#/grid'")
        page.wait_for_selector("#tiles .face")
        judged, keys, screens = 0, 0, 0
        chance = random.Random(0)
        while judged < boxes:
            shown = page.locator("#tiles .tile").count()
            for _ in range(shown):  # one in ten is wrong: go there and mark it
                keys += 1
                page.keyboard.press("ArrowRight")
                if chance.random() < 0.1:
                    keys += 1
                    page.keyboard.press("x")
            keys, screens, judged = keys + 1, screens + 1, judged + shown
            page.keyboard.press("Enter")
            page.evaluate(STILL)
        rows += [("screens for 500 boxes", screens * boxes / judged, "screens", "1280 x 800")]
        rows += [("keys for 500 boxes", keys * boxes / judged, "keys", "one box in ten marked, by the arrow keys")]
        browser.close()
    return rows


STILL = """(async () => {
  for (let i = 0; i < 3000; i++) {
    await new Promise((done) => setTimeout(done, 10));
    if (document.documentElement.dataset.busy === "0" && document.getElementById("saved").dataset.state === "saved") return;
  }
})()"""


def first_paint(page: Any, address: str) -> float:
    """Return the milliseconds from the request until every crop of the first screen is decoded and painted."""
    page.goto(address)
    return page.evaluate("""(async () => {
      while (!document.querySelector("#tiles .face img")) await new Promise((done) => setTimeout(done, 5));
      await Promise.all([...document.querySelectorAll("#tiles img")].map((one) => one.decode()));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now();
    })()""")


def image_change(page: Any, number: int) -> float:
    """Return the milliseconds from asking for another image until it is decoded, with its boxes."""
    return page.evaluate(
        """(async (number) => {
      const before = performance.now(), photo = document.getElementById("photo");
      location.hash = `#/image/${number}`;
      const wanted = `/images/${number}/`;
      while (!photo.src.includes(wanted) || !photo.complete || !document.querySelector(".a9s-annotation"))
        await new Promise((done) => setTimeout(done, 2));
      await photo.decode();
      return performance.now() - before;
    })""",
        number,
    )


# Many clients


async def client(server: Server, end: float, acknowledged: list[int], times: list[float], errors: list[str]) -> None:
    """Accept screens of a client's own and read what a page reads, until the end; repeat what got no answer."""
    tab = uuid.uuid4().hex
    async with httpx.AsyncClient(base_url=server.address, timeout=30) as http:
        await again(http, "GET", "/", None, times, errors)
        while time.monotonic() < end:
            screen = await again(http, "POST", "/api/screen", {"tab": tab, "mode": "sample", "size": 4}, times, errors)
            if screen is None or not screen["boxes"]:
                return
            boxes = screen["boxes"]
            seen = {str(box["image"]): box["version"] for box in boxes}
            action = {"id": uuid.uuid4().hex, "kind": "judge", "seen": seen}
            action["boxes"] = {str(box["id"]): random.choice(("right", "wrong")) for box in boxes}
            if await again(http, "POST", "/api/actions", action, times, errors) is not None:
                acknowledged += [box["id"] for box in boxes]
            await again(http, "POST", "/api/pulse", {"tab": tab, "holds": []}, times, errors)
            await again(http, "GET", f"/crops/{boxes[0]['id']}", None, times, errors)
            await asyncio.sleep(random.uniform(0.5, 1.5))  # a person looks


async def again(http: Any, method: str, path: str, body: Any, times: list[float], errors: list[str]) -> Any:
    """Return the answer, asked for until there is one: while the server is away a client waits."""
    while True:
        begun = time.monotonic()
        try:
            answer = await http.request(method, path, json=body)
        except httpx.TransportError:
            await asyncio.sleep(0.05)
            continue
        times.append(1000 * (time.monotonic() - begun))
        if answer.status_code != 200:
            errors.append(f"{answer.status_code} {path} {answer.text[:80]}")
            return None
        return answer.json() if answer.headers["content-type"] == "application/json" else {}


async def load(server: Server, clients: int, seconds: float, kills: int) -> tuple[list[int], list[float], list[str]]:
    """Return the boxes that were acknowledged, the times in milliseconds, and the errors."""
    acknowledged: list[int] = []
    times: list[float] = []
    errors: list[str] = []
    end = time.monotonic() + seconds
    work = [asyncio.create_task(client(server, end, acknowledged, times, errors)) for _ in range(clients)]
    for _ in range(kills):
        await asyncio.sleep(random.uniform(0.3, 1.5))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    await asyncio.gather(*work)
    return acknowledged, times, errors


def lost(store: Path, acknowledged: list[int]) -> int:
    """Return how many acknowledged boxes the store does not hold, or holds twice in its actions."""
    with closing(sqlite3.connect(store)) as file:
        judged = {row[0] for row in file.execute("SELECT id FROM boxes WHERE status != 'open'")}
        query = "SELECT json_extract(one.value, '$.key.id') FROM actions, json_each(actions.changes) AS one WHERE kind = 'judge'"
        written = [row[0] for row in file.execute(query) if row[0] is not None]
    return len(set(acknowledged) - judged) + len(written) - len(set(written))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        store = make_store(Path(name) / "data", asked.images)
        fresh = Path(name) / "fresh.sqlite"
        shutil.copy(store, fresh)
        server = Server(store)
        rows = browse(server, asked.changes, 500)
        server.kill()
        for kills in (0, asked.kills):
            again_ = Path(name) / f"load{kills}.sqlite"
            shutil.copy(fresh, again_)
            server = Server(again_)
            acknowledged, times, errors = asyncio.run(load(server, asked.clients, asked.seconds, kills))
            server.kill()
            print(*errors[:5], sep="\n")
            who = f"{asked.clients} clients, {asked.seconds:g} s" + (f", killed {kills} times" if kills else "")
            if not kills:
                rows.append(("95th percentile of answers", float(np.percentile(times, 95)), "ms", who))
                rows.append(("median of answers", median(times), "ms", who))
                rows.append(("answers per second", len(times) / asked.seconds, "1/s", who))
            rows.append(("errors", len(errors), "answers", f"{who}; {len(times)} answers"))
            rows.append(
                (
                    "acknowledged and lost, or done twice",
                    lost(again_, acknowledged),
                    "boxes",
                    f"{who}; {len(acknowledged)} boxes",
                )
            )
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    command = "python " + " ".join(sys.argv)
    with asked.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for what, value, unit, detail in rows:
            print(f"{what}: {value:.4g} {unit} ({detail})")
            writer.writerow(
                (what, f"{value:.4g}", unit, detail, asked.images, 0, command, date.today().isoformat(), machine)
            )


if __name__ == "__main__":
    main()
