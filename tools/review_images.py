"""Draw the images of docs/review.md: dpl review on photos, in a real browser.

python tools/review_images.py STORE          # a store of `dpl review`, of which a copy is reviewed; needs Debian's chromium
"""

import io
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from deep_patch_learning.commands.review import opened_review

IMAGES = Path(__file__).parent.parent / "docs" / "images"
STILL = "new Promise((done) => setTimeout(done, 400))"


def shot(page: Any) -> Image.Image:
    page.evaluate(STILL)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def save(image: Image.Image, name: str) -> None:
    image.save(IMAGES / name, quality=82, method=6)


def judge(page: Any, wrong: tuple[int, ...]) -> None:
    for number in wrong:
        page.locator("#tiles .face").nth(number).click()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(folder) / "voc2007.sqlite"
        shutil.copy(sys.argv[1], store)
        served = opened_review(store, None, None, None, {"port": 0})
        thread = threading.Thread(target=served.server.run, kwargs={"sockets": [served.sock]})
        thread.start()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(served.url)
        page.wait_for_selector("#tiles .face")
        frames = [(shot(page), 1500)]
        for _ in range(2):
            for number in (4, 12):
                judge(page, (number,))
                frames.append((shot(page), 500))
            page.keyboard.press("Enter")
            frames.append((shot(page), 900))
        page.evaluate("new Promise((done) => setTimeout(done, 1500))")
        judge(page, (3, 9))
        save(shot(page), "review_grid.webp")
        page.locator("#tiles .face").nth(9).click()
        page.keyboard.press("m")
        page.evaluate(STILL)
        frames.append((shot(page), 900))
        page.keyboard.press("e")
        page.wait_for_selector("#boxes li")
        frames.append((shot(page), 900))
        save(frames[-1][0], "review_image.webp")
        for key in ("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown", "ArrowLeft"):
            for _ in range(3):
                page.keyboard.press(key)
            frames.append((shot(page), 300))
        page.keyboard.press("Enter")
        frames.append((shot(page), 1200))
        small = [frame.resize((800, 500), Image.Resampling.LANCZOS) for frame, _ in frames]
        small[0].save(
            IMAGES / "review.webp", save_all=True, append_images=small[1:], duration=[time for _, time in frames], loop=0,
            quality=60, method=6,
        )  # fmt: skip
        dark = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
        dark.goto(served.url)
        dark.wait_for_selector("#tiles .face")
        save(shot(dark), "review_dark.webp")
        phone = browser.new_page(viewport={"width": 390, "height": 780}, has_touch=True, device_scale_factor=2)
        phone.goto(served.url)
        phone.wait_for_selector("#tiles .face")
        first = shot(phone)
        phone.locator("#tiles .open").nth(4).click()
        phone.wait_for_selector("#boxes li")
        both = Image.new("RGB", (2 * first.width + 40, first.height), "white")
        both.paste(first)
        both.paste(shot(phone), (first.width + 40, 0))
        save(both, "review_phone.webp")
        browser.close()
        served.server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
