"""The page in a real browser: no error on its console, every picture loads, and the choice of a class works."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from deep_patch_learning.report.build import build_report
from deep_patch_learning.report.page import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=3000",
]
# after the page has loaded: press the second class, then "all", and note what is shown
PROBE = """<script>addEventListener("load", () => {
  const shown = () => [...document.querySelectorAll(".card")].filter((card) => card.offsetParent).length;
  const press = (at) => { document.querySelectorAll("#tags button")[at].click(); return shown(); };
  const images = [...document.images];
  const seen = {first: shown(), cat: press(1), dog: press(2), all: press(0),
    images: images.length, loaded: images.filter((image) => image.complete && image.naturalWidth > 0).length,
    wide: document.documentElement.scrollWidth <= innerWidth};
  document.body.setAttribute("data-seen", JSON.stringify(seen).replaceAll('"', "'"));
});</script>"""


@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium or Chrome on this machine: the page is not tried in a browser"
)
@pytest.mark.parametrize("width", [1280, 500])
def test_in_a_browser(hand, run, model, ready, tmp_path, width):
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.pictures.names]
    truth = [hand.truth(number % 2) for number in range(8)]
    report = build_report(run, model, ready, predictions[:8], {"mAP": 50.0, "CorLoc": 40.0}, truth, filters=3)
    path = write_report(tmp_path / "report.html", report)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]
    done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120)
    assert not re.search("CONSOLE", done.stderr), done.stderr
    seen = json.loads(re.search('data-seen="([^"]*)"', done.stdout).group(1).replace("'", '"'))
    assert (seen["first"], seen["cat"], seen["dog"], seen["all"]) == (8, 4, 4, 8)
    assert seen["images"] == seen["loaded"] > 8
    assert seen["wide"], "the page scrolls sideways"
