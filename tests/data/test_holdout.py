"""What is trained on and what is held out: two sets that share no image, each with its share of every class."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deep_patch_learning.common.errors import DataError
from deep_patch_learning.data.holdout import drawn_share, read_apart
from deep_patch_learning.data.readers.read import read_tags

labels = arrays.arrays(
    np.int8, st.tuples(st.integers(1, 60), st.integers(1, 5)), elements=st.sampled_from((-1, 0, 0, 1))
)


@given(labels, st.floats(0.01, 1), st.integers(0, 5))
def test_each_class_has_its_share(labels: np.ndarray, share: float, seed: int) -> None:
    drawn = drawn_share(labels, share, seed)
    assert np.array_equal(drawn, np.unique(drawn))
    assert len(drawn) >= round(share * len(labels))
    present = labels == 1
    assert (present[drawn].sum(0) >= [round(share * count) for count in present.sum(0)]).all()
    assert np.array_equal(drawn, drawn_share(labels, share, seed))


def test_of_one_tag_an_image_no_more_than_the_share_is_drawn() -> None:
    labels = np.eye(4, dtype=np.int8)[np.repeat(np.arange(4), (100, 50, 20, 10))]
    drawn = drawn_share(labels, 0.1, seed=0)
    assert labels[drawn].sum(0).tolist() == [10, 5, 2, 1]
    assert not np.array_equal(drawn, drawn_share(labels, 0.1, seed=1))


def test_nothing_is_held_out_unless_asked_for(small_world: Path) -> None:
    images, held_out = read_apart(small_world, "train")
    assert images.names == read_tags(small_world, "train").names
    assert held_out is None


@pytest.mark.parametrize("split", ["train", None])
def test_a_split_is_held_out(split: str | None, small_world: Path) -> None:
    images, held_out = read_apart(small_world, split, "test")
    assert images.names == read_tags(small_world, "train").names
    assert held_out is not None
    assert held_out.names == read_tags(small_world, "test").names
    few, few_held_out = read_apart(small_world, split, "test", limit=5)
    assert few_held_out is not None
    assert (few.names, few_held_out.names) == (images.names[:5], held_out.names[:5])


def test_a_share_is_held_out(small_world: Path) -> None:
    images, held_out = read_apart(small_world, "train", val_share=0.25, seed=1)
    assert held_out is not None
    every = read_tags(small_world, "train").names
    assert sorted((*images.names, *held_out.names)) == sorted(every)
    assert 6 <= len(held_out) <= 12  # of 24: at least the share; classes that occur together may take some more


def test_images_that_are_trained_on_are_not_held_out(small_world: Path) -> None:
    with pytest.raises(
        DataError, match=r"--val-split train: 24 of its 24 images are in --split train too, such as .*jpg"
    ):
        read_apart(small_world, "train", "train")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"val_split": "test", "val_share": 0.1}, "Give one of them"),
        ({"val_split": "tset"}, "Did you mean 'test'"),
        ({"val_share": 1.0}, "--val-share 1: holds out every image"),
    ],
)
def test_what_cannot_be_held_out(options: dict, words: str, small_world: Path) -> None:
    with pytest.raises(DataError, match=words):
        read_apart(small_world, None, **options)


def test_images_without_any_tag_measure_nothing(tmp_path: Path) -> None:
    from PIL import Image

    for name in "ab":
        Image.new("RGB", (40, 40)).save(tmp_path / f"{name}.png")
    listing = tmp_path / "photos.csv"
    listing.write_text("image,tags,split\na.png,dog,train\nb.png,,val\n")
    with pytest.raises(DataError, match="--val-split val: none of the 1 images held out shows a class"):
        read_apart(listing, "train", "val")
