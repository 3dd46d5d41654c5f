"""The paper's figures, which a reproduction is compared with. Percentages; seconds and hours on a GTX Titan X."""

from typing import NamedTuple

ALEXNET, VGG16 = "DPL-AlexNet", "DPL-VGG16"
SAMPLES = 80_000  # in training; VGG16 has 10,000 more before them, which train the heads only
IMAGES = {2007: {"trainval": 5011, "test": 4952}, 2012: {"trainval": 11540, "test": 10991}}
SINGLE_SCALE = 600
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


class ClassRow(NamedTuple):
    """A row of a per-class table: its mean as printed, and the figure of each class in the order of CLASSES."""

    mean: float
    classes: tuple[float, ...]

    def of(self, name: str) -> float | None:
        """Return the figure of a class, or None for a class that is not in VOC."""
        return self.classes[CLASSES.index(name)] if name in CLASSES else None


# Average precision on the test images.
CLASSIFICATION: dict[int, dict[str, ClassRow]] = {
    2007: {
        ALEXNET: ClassRow(85.3, (
            94.6, 92.0, 90.9, 88.8, 61.8, 85.4, 95.0, 91.8, 68.8, 77.1,
            77.6, 88.5, 92.7, 90.3, 98.0, 74.3, 84.8, 75.7, 95.5, 82.6,
        )),
        VGG16: ClassRow(92.7, (
            98.0, 97.4, 96.8, 95.6, 81.3, 94.6, 97.7, 97.7, 79.7, 91.1,
            85.7, 96.5, 96.9, 95.8, 99.2, 83.1, 92.2, 83.8, 97.8, 92.8,
        )),
        "HCP-AlexNet": ClassRow(82.7, (
            95.4, 90.7, 92.9, 88.9, 53.9, 81.9, 91.8, 92.6, 60.3, 79.3,
            73.0, 90.8, 89.2, 86.4, 92.5, 66.9, 86.4, 65.6, 94.4, 80.4,
        )),
        "HCP-VGG16": ClassRow(90.9, (
            98.6, 97.1, 98.0, 95.6, 75.3, 94.7, 95.8, 97.3, 73.1, 90.2,
            80.0, 97.3, 96.1, 94.9, 96.3, 78.3, 94.7, 76.2, 97.9, 91.5,
        )),
    },
    2012: {
        ALEXNET: ClassRow(84.4, (
            96.6, 87.1, 91.4, 89.0, 61.8, 89.7, 88.6, 93.9, 71.4, 77.1,
            74.5, 91.7, 90.5, 91.8, 97.6, 69.8, 82.7, 67.2, 93.2, 83.2,
        )),
        VGG16: ClassRow(92.5, (
            99.1, 95.0, 96.6, 94.1, 83.2, 95.0, 94.6, 98.1, 82.2, 93.9,
            82.1, 97.6, 96.8, 96.7, 98.9, 84.1, 93.5, 79.4, 97.3, 91.3,
        )),
        "HCP-AlexNet": ClassRow(81.8, (
            97.7, 83.2, 92.8, 88.5, 60.1, 88.7, 82.7, 94.4, 65.8, 81.9,
            68.0, 92.6, 89.1, 87.6, 92.1, 58.0, 86.6, 55.5, 92.5, 77.6,
        )),
        "HCP-VGG16": ClassRow(90.5, (
            99.1, 92.8, 97.4, 94.4, 79.9, 93.6, 89.8, 98.2, 78.2, 94.9,
            79.8, 97.8, 97.0, 93.8, 96.4, 74.3, 94.7, 71.9, 96.7, 88.6,
        )),
    },
}  # fmt: skip

# CorLoc on the trainval images, which were trained on.
DISCOVERY: dict[int, dict[str, ClassRow]] = {
    2007: {
        ALEXNET: ClassRow(43.5, (
            77.1, 65.9, 42.9, 19.2, 13.7, 59.9, 72.3, 42.4, 8.9, 54.1,
            13.7, 40.9, 38.8, 75.9, 35.3, 42.9, 57.7, 29.8, 51.7, 26.5,
        )),
        VGG16: ClassRow(45.4, (
            79.2, 42.0, 39.0, 42.0, 22.5, 67.5, 70.7, 45.6, 18.9, 42.5,
            24.7, 37.4, 35.0, 80.3, 17.6, 32.2, 57.7, 37.1, 63.9, 52.7,
        )),
    },
    2012: {
        ALEXNET: ClassRow(48.7, (
            78.1, 59.0, 47.9, 22.9, 22.7, 76.1, 57.0, 39.0, 16.9, 57.9,
            23.1, 48.7, 59.2, 78.4, 36.0, 39.8, 65.6, 49.4, 49.5, 46.2,
        )),
        VGG16: ClassRow(51.0, (
            79.0, 63.2, 50.3, 39.3, 38.3, 74.9, 58.1, 45.8, 21.9, 57.6,
            38.9, 51.0, 43.9, 80.8, 16.5, 39.6, 58.3, 49.9, 57.3, 56.1,
        )),
    },
}  # fmt: skip


class Ablation(NamedTuple):
    """A column of one of the paper's comparisons, all of AlexNet on VOC 2007; seconds are per test image."""

    mAP: float  # noqa: N815
    CorLoc: float | None = None
    seconds: float | None = None
    seconds_with_patches: float | None = None


FULL = Ablation(85.3, 43.5, 0.35, 1.85)  # both heads, five scales, Selective Search
TASKS = {"both": FULL, "classification": Ablation(85.0, None, 0.35), "discovery": Ablation(83.1, 40.4, 0.35)}
SCALES = {"five": FULL, "one": Ablation(82.7, 39.9, 0.07)}
PATCHES = {
    "selective-search": FULL,
    "edge-boxes": Ablation(85.2, 40.0, 0.15, 0.4),
    "sliding-window": Ablation(85.3, 24.4, 0.22, 0.22),
}
HCP = Ablation(82.7, None, 2.75, 3.0)  # of AlexNet


# Mean average precision of the peers in the paper, by network.
PEERS: dict[int, dict[str, dict[str, float]]] = {
    2007: {"hcp": {ALEXNET: 82.7, VGG16: 90.9}, "svm": {VGG16: 89.3}},
    2012: {"hcp": {ALEXNET: 81.8, VGG16: 90.5}, "svm": {VGG16: 89.0}},
}


class Time(NamedTuple):
    """Hours of one training, and seconds per test image with Selective Search and, where the paper has it, without."""

    training_hours: float
    seconds_with_patches: float
    seconds: float | None = None


TIMES = {ALEXNET: Time(6.0, 1.85, 0.35), VGG16: Time(28.0, 2.8)}


def counterpart(backbone: str) -> str | None:
    """Return the paper's network that corresponds to a backbone, or None."""
    return {"caffenet": ALEXNET, "alexnet": ALEXNET, "vgg16": VGG16, "vgg16-caffe": VGG16}.get(backbone)
