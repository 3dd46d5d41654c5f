from pathlib import Path
from time import sleep

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.data.dataset import TaggedImages, unreadable


def images(tmp_path: Path, count: int = 6) -> TaggedImages:
    paths = tuple(tmp_path / f"{index}.png" for index in range(count))
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    for path in paths:
        Image.fromarray(noise).save(path)
    labels = np.arange(count * 2).reshape(count, 2).astype(np.int8)
    return TaggedImages(("cat", "dog"), tuple(path.name for path in paths), paths, labels)


def test_without_leaves_out_the_named_and_keeps_the_order(tmp_path: Path) -> None:
    all_of_them = images(tmp_path)
    kept = all_of_them.without(["4.png", "1.png"])
    assert kept.names == ("0.png", "2.png", "3.png", "5.png")
    assert kept.labels.tolist() == all_of_them.labels[[0, 2, 3, 5]].tolist()
    assert kept.classes == all_of_them.classes
    assert all_of_them.without([]).names == all_of_them.names
    assert len(all_of_them.without(all_of_them.names)) == 0


def test_without_refuses_a_name_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no image is named '9.png'"):
        images(tmp_path).without(["9.png"])


def test_labels_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"labels are \(1, 2\) for 1 names; wanted \(1, 1\)"):
        TaggedImages(("cat",), ("a",), (Path("a"),), np.zeros((1, 2), np.int8))


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_unreadable_lists_every_broken_image_in_order(tmp_path: Path, workers: int | None) -> None:
    some = images(tmp_path)
    some.paths[4].write_text("not an image")
    some.paths[1].write_bytes(some.paths[1].read_bytes()[:500])
    some.paths[5].unlink()
    calls: list[tuple[int, int]] = []
    found = unreadable(some, progress=lambda done, total: calls.append((done, total)), workers=workers)
    assert [name for name, _ in found] == ["1.png", "4.png", "5.png"]
    for (_, reason), fragment in zip(found, ("broken", "not an image", "no such image"), strict=True):
        assert fragment in reason
    assert calls == [(done, 6) for done in range(1, 7)]
    assert unreadable(some.without(name for name, _ in found), workers=workers) == []


def test_no_image_at_all_is_readable() -> None:
    assert unreadable(TaggedImages((), (), (), np.zeros((0, 0), np.int8))) == []


def test_an_interrupt_ends_the_pass_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = images(tmp_path)
    decoded: list[Path] = []

    def slow(path: Path) -> None:
        decoded.append(path)
        sleep(0.3 if len(decoded) > 1 else 0)  # the first is done at once; the rest would take far longer

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deep_patch_learning.data.dataset.problem", slow)
    with pytest.raises(KeyboardInterrupt):
        unreadable(some, progress=interrupt, workers=1)
    assert len(decoded) < len(some)
