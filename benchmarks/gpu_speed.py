"""Training and testing speed on one GPU, beside a plain version of the same step built from torchvision's operators.

    python benchmarks/gpu_speed.py [--quick] [--no-memory]

Same images (noise of VOC's usual sizes, held on the device), patches and batches, in bf16. The plain version is the obvious
one: channels first, `torchvision.ops.roi_pool`, batch norm as a layer, a loop over images and cells for the maxima. Writes
results/gpu_speed.csv (samples and images per second), results/gpu_memory.csv (peak memory) and results/gpu_profile.csv (the
time of a step by kind of work). Profiles come last, so that the profiler does not slow the timing.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.ops import batched_nms, box_iou, roi_pool

from deep_patch_learning.data.batch import lay_out, render
from deep_patch_learning.data.dataset import TaggedImages
from deep_patch_learning.inference.model import ImageInput, Model, PredictSettings
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.recipe.build import build_network
from deep_patch_learning.recipe.presets import modern
from deep_patch_learning.recipe.recipe import Recipe
from deep_patch_learning.recipe.settings import PAPER_SCALES
from deep_patch_learning.refinement.selection import BoxSelection
from deep_patch_learning.research.peers.hcp import build_hcp
from deep_patch_learning.runs.folder import RunFolder
from deep_patch_learning.training.loop import Trainer
from deep_patch_learning.training.process import TrainingOptions, set_up_process
from rows import RESULTS, write_rows

SIZES = ((375, 500), (333, 500), (500, 375), (375, 500))
CLASSES = 20
# name, backbone, patches of each image, images a step, optimiser
TRAININGS = (
    ("DPL-VGG16", "vgg16", 2000, 8, "adamw"),
    ("DPL-VGG16, the paper's step", "vgg16", 2000, 2, "sgd"),
    ("DPL-ResNet50", "resnet50", 512, 8, "adamw"),
    ("DPL-ResNet50", "resnet50", 128, 8, "adamw"),
)
TESTS = (("DPL-VGG16", "vgg16", 2000), ("DPL-ResNet50", "resnet50", 2000), ("DPL-ResNet50", "resnet50", 512))


def make_images(folder: Path, count: int, patches: int) -> tuple[TaggedImages, list[np.ndarray]]:
    """Return noise images of VOC's usual sizes and random patches whose sides run from 8 to 90 % of the image's."""
    random = np.random.default_rng(0)
    paths, boxes = [], []
    for number in range(count):
        height, width = SIZES[number % len(SIZES)]
        paths.append(folder / f"{number}.jpg")
        if not paths[-1].exists():
            Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8)).save(paths[-1])
        side = np.exp(random.uniform(np.log(0.08), np.log(0.9), (patches, 2)))
        corner = random.uniform(0, 1, (patches, 2)) * (1 - side)
        boxes.append((np.concatenate([corner, corner + side], 1) * ([width, height] * 2)).astype(np.float32))
    labels = (random.random((count, CLASSES)) < 0.1).astype(np.int8)
    names = tuple(path.name for path in paths)
    return TaggedImages(tuple(map(str, range(CLASSES))), names, tuple(paths), labels), boxes


class Plain(nn.Module):
    """The network of the paper from torchvision's operators, as one would write it first."""

    def __init__(self, backbone: str) -> None:
        super().__init__()
        import torchvision

        if backbone == "vgg16":
            whole = torchvision.models.vgg16()
            self.body, self.layers = whole.features[:-1], nn.Sequential(nn.Flatten(), *list(whole.classifier)[:6])
            width = 4096
        else:
            whole = torchvision.models.resnet50()
            self.body = nn.Sequential(*list(whole.children())[:7])
            self.layers = nn.Sequential(whole.layer4, nn.AdaptiveAvgPool2d(1), nn.Flatten())
            width = 2048
        self.parts, self.classifier = nn.Linear(width, 256), nn.Linear(2048, CLASSES)
        self.patch_classifier = nn.Linear(width, CLASSES)
        self.register_buffer("mean", torch.tensor([123.7, 116.3, 103.5]).view(1, 3, 1, 1))

    def forward(self, images: Tensor, patches: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        maps = self.body((images - self.mean) / 58)
        pooled = roi_pool(maps.float(), patches, (7, 7), 1 / 16)
        features = self.layers(pooled)
        counts = [len(own) for own in patches]
        encoded, scores = self.parts(features).split(counts), self.patch_classifier(features).split(counts)
        height, width = images.shape[2:]
        pyramids = [self._pyramid(e, b, height, width) for e, b in zip(encoded, patches, strict=True)]
        best = torch.stack([own.amax(0) for own in scores])
        return self.classifier(torch.stack(pyramids)), best, list(scores)

    def _pyramid(self, encoded: Tensor, boxes: Tensor, height: int, width: int) -> Tensor:
        x, y = (boxes[:, 0] + boxes[:, 2]) / 2 / width, (boxes[:, 1] + boxes[:, 3]) / 2 / height
        cells = [torch.ones_like(x, dtype=torch.bool)]
        cells += [(x >= a) & (x < a + 0.5) & (y >= b) & (y < b + 0.5) for a in (0, 0.5) for b in (0, 0.5)]
        cells += [y < 0.33, (y >= 0.33) & (y < 0.67), y >= 0.67]
        return torch.cat([encoded.masked_fill(~inside[:, None], -1e4).amax(0) for inside in cells])


def freeze(network: nn.Module) -> nn.Module:
    """Return the network in training mode with its batch norms frozen, as ours are."""
    network.train()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eval()
    return network


def seconds(work: Callable[[], None], repeats: int = 1) -> float:
    """Return the seconds that `work` takes on the device."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats


class Training:
    """The same sequence of steps for ours and for the plain version."""

    def __init__(self, folder: Path, backbone: str, patches: int, together: int, optimiser: str) -> None:
        images, boxes = make_images(folder, 64, patches)
        recipe: Recipe = modern(backbone, steps=100_000).replace(
            weights="", patches_per_sample=patches, batch_images=together, images_per_micro_batch=together, optimiser=optimiser,
            frozen_stages=0,
        )  # fmt: skip
        run = RunFolder(folder / f"{backbone}-{patches}-{together}")
        self.recipe = recipe
        self.trainer = Trainer(recipe, Prepared(images, boxes, []), run, TrainingOptions(10**9, 1e9, "cuda"))
        set_up_process(recipe, self.trainer.fabric.device)
        self.trainer.images.fill()
        self.trainer.network.train()
        self.plain = freeze(Plain(backbone)).cuda()
        kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
        self.optimiser = kinds[optimiser](self.plain.parameters(), lr=1e-5)

    def ours(self, first: int, steps: int) -> None:
        take(self.trainer, first, steps)

    def theirs(self, first: int, steps: int) -> None:
        trainer = self.trainer
        for step in range(first, first + steps):
            for layout, labels, samples in trainer._prepare(step):
                batch = render(layout, [trainer.images[v.image] for v in samples], "cuda")
                self.plain_step(batch.images.contiguous(), list(batch.patches.split(batch.counts)), labels.cuda())

    def plain_step(self, images: Tensor, patches: list[Tensor], labels: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            classification, discovery, _ = self.plain(images, patches)
        target = (labels == 1).float()
        loss = sum(F.binary_cross_entropy_with_logits(s.float(), target) for s in (classification, discovery))
        loss.backward()
        nn.utils.clip_grad_norm_(self.plain.parameters(), 5.0)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def operations(self, steps: int) -> float:
        """Return the multiplications and additions of convolutions and matrix products in one plain step, in the mean."""
        with FlopCounterMode(display=False) as counter:
            self.theirs(0, steps)
        return counter.get_total_flops() / steps


KINDS = (
    ("RoI pooling", ("_pool", "_spread", "roi_pool", "RoIPool")),
    ("optimiser", ("adam", "sgd", "multi_tensor", "lpnorm")),
    ("convolutions", ("xmma", "cudnn", "conv", "implicit", "wgrad", "dgrad")),
    ("matrix products", ("nvjet", "gemm", "cutlass", "cublas", "splitK")),
    ("max-pooling", ("max_pool",)),
    ("maxima over patches", ("argmax", "ArgMax", "gather", "scatter", "masked_fill")),
    ("scaling images", ("upsample",)),
)


def kernels(work: Callable[[], None]) -> dict[str, float]:
    """Return the milliseconds of the device by kind of kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        work()
        torch.cuda.synchronize()
    kinds: dict[str, float] = defaultdict(float)
    for event in found.key_averages():
        kind = next((k for k, words in KINDS if any(word in event.key for word in words)), "ReLU, sums, casts, copies")
        kinds[kind] += event.self_device_time_total / 1e3
    return dict(kinds)


def train_speed(folder: Path, common: dict, quick: bool, rate: float) -> list[dict]:
    rows = []
    warm, steps = (3, 5) if quick else (20, 30)
    for name, backbone, patches, together, optimiser in TRAININGS:
        case = Training(folder, backbone, patches, together, optimiser)
        flops = case.operations(warm)
        found: dict[str, list[float]] = {"ours": [], "plain": []}
        case.ours(0, warm)
        case.theirs(0, warm)
        for turn in range(3):  # in turns, so that neither gets the cooler device
            found["ours"].append(seconds(partial(case.ours, warm + turn * steps, steps)) / steps)
            found["plain"].append(seconds(partial(case.theirs, warm + turn * steps, steps)) / steps)
        ours, plain = (sorted(values)[1] for values in found.values())
        row = {"what": "training", "network": name, "patches": patches, "images_per_step": together}
        row |= {"ours": round(together / ours, 1), "plain": round(together / plain, 1), "ratio": round(plain / ours, 2)}
        row |= {"teraflop_per_image": round(flops / together / 1e12, 3)}
        row |= {"share_of_matrix_rate": round(flops / ours / rate, 3), "unit": "samples/s"}
        rows.append(row | common)
        print(rows[-1], flush=True)
        del case
        torch.cuda.empty_cache()
    return rows


def profiles(folder: Path, common: dict, quick: bool, speeds: list[dict]) -> list[dict]:
    """Return the milliseconds of a sample by kind of kernel, and the rest of its time as measured in `speeds`."""
    rows = []
    steps = 3 if quick else 20
    for (name, backbone, patches, together, optimiser), speed in zip(TRAININGS, speeds, strict=True):
        if patches == 128:
            continue
        case = Training(folder, backbone, patches, together, optimiser)
        case.ours(0, steps)
        kinds = {kind: spent / steps / together for kind, spent in kernels(partial(case.ours, 0, steps)).items()}
        kinds["waiting for the host"] = max(1e3 / speed["ours"] - sum(kinds.values()), 0.0)
        for kind, spent in sorted(kinds.items(), key=lambda pair: -pair[1]):
            rows.append({"network": name, "patches": patches, "kind": kind, "ms_per_sample": round(spent, 3)} | common)
        del case
        torch.cuda.empty_cache()
    return rows


def take(trainer: Trainer, first: int, steps: int) -> None:
    """Take some steps of a training."""
    trainer.step = first
    for step in range(first, first + steps):
        trainer._take_step(trainer._prepare(step))
    trainer._since_log.clear()


def test_speed(folder: Path, common: dict, quick: bool) -> list[dict]:
    rows = []
    for name, backbone, patches in TESTS:
        images, boxes = make_images(folder, 64, patches)
        ready = [ImageInput(images.names[i], images.read(i), boxes[i]) for i in range(8 if quick else 64)]
        ready.sort(key=lambda image: image.image.shape)
        network = build_network(Recipe.of(backbone=backbone), CLASSES)[0]
        model = Model(
            network,
            images.classes,
            PredictSettings(PAPER_SCALES, 48, "bf16-mixed", BoxSelection(True)),
            generator("sliding-window"),
            "cuda",
        )
        plain = Plain(backbone).cuda().eval()

        def ours(model: Model = model, ready: list[ImageInput] = ready) -> None:
            list(model.predict_images(ready, 8))

        def theirs(plain: nn.Module = plain, ready: list[ImageInput] = ready) -> None:
            for image in ready:
                plain_predict(plain, image)

        ours(), theirs()
        spent = {"ours": seconds(ours), "plain": seconds(theirs)}
        again = {"ours": seconds(ours), "plain": seconds(theirs)}
        ours_, plain_ = (min(spent[way], again[way]) for way in ("ours", "plain"))
        row = {"what": "testing, five scales", "network": name, "patches": patches, "images_per_step": 8}
        row |= {"ours": round(len(ready) / ours_, 1), "plain": round(len(ready) / plain_, 1)}
        row |= {
            "ratio": round(plain_ / ours_, 2),
            "teraflop_per_image": "",
            "share_of_matrix_rate": "",
            "unit": "images/s",
        }
        rows.append(row | common)
        print(rows[-1], flush=True)
        if patches == 2000:
            rows.append(against_hcp(name, backbone, images, ready, ours_ / len(ready), common))
            print(rows[-1], flush=True)
        del model, plain, network
        torch.cuda.empty_cache()
    return rows


def against_hcp(
    name: str, backbone: str, images: TaggedImages, ready: list[ImageInput], ours: float, common: dict
) -> dict:
    """Return our test time with 2,000 patches at five scales beside that of HCP with its 500 crops, as in the paper."""
    parts = build_network(Recipe.of(backbone=backbone, heads=("discovery",)), CLASSES)[0]
    network = build_hcp(parts, parts.patch_features.width, CLASSES)
    settings = PredictSettings((600,), 48, "bf16-mixed", BoxSelection(True))
    model = Model(network, images.classes, settings, generator("sliding-window"), "cuda")
    few = [image._replace(patches=image.patches[:500]) for image in ready[:16]]
    list(model.predict_images(few, 1))
    theirs = seconds(lambda: list(model.predict_images(few, 1))) / len(few)
    row = {"what": "testing, beside HCP with 500 crops", "network": name, "patches": 2000, "images_per_step": 8}
    row |= {"ours": round(1 / ours, 1), "plain": round(1 / theirs, 1), "ratio": round(theirs / ours, 2)}
    return row | {"teraflop_per_image": "", "share_of_matrix_rate": "", "unit": "images/s"} | common


@torch.inference_mode()
def plain_predict(network: nn.Module, image: ImageInput) -> tuple:
    """Predict one image at five scales with the vote and suppression, all on the device, one scale after the other."""
    size = (image.image.shape[0], image.image.shape[1])
    total = None
    for scale in PAPER_SCALES:
        batch = render(lay_out([size], [image.patches], scale), [image.image], "cuda")
        with torch.autocast("cuda", torch.bfloat16):
            _, _, (scores,) = network(batch.images.contiguous(), [batch.patches])
        total = scores.float() if total is None else total + scores.float()
    boxes = torch.from_numpy(image.patches).cuda()
    votes = box_iou(boxes, boxes) @ (total / 5 - total.amax(0) / 5).exp()
    classes = torch.arange(CLASSES, device="cuda").repeat_interleave(len(boxes))
    kept = batched_nms(boxes.repeat(CLASSES, 1), total.T.flatten(), classes, 0.3)
    return votes.argmax(0).cpu(), kept.cpu()


def memory(folder: Path, common: dict) -> list[dict]:
    """Return the largest memory of training steps at the largest scale, by patches and images."""
    rows = []
    for name, backbone in (("DPL-VGG16", "vgg16"), ("DPL-ResNet50", "resnet50")):
        for together, patches in ((1, 500), (1, 2000), (2, 2000), (8, 500), (8, 2000)):
            images, boxes = make_images(folder, 16, patches)
            recipe = modern(backbone, 10).replace(
                weights="", scales=(1200,), patches_per_sample=patches, batch_images=together, images_per_micro_batch=together,
                frozen_stages=0,
            )  # fmt: skip
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            run = RunFolder(folder / f"m{backbone}{together}{patches}")
            trainer = Trainer(recipe, Prepared(images, boxes, []), run, TrainingOptions(device="cuda"))
            set_up_process(recipe, trainer.fabric.device)
            trainer.network.train()
            for step in range(2):
                trainer._take_step(trainer._prepare(step))
            used = torch.cuda.max_memory_allocated() / 2**30
            row = {"network": name, "scale": 1200, "images_per_micro_batch": together, "patches": patches}
            rows.append(row | {"gibibytes": round(used, 1)} | common)
            print(rows[-1], flush=True)
            del trainer
    return rows


def matrix_rate() -> float:
    """Return the operations per second of a large bf16 matrix product."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    seconds(lambda: a @ b, 5)
    return 2 * 8192**3 / seconds(lambda: a @ b, 20)


def about(command: str) -> dict:
    """Return how and where a figure was measured."""
    machine = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__}
    return {"command": command, "seed": 0} | machine | {"date": date.today().isoformat()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--no-memory", action="store_true", help="leave results/gpu_memory.csv as it is")
    options = parser.parse_args()
    quick = options.quick
    rate = matrix_rate()
    common = {"matrix_teraflops": round(rate / 1e12)} | about("python benchmarks/gpu_speed.py")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        speeds = train_speed(folder, common, quick, rate)
        write_rows(RESULTS / "gpu_speed.csv", speeds + test_speed(folder, common, quick))
        if not options.no_memory:
            write_rows(RESULTS / "gpu_memory.csv", memory(folder, common))
        write_rows(RESULTS / "gpu_profile.csv", profiles(folder, common, quick, speeds))


if __name__ == "__main__":
    main()
