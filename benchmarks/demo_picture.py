"""Draws the README's image from a finished demo: its first eight test images with the best box of each tag.

python benchmarks/demo_image.py DPL_DEMO_FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from deep_patch_learning.common.boxes import pairwise_iou
from deep_patch_learning.common.drawing import draw_verdict
from deep_patch_learning.data.dataset import limited
from deep_patch_learning.data.readers.read import read_tags
from deep_patch_learning.data.truth import read_truth
from deep_patch_learning.inference.loading import load
from deep_patch_learning.inference.stream import predict_prepared
from deep_patch_learning.patches.prepare import prepare

ENLARGED, COLUMNS = 3, 4


def main() -> None:
    folder = Path(sys.argv[1])
    listing = folder / "world" / "world.jsonl"
    model = load(folder / "runs" / "second")
    images = limited(read_tags(listing, "test"), 2 * COLUMNS)
    prepared = prepare(images, model.patch_generator, folder / "patches")
    truth = read_truth(listing, images)
    assert truth is not None
    drawn = []
    for i, found in enumerate(predict_prepared(model, prepared)):
        tagged = np.flatnonzero(images.labels[i] == 1)
        boxes = found.best_boxes[tagged]
        right = [
            pairwise_iou(box[None], truth[i].of_class(c)).max() >= 0.5 for c, box in zip(tagged, boxes, strict=True)
        ]
        image = Image.fromarray(images.read(i))
        large = image.resize((image.width * ENLARGED, image.height * ENLARGED), Image.Resampling.LANCZOS)
        labels = [f"{images.classes[c]} {100 * found.probabilities[c]:.0f} %" for c in tagged]
        card = draw_verdict(large, boxes * ENLARGED, right, labels, truth[i].boxes * ENLARGED)
        drawn.append(np.asarray(card.convert("RGB").resize((400, 320), Image.Resampling.LANCZOS)))
    gap = 8
    rows = [drawn[at : at + COLUMNS] for at in range(0, len(drawn), COLUMNS)]
    sheet = np.full((len(rows) * (320 + gap) - gap, COLUMNS * (400 + gap) - gap, 3), 255, np.uint8)
    for r, row in enumerate(rows):
        for c, card in enumerate(row):
            sheet[r * (320 + gap) : r * (320 + gap) + 320, c * (400 + gap) : c * (400 + gap) + 400] = card
    Image.fromarray(sheet).quantize(256).save(
        Path(__file__).parent.parent / "docs" / "images" / "demo.png", optimize=True
    )


if __name__ == "__main__":
    main()
