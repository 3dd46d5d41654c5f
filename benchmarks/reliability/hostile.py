"""Inputs that somebody made to do harm, given to the commands: nothing runs, nothing leaves its folder, nothing is injected."""

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from outcomes import Kind, Outcome, Result, Trial, dpl, run
from PIL import Image

SECONDS = 180.0  # of one command, which loads torch
PROOF = "proof"  # a file that an attack makes where it succeeds
SCRIPT, ESCAPE = "<script>alert(1)</script>", "\x1b[31m"
NAMES = (
    "<script>alert(1).png",
    '"><img src=x onerror=alert(2)>.png',
    "$(touch proof).png",
    "-rf.png",
    "{{7*7}}.png",
    f"{ESCAPE}red.png",
)
TAGS = (SCRIPT, "../../outside", "/etc/passwd", f"{ESCAPE}red", "{{7*7}}", "=cmd()", "a&b<c>'\"")
THOUSANDS = "1" + "0" * 5000
ENTITIES = "".join(f'<!ENTITY {b} "{f"&{a};" * 20}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
XML = "<!DOCTYPE x [{}]><annotation><object><name>{}</name></object></annotation>"


class Runs:
    """A pickle of this runs a program when it is loaded without care."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch '{self.proof}'",)


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return the kinds of attacks."""
    env = {**os.environ, "DPL_CACHE": str(scratch / "cache"), "OMP_NUM_THREADS": "1"}

    def attack(make: Callable[[Path], list[list[str]]]) -> Kind:
        return lambda trial: _attacked(trial, make(trial.folder / "work"), env)

    return {
        "pickles": attack(_pickles),
        "entities": attack(_entities),
        "bombs": attack(_bombs),
        "oversized": attack(_oversized),
        "paths": attack(_paths),
        "names": attack(_names),
    }


def _attacked(trial: Trial, commands: list[list[str]], env: dict[str, str]) -> Result:
    """Return what came of commands on hostile inputs, the worst of them."""
    work, worst = trial.folder / "work", Result(Outcome.SUCCESS)
    for command in commands:
        result, done = run(command, env, SECONDS, work)
        said = "" if done is None else done.stdout + done.stderr
        harm = _harm(trial.folder, said)
        if harm:
            return Result(Outcome.LOST_OR_CHANGED, f"{harm}: {' '.join(command)}\n{said[-1500:]}")
        if list(Outcome).index(result.outcome) > list(Outcome).index(worst.outcome):
            worst = result
    return worst


def _harm(folder: Path, said: str) -> str:
    """Return what an attack did, or an empty text."""
    if any(path.name == PROOF for path in folder.rglob("*")):
        return "a program ran"
    if {path.name for path in folder.iterdir()} != {"work"}:
        return "a file outside the folder"
    if ESCAPE in said or "daemon:" in said:
        return "an escape sequence, or a file that was not named, in the output"
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if SCRIPT in text or "<img src=x" in text or ">49<" in text:
            return f"markup in {page.name}"
    return ""


def _data(work: Path) -> None:
    """Make a small data set in a new folder."""
    work.mkdir()
    draw = np.random.default_rng(0)
    for number in range(6):
        small = draw.integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(small).resize((80, 60), Image.Resampling.NEAREST).save(work / f"{number}.png")
    rows = [f"{number}.png,{('cat', 'dog')[number % 2]}" for number in range(6)]
    (work / "tags.csv").write_text("image,tags\n" + "\n".join(rows) + "\n")


def _pickles(work: Path) -> list[list[str]]:
    _data(work)
    evil = Runs(work / PROOF)
    (work / "a.pkl").write_bytes(pickle.dumps({"boxes": [evil], "ids": ["0"]}))
    with zipfile.ZipFile(work / "b.pth", "w") as file:  # as torch writes them
        file.writestr("b/data.pkl", pickle.dumps({"layer": evil}))
        file.writestr("b/version", "3\n")
    np.save(work / "x.npy", np.array([evil], object), allow_pickle=True)
    with zipfile.ZipFile(work / "a.npz", "w") as file:
        file.write(work / "x.npy", "0.npy")
    train = ("train", "tags.csv", "--recipe", "world", "--steps", 1, "--device", "cpu", "--out", "run")
    return [
        dpl("patches", "tags.csv", "--method", "a.pkl"),
        dpl("patches", "tags.csv", "--method", "a.npz"),
        dpl(*train, "--weights", "b.pth"),
    ]


def _voc(work: Path, name: str, text: str) -> None:
    for folder in ("JPEGImages", "Annotations"):
        (work / name / folder).mkdir(parents=True)
    Image.new("RGB", (16, 12)).save(work / name / "JPEGImages" / "a.jpg")
    (work / name / "Annotations" / "a.xml").write_text(text)


def _entities(work: Path) -> list[list[str]]:
    _data(work)
    _voc(work, "multiply", XML.format(f'<!ENTITY a "{"a" * 30}">{ENTITIES}', "&j;"))
    _voc(work, "outside", XML.format('<!ENTITY a SYSTEM "file:///etc/passwd">', "&a;"))
    doctype = f'<!DOCTYPE x [<!ENTITY a "{"a" * 30}">{ENTITIES}]>'
    text = f'{doctype}<annotations><image name="0.png"><tag label="&j;"/></image></annotations>'
    (work / "annotations.xml").write_text(text)
    return [dpl("check", name) for name in ("multiply", "outside", "annotations.xml")]


def _bombs(work: Path) -> list[list[str]]:
    _data(work)
    with (
        zipfile.ZipFile(work / "a.npz", "w", zipfile.ZIP_DEFLATED) as parts,
        parts.open("0.npy", "w", force_zip64=True) as array,
    ):
        np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (1 << 23, 4)})
        for _ in range(256):
            array.write(bytes(1 << 20))
    shared: list[object] = []
    for _ in range(60):
        shared = [shared, shared]
    (work / "b.pkl").write_bytes(pickle.dumps({"boxes": shared, "ids": ["0"]}))
    (work / "c.pkl").write_bytes(b"\x80\x04]r\xff\xff\xff\x7f.")
    return [dpl("patches", "tags.csv", "--method", name) for name in ("a.npz", "b.pkl", "c.pkl")]


def _oversized(work: Path) -> list[list[str]]:
    _data(work)
    (work / "nested.json").write_text("[" * 1_000_000)
    (work / "digits.json").write_text(
        f'{{"images": [{{"id": {THOUSANDS}, "file_name": "0.png"}}], "categories": [], "annotations": []}}'
    )
    (work / "tag.csv").write_text(f"image,tags\n0.png,{'dog' * 300_000}\n")
    (work / "many.csv").write_text("image,tags\n0.png," + ";".join(f"c{number:x}" for number in range(10_000)) + "\n")
    files = ("nested.json", "digits.json", "tag.csv", "many.csv")
    return [dpl("check", name) for name in files] + [
        dpl("train", "tags.csv", "--set", f"filters={10**18}", "--recipe", "world", "--out", "run"),
    ]


def _paths(work: Path) -> list[list[str]]:
    _data(work)
    copied = work / "run"
    copied.mkdir()
    (copied / "config.toml").write_text("name = 'fast'\n")
    (copied / "data.json").write_text(json.dumps({"classes": ["cat"], "fingerprint": "0", "path": "/etc/passwd"}))
    (copied / "run.json").write_text(json.dumps({"stages": [], "judgements": [], "network": "../../outside"}))
    (work / "above.jsonl").write_text('{"image": "../../../../etc/passwd", "tags": ["dog"]}\n')
    return [
        dpl("report", "run"),
        dpl("check", "above.jsonl"),
        dpl("label", "tags.csv", "--model", "run", "--out", "labels"),
    ]


def _names(work: Path) -> list[list[str]]:
    """Train, label in every format and report with file names and tags that are markup, paths and escape sequences."""
    _data(work)
    lines = []
    for number in range(12):
        name = NAMES[number % len(NAMES)] if number < len(NAMES) else f"copy{number}.png"
        (work / name).write_bytes((work / f"{number % 6}.png").read_bytes())
        lines.append(json.dumps({"image": name, "tags": [TAGS[number % len(TAGS)], "dog"][: 1 + number % 2]}))
    (work / "tags.jsonl").write_text("\n".join(lines) + "\n")
    train = dpl(
        "train",
        "tags.jsonl",
        "--recipe",
        "world",
        "--steps",
        2,
        "--set",
        "scales=64",
        "--device",
        "cpu",
        "--out",
        "run",
    )
    common = ("--model", "run", "--device", "cpu", "--min-score", 0)
    labels = [
        dpl("label", "tags.jsonl", *common, "--format", name, "--out", f"l-{name}") for name in ("coco", "voc", "yolo")
    ]
    predict = dpl("predict", ".", "--model", "run", "--device", "cpu", "--out", "found")
    return [train, *labels, predict, dpl("report", "run", "--device", "cpu"), dpl("check", "tags.jsonl")]
