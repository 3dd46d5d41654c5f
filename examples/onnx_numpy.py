"""Tags and boxes of an image with onnxruntime and numpy alone: python onnx_numpy.py model.onnx photo.ppm [patches.npy]

Any program writes a .ppm (`convert photo.jpg photo.ppm`). Without patches (P, 4), x1 y1 x2 y2 in pixels, windows of three shapes
are taken; the network was trained on patches of Selective Search, and those give better boxes.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

data = Path(sys.argv[2]).read_bytes()
width, height = (int(number) for number in data.split(maxsplit=3)[1:3])
image = np.frombuffer(data[-3 * width * height :], np.uint8).reshape(height, width, 3)
windows = [
    (x, y, min(x + w, width), min(y + h, height))
    for size in (0.3, 0.5, 0.75, 1)
    for w, h in (
        (size * width, size * height),
        (size * width * 0.6, size * height),
        (size * width, size * height * 0.6),
    )
    for y in np.arange(0, height - h + 1, max(height / 8, 1))
    for x in np.arange(0, width - w + 1, max(width / 8, 1))
]
patches = np.load(sys.argv[3]) if len(sys.argv) > 3 else np.array(windows)

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = session.get_modelmeta().custom_metadata_map
tags, box_scores, boxes, best = session.run(
    ["tags", "box_scores", "boxes", "best"], {"image": image, "patches": patches.astype(np.float32)}
)
for index, (name, least) in enumerate(zip(json.loads(about["classes"]), json.loads(about["thresholds"]), strict=True)):
    if tags[index] >= least:
        print(name, f"{tags[index]:.3f}", *(f"{corner:.1f}" for corner in boxes[best[index]]))
