"""Inputs that are broken at random, by kind, and read in a process that is watched: no traceback, hang, write or flood of memory.

Every input is made from a good one and the trial's `Random`. It is read by the functions of `targets.py`, which the commands
call too, in a process that reads thousands of them; one that crashes or hangs is replaced.
"""

import io
import json
import os
import pickle
import select
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import mutate
import numpy as np
from outcomes import HANG, Kind, Outcome, Result, Trial
from PIL import Image

MEMORY = 2 << 30  # bytes that a single bad file may take, with all libraries
LARGEST = 8 << 20  # letters of an input: what is larger takes long because it is large
BESIDE = ("/dev/null", "__pycache__")  # written without being an output


class Reader:
    """The process that reads, started anew where it ended."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.env = {**os.environ, "DPL_CACHE": str(scratch / "cache"), "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)}
        self.process: subprocess.Popen[str] | None = None

    def read(self, kind: str, path: Path) -> Result:
        """Return what came of reading `path` as an input of a kind."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{kind} {path}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], HANG)[0]:
            self.close()
            return Result(Outcome.HANG, f"not read after {HANG:g} s")
        line = process.stdout.readline()
        if not line:
            said = process.stderr.read()[-2000:] if process.stderr else ""
            status = process.wait()
            self.process = None
            return Result(Outcome.TRACEBACK, f"the process ended with {status}\n{said}")
        return self._judged(json.loads(line))

    def _judged(self, found: dict[str, Any]) -> Result:
        strange = [place for place in found["writes"] if not self._may(place)]
        started = [what for what in found["started"] if "patches.proposals" not in what]
        if strange or started:
            return Result(Outcome.LOST_OR_CHANGED, f"wrote to {strange}, started {started}")
        if found["peak"] > MEMORY:
            return Result(Outcome.TRACEBACK, f"took {found['peak'] / 2**30:.1f} GiB of memory; {found['said']}")
        if found["error"] == "fault" or "\n" in found["said"]:
            return Result(Outcome.TRACEBACK, found["said"])
        return Result(Outcome.CLEAN_ERROR if found["error"] else Outcome.SUCCESS, found["said"])

    def _may(self, place: str) -> bool:
        return place.startswith(str(self.scratch)) or any(part in place for part in BESIDE)

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None:
            command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command, env=self.env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
        return self.process

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


Make = Callable[[Trial], Path]  # writes the input and returns its path


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return the kinds of inputs; the good ones that they are made from, and a small run, are made in `scratch`."""
    reader = Reader(scratch)

    def reading(kind: str, make: Make) -> Kind:
        return lambda trial: reader.read(kind, make(trial))

    return {kind: reading(kind, make) for kind, make in makers(scratch).items()}


def makers(scratch: Path) -> dict[str, Make]:
    """Return what makes a broken input of each kind."""
    run = _run(scratch)
    images = _images(scratch)
    files = {
        "recipes": ("config.toml", (run / "config.toml").read_text()),
        "set": ("set.txt", SET),
        "split-lists": ("list.txt", "a.png\nb.png\n"),
    }
    made: dict[str, Make] = {kind: _text(*file) for kind, file in files.items()}
    made["images"] = lambda trial: _write(trial, *_image(images, trial.random))
    made["csv"] = lambda trial: _beside_images(trial, "tags.csv", mutate.of_text(CSV, trial.random))
    made["json-lines"] = _json_lines
    made["coco"] = lambda trial: _beside_images(trial, "coco.json", _json(COCO, trial.random))
    made["voc"] = _voc
    made["split-lists"] = _split_list
    made["proposals"] = _proposals
    made["run-folders"] = lambda trial: _tampered(run, trial)
    made["label-studio"] = lambda trial: _beside_images(trial, "tasks.json", _json(STUDIO, trial.random))
    made["cvat"] = lambda trial: _beside_images(trial, "annotations.xml", mutate.of_text(CVAT, trial.random))
    made["review-answers"] = _answers
    shards = _shards(scratch)
    for suffix in shards:
        made[suffix] = lambda trial, suffix=suffix: _write(
            trial, f"a.{suffix}", mutate.of_bytes(shards[suffix], trial.random)
        )
    saved = _prediction()
    made["predictions"] = lambda trial: _write(trial, "a.json", _json(saved, trial.random))
    stored = _weights(scratch)
    made["weights"] = lambda trial: _write(trial, *_broken(stored, trial.random))
    return made


CSV = 'image,tags,split,unknown\na.png,dog;cat,train,\nb.png,"cat",val,dog\n'
LINES: list[Any] = [
    {"image": "a.png", "tags": ["dog", "cat"], "split": "train", "boxes": [{"tag": "dog", "box": [0, 0, 5, 5]}]},
    {
        "image": "b.png",
        "tags": ["cat"],
        "unknown": ["dog"],
        "boxes": [{"tag": "cat", "box": [1, 2.5, 3, 4], "difficult": True}],
    },
]
COCO: Any = {
    "images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
    "categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5], "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 2, "bbox": [1, 2.5, 3, 4], "iscrowd": 1},
    ],
}
XML = """<annotation><filename>a.png</filename><object><name>dog</name><difficult>0</difficult>
<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object></annotation>
"""
STUDIO: Any = [
    {
        "id": 1,
        "data": {"image": "/data/local-files/?d=a.png", "tags": ["dog"]},
        "annotations": [{"result": [{"value": {"rectanglelabels": ["dog"], "x": 1, "y": 1, "width": 5, "height": 5}}]}],
    },
    {
        "id": 2,
        "data": {"image": "b.png"},
        "annotations": [{"was_cancelled": False, "result": [{"value": {"choices": ["cat"]}}]}],
    },
    {"id": 3, "image": "/data/upload/1/a.png", "label": [{"rectanglelabels": ["cat"]}], "choice": "dog"},
]
CVAT = """<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version><meta><task><labels><label><name>dog</name>
</label><label><name>cat</name></label></labels></task></meta><image id="0" name="a.png" width="12" height="10"><tag label="dog"/>
</image><image id="1" name="b.png" subset="val"><box label="cat" xtl="1" ytl="1" xbr="5" ybr="5"/></image></annotations>
"""
ANSWERS: Any = {
    "image": "a.png",
    "boxes": [["dog", 1, 2, 3, 4]],
    "rejected": [["cat", 1, 2, 3, 4]],
    "tags": {"dog": 1},
    "done": True,
}
SET = "refined\nall\nsteps=10\nscales=480,600\nlearning_rate=1e-3\nseeds=votes\nflips=true\nbackbone=tiny"


def _json(good: Any, random: Random) -> bytes:
    text = mutate.of_json(good, random)
    text = text[:LARGEST]
    return mutate.of_text(text, random) if random.random() < 0.15 else text.encode()


def _write(trial: Trial, name: str, content: bytes) -> Path:
    path = trial.folder / name
    path.write_bytes(content)
    return path


def _text(name: str, good: str) -> Make:
    return lambda trial: _write(trial, name, mutate.of_text(good, trial.random))


def _beside_images(trial: Trial, name: str, content: bytes) -> Path:
    for image in ("a.png", "b.png"):
        Image.new("RGB", (12, 10), (90, 20, 200)).save(trial.folder / image)
    return _write(trial, name, content)


def _json_lines(trial: Trial) -> Path:
    lines = [mutate.of_json(line, trial.random) if trial.random.random() < 0.7 else json.dumps(line) for line in LINES]
    text = "\n".join(lines)
    content = mutate.of_text(text, trial.random) if trial.random.random() < 0.2 else text.encode()
    return _beside_images(trial, "tags.jsonl", content)


def _voc(trial: Trial) -> Path:
    random = trial.random
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (trial.folder / folder).mkdir(parents=True)
    lists = {"trainval.txt": "a\nb\n", "dog_trainval.txt": "a 1\nb -1\n", "cat_trainval.txt": "a 0\nb 1\n"}
    files = {"Annotations/a.xml": XML, "Annotations/b.xml": XML.replace("dog", "cat")}
    if random.random() < 0.4:
        files |= {f"ImageSets/Main/{name}": text for name, text in lists.items()}
    broken = random.choice(list(files))
    for name, text in files.items():
        content = text.encode()
        if name == broken:
            content = mutate.of_text(text, random) if random.random() < 0.7 else mutate.of_bytes(content, random)
        (trial.folder / name).write_bytes(content)
    for name in ("a", "b"):
        Image.new("RGB", (12, 10)).save(trial.folder / "JPEGImages" / f"{name}.png")
    return trial.folder


def _answers(trial: Trial) -> Path:
    """Return a store of a review, or the lines that a run keeps of one."""
    if trial.random.random() < 0.5:
        return _write(trial, "reviewed.jsonl", _json(ANSWERS, trial.random))
    from deep_patch_learning.data.reviewed import SCHEMA, VERSION

    path = trial.folder / "store.sqlite"
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(f"PRAGMA user_version = {VERSION}; PRAGMA page_size = 512; VACUUM; {SCHEMA}")
        file.execute("INSERT INTO classes VALUES (1, 'dog'), (2, 'cat')")
        file.execute(
            "INSERT INTO images (id, name, path, width, height, place) VALUES (1, 'a.png', 'a.png', 12, 10, 0)"
        )
        values = [
            trial.random.choice((1.0, "x", b"x", -5, 1e308, None)) if trial.random.random() < 0.2 else n
            for n in (1, 2, 8, 9)
        ]
        with suppress(sqlite3.IntegrityError):
            file.execute(
                "INSERT INTO boxes (image, class, x1, y1, x2, y2, status) VALUES (1, 1, ?, ?, ?, ?, 'drawn')", values
            )
    content = path.read_bytes()
    path.write_bytes(mutate.of_bytes(content, trial.random) if trial.random.random() < 0.8 else content)
    return path


def _split_list(trial: Trial) -> Path:
    _beside_images(trial, "tags.csv", CSV.encode())
    return _write(trial, "list.txt", mutate.of_text("a.png\nb.png\n", trial.random))


def _proposals(trial: Trial) -> Path:
    random, suffix = trial.random, trial.random.choice((".npz", ".pkl", ".mat"))
    path = trial.folder / f"boxes{suffix}"
    boxes = [np.array([[1, 2, 5, 9], [2, 3, 4, 5]], random.choice((np.float64, np.uint16))), np.zeros((0, 4))]
    if suffix == ".npz":
        np.savez_compressed(path, a=boxes[0], b=boxes[1])
    elif suffix == ".pkl":
        content = {"boxes": boxes, "ids": ["a", 12], "scores": [np.array([0.5, 0.7]), []]}
        if random.random() < 0.5:
            key = random.choice(list(content))
            content[key] = random.choice(
                [*mutate.VALUES, np.zeros((2, 3)), [np.zeros(3)] * 2, [[None]], "ab", b"ab", ("a", "b")]
            )
        path.write_bytes(pickle.dumps(content, random.randrange(pickle.HIGHEST_PROTOCOL + 1)))
    else:
        import scipy.io

        cells, names = np.empty((1, 2), object), np.empty((2, 1), object)
        cells[0, :], names[:, 0] = boxes, ["a", "b"]
        scipy.io.savemat(path, {"boxes": cells, "images": names}, do_compression=random.random() < 0.3)
    path.write_bytes(mutate.of_bytes(path.read_bytes(), random))
    return path


def _run(scratch: Path) -> Path:
    """Return a small run with every file that a run may hold."""
    from deep_patch_learning.inference.calibration import calibrate, write_calibration
    from deep_patch_learning.recipe.build import build_network, recipe_optimiser
    from deep_patch_learning.recipe.presets import world
    from deep_patch_learning.runs.checkpoint import save_checkpoint

    folder = scratch / "run"
    folder.mkdir()
    _beside_images(Trial(0, Random(0), folder.parent), "tags.csv", CSV.encode())
    recipe = world(steps=2).replace(filters=4, scales=(64,), patches="sliding-window")
    network, _ = build_network(recipe, 2)
    save_checkpoint(folder / "checkpoint.safetensors", 2, network, recipe_optimiser(network, recipe))
    save_checkpoint(folder / "weights.safetensors", 2, network)
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (40, 2)).astype(np.int8)
    write_calibration(folder / "calibration.json", calibrate(draw.normal(size=(40, 2)), labels, ["cat", "dog"]), {})
    texts: dict[str, Any] = {
        "data.json": {
            "classes": ["cat", "dog"],
            "fingerprint": "0",
            "path": str(scratch / "tags.csv"),
            "split": "train",
        },
        "versions.json": {"torch": "2"},
        "held_out.json": {"measurements": [{"step": 1, "mAP": 50.0}]},
        "held_out_images.json": ["b.png"],
        "run.json": {
            "network": "last",
            "stages": [{"name": "a", "seed": 0, "steps": 1, "samples": 2}],
            "judgements": [],
        },
    }
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content))
    lines = [
        {"step": step, "samples": 2 * step, "loss": 1.0, "learning_rate": 0.1, "seconds": 0.5 * step} for step in (1, 2)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    boxes = {"image": "a.jpg", "boxes": [["cat", 1, 2, 3, 4]], "weights": [0.5]}
    (folder / "pseudo_boxes.jsonl").write_text('{"source": {}}\n' + json.dumps(boxes) + "\n")
    (folder / "config.toml").write_text(recipe.to_toml())
    return folder


def _tampered(run: Path, trial: Trial) -> Path:
    random, folder = trial.random, trial.folder / "run"
    folder.mkdir()
    names = sorted(path.name for path in run.iterdir())
    broken = random.choice([*names, "config.toml", "data.json", "calibration.json"])
    for name in names:
        if name != broken:
            (folder / name).hardlink_to(run / name)
            continue
        good = (run / name).read_bytes()
        if name.endswith(".json") and random.random() < 0.8:
            content = _json(json.loads(good), random)
        elif name.endswith(".safetensors") or random.random() < 0.2:
            content = mutate.of_bytes(good[:4096], random) + good[4096:]
        else:
            content = mutate.of_text(good.decode(), random)
        (folder / name).write_bytes(content)
    return folder


def _images(scratch: Path) -> dict[str, bytes]:
    draw = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
    image = Image.fromarray(np.kron(draw, np.ones((4, 4, 1), np.uint8)))
    found = {}
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("jpg", "png", "bmp", "webp", "tif", "gif"):
        path = scratch / f"good.{name}"
        image.save(path, **({"exif": exif} if name in ("jpg", "png", "webp") else {}))
        found[name] = path.read_bytes()
    image.convert("CMYK").save(scratch / "cmyk.jpg")
    found["cmyk.jpg"] = (scratch / "cmyk.jpg").read_bytes()
    image.convert("P").save(scratch / "palette.png", transparency=3)
    found["palette.png"] = (scratch / "palette.png").read_bytes()
    image.save(scratch / "packed.tif", compression="tiff_lzw")
    found["packed.tif"] = (scratch / "packed.tif").read_bytes()
    return found


def _shards(scratch: Path) -> dict[str, bytes]:
    """Return a tar and a table of two tagged images."""
    import pyarrow
    from pyarrow import parquet

    content = io.BytesIO()
    Image.new("RGB", (12, 10), (90, 20, 200)).save(content, "PNG")
    files = {"a.png": content.getvalue(), "a.json": b'{"tags": ["dog"], "unknown": ["cat"]}'}
    files |= {"b.png": content.getvalue(), "b.txt": b"cat;dog"}
    with tarfile.open(scratch / "good.tar", "w") as tar:
        for name, part in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(part)
            tar.addfile(member, io.BytesIO(part))
    columns = {
        "image": [content.getvalue()] * 2,
        "name": ["a", "b"],
        "tags": [["dog"], ["cat"]],
        "unknown": [["cat"], None],
    }
    parquet.write_table(pyarrow.table(columns), scratch / "good.parquet", compression="none")
    return {suffix: (scratch / f"good.{suffix}").read_bytes() for suffix in ("tar", "parquet")}


def _image(images: dict[str, bytes], random: Random) -> tuple[str, bytes]:
    name = random.choice(list(images))
    return f"image.{name.rpartition('.')[2]}", mutate.of_bytes(images[name], random)


def _prediction() -> dict[str, Any]:
    from deep_patch_learning.inference.prediction import Prediction

    scores = np.array([0.5, -2.0], np.float32)
    boxes = np.array([[1, 2, 9, 8]], np.float32)
    whole = np.array([[0, 0, 4, 4], [1, 1, 5, 5]], np.float32)
    return Prediction(
        "a.png", ("cat", "dog"), 10, 12, scores, boxes, np.array([0]), scores[:1], whole, scores, scores
    ).as_dict()


def _weights(scratch: Path) -> dict[str, bytes]:
    import torch
    from safetensors.torch import save_file

    from deep_patch_learning.recipe.build import build_network
    from deep_patch_learning.recipe.presets import world

    network, _ = build_network(world(steps=1).replace(filters=4), 2)
    state = {name: value.clone() for name, value in network.state_dict().items() if value.ndim == 1}
    torch.save(state, scratch / "w.pth")
    save_file(state, scratch / "w.safetensors")
    return {suffix: (scratch / f"w{suffix}").read_bytes() for suffix in (".pth", ".safetensors")}


def _broken(stored: dict[str, bytes], random: Random) -> tuple[str, bytes]:
    suffix = random.choice(list(stored))
    good = stored[suffix]
    return f"w{suffix}", mutate.of_bytes(good[:2048], random) + good[2048:]
