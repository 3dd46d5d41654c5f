"""What users install: the wheel, built, put into an environment of its own and used from another folder.

The environment finds the dependencies among those already installed, and the package in the wheel alone.
"""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import deep_patch_learning as dpl

REPOSITORY = Path(__file__).parents[1]
MOST_MEGABYTES = 25
WANTED = [
    "deep_patch_learning/py.typed",
    "deep_patch_learning/report/templates/page.html.j2",
    "deep_patch_learning/report/templates/style.css",
    "deep_patch_learning/report/templates/page.js",
    *(f"deep_patch_learning/review/static/{name}" for name in ("index.html", "review.css", "review.js", "icon.svg")),
    *(f"deep_patch_learning/review/static/vendor/annotorious.{kind}" for kind in ("js", "css")),
    "deep_patch_learning/review/static/vendor/LICENSE.txt",
    "deep_patch_learning/model/backbones/lite0.safetensors",
    "deep_patch_learning/model/backbones/tiny.safetensors",
    "deep_patch_learning/inference/shipped/weights.safetensors",
    "deep_patch_learning/inference/shipped/config.toml",
    "deep_patch_learning/inference/shipped/calibration.json",
    "deep_patch_learning/inference/shipped/data.json",
    "deep_patch_learning/inference/shipped/MODEL_CARD.md",
]
PREDICT = """
import json, sys
import deep_patch_learning as dpl
found = dpl.load(device="cpu").predict(sys.argv[1])
files = sorted({module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)})
print(json.dumps({"found": found.as_dict(), "files": files}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints, run without this process's Python path; an error shows what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, REPOSITORY, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    scripts = folder / "bin"
    # A .pth file inside a folder that a .pth file adds is not read: an editable install of the repository stays out.
    own = Path(
        run(scripts / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    (own / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}) + "\n"
    )
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python")
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=folder)
    return scripts


def test_the_wheel_is_small_and_holds_what_is_needed(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST_MEGABYTES * 10**6
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert [name for name in WANTED if name not in names] == []
    assert f"\nVersion: {dpl.__version__}\n" in metadata


def test_the_wheel_holds_the_source_and_nothing_else(wheel: Path) -> None:
    source = REPOSITORY / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "deep_patch_learning").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_the_shipped_model_predicts_from_the_wheel_alone(environment: Path, small_world: Path, tmp_path: Path) -> None:
    image = small_world.parent / "images" / "500000.jpg"
    answer = json.loads(run(environment / "python", "-c", PREDICT, image, cwd=tmp_path).splitlines()[-1])
    # To JSON and back, as the answer went.
    assert answer["found"] == json.loads(json.dumps(dpl.load(device="cpu").predict(image).as_dict()))
    dependencies = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    files = [Path(file) for file in answer["files"]]
    ours = [file for file in files if "deep_patch_learning" in file.parts]
    assert len(ours) > 20
    assert [file for file in ours if environment.parent not in file.parents] == []
    strangers = [file for file in files if REPOSITORY in file.parents and not dependencies & set(file.parents)]
    assert strangers == []


def test_no_folder_of_the_repository_can_be_imported_from(environment: Path, tmp_path: Path) -> None:
    searched = run(environment / "python", "-c", "import sys; print(*sys.path, sep='\\n')", cwd=tmp_path).splitlines()
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    assert dependencies <= set(searched)
    within = [place for place in searched if REPOSITORY in (Path(place), *Path(place).parents)]
    assert set(within) <= dependencies


def test_the_command_is_installed(environment: Path, small_world: Path, tmp_path: Path) -> None:
    image = small_world.parent / "images" / "500000.jpg"
    printed = run(environment / "dpl", "predict", image, "--out", tmp_path / "found", "--json", cwd=tmp_path)
    (one,) = json.loads(printed.splitlines()[-1])["predictions"]
    assert len(one["raw"]["classes"]) == 20
    assert {path.name for path in (tmp_path / "found").iterdir()} == {"500000.json", "500000.png"}


def test_the_command_says_its_version_and_what_it_runs_on(environment: Path, tmp_path: Path) -> None:
    assert dpl.__version__ in run(environment / "dpl", "--version", cwd=tmp_path)
    shown = run(environment / "dpl", "info", cwd=tmp_path)
    assert dpl.__version__ in shown
