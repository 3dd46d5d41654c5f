"""THIRD_PARTY.md names every dependency with the versions asked for, and every file of others."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("third_party", ROOT / "tools" / "third_party.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_dependency_has_its_licence(page: ModuleType) -> None:
    rows = page.rows_of(page.PAGE.read_text(encoding="utf-8"))
    for requirements in page.wanted().values():
        for name, versions in requirements.items():
            row = rows.get(name, "")
            assert f"| {name} | {versions} | " in row  # else: python tools/third_party.py
            assert not row.split(" | ")[2].startswith("see ")


def test_every_file_of_others_is_named(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name in page.others(ROOT):
        place = next((place for place in page.VENDORED if name == place or name.startswith(f"{place}/")), None)
        assert place is not None, f"{name}: say in tools/third_party.py whose it is"
        assert f"| `{place}` | " in text
    assert all((ROOT / place).exists() for place in page.VENDORED)


def test_a_new_dependency_or_file_is_noticed(page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(text.replace('"jinja2>=3.1"', '"jinja2>=3.1", "no-such-package>=1"'))
    (tmp_path / "src" / "vendor").mkdir(parents=True)
    (tmp_path / "src" / "vendor" / "new.js").touch()
    shutil.copy(ROOT / "THIRD_PARTY.md", tmp_path)
    monkeypatch.setattr(page, "ROOT", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "THIRD_PARTY.md")
    before = page.PAGE.read_text(encoding="utf-8")
    assert page.main() == 1
    assert page.PAGE.read_text(encoding="utf-8") == before
    assert page.others(tmp_path) == ["src/vendor/new.js"]
