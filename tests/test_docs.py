"""The README and the docs: tables and sentences say what was measured, links lead somewhere, words are the field's."""

import csv
import importlib.util
import re
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
CARDS = sorted((ROOT / "src").rglob("MODEL_CARD.md"))
GUIDES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md")]
PAGES = [ROOT / "README.md", *CARDS, *DOCS]
TABLES = {
    "README.md": 1,
    "scale.md": 2,
    "patches.md": 4,
    "speed.md": 6,
    "reliability.md": 3,
    "results.md": 3,
    "reproduce.md": 4,
    "review.md": 3,
    "export.md": 1,
    "boxes.md": 1,
    "how-it-works.md": 1,
    "labels.md": 2,
    "quickstart.md": 1,
    "better-boxes.md": 6,
    "shipped-model.md": 3,
    "MODEL_CARD.md": 2,
}


def named(page: Path) -> str:
    return page.name


def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose(page: Path) -> str:
    """Return a page's text without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_tables_are_the_measured_ones(page: Path) -> None:
    text = page.read_text()
    assert tables().page(text) == text  # else: python benchmarks/tables.py
    assert text.count("<!-- end of ") == TABLES.get(page.name, 0)


def test_the_model_card_is_found() -> None:
    assert len(CARDS) == 1


# Sentences with a figure


def values(name: str, column: str, **wanted: str) -> list[float]:
    """Return a column of a results file, of the rows that have the wanted values."""
    with (ROOT / "results" / f"{name}.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[key] == value for key, value in wanted.items())]
    assert rows, (name, wanted)
    return [float(row[column]) for row in rows]


def of_shipped(column: str) -> float:
    return values("shipped_model", column)[0]


def gains(column: str) -> list[str]:
    """Return what the seed rule `votes` adds to `vote`, by seed."""
    pairs = zip(SEED_RULES["vote", column], SEED_RULES["votes", column], strict=True)
    return [f"{more - less:.1f}" for less, more in pairs]


def gain_and_spread(column: str) -> tuple[str, str]:
    """Return the gain of the mean of `votes` over `vote`, and the root of the sum of the two variances."""
    less, more = SEED_RULES["vote", column], SEED_RULES["votes", column]
    return f"{mean(more) - mean(less):.1f}", f"{(stdev(more) ** 2 + stdev(less) ** 2) ** 0.5:.1f}"


def of_synthetic(boxes: str) -> float:
    return mean(values("world_boxes", "CorLoc", world="ordinary", boxes=boxes))


ROUNDS = {
    number: values("voc2007_parts", "CorLoc", row=row, measured_on="trainval")
    for number, row in {2: "long third round", 3: "fourth round of three"}.items()
}
TWO_HEADS = values("voc2007_main", "CorLoc", measured_on="trainval")
TRAINED_PHOTOS, OTHER_PHOTOS = (
    mean(values("own_photos", "CorLoc", measured_on=on)) for on in ("those trained on", "others")
)
PETS, PETS_BEFORE = (mean(values("own_images", "CorLoc", image_set="pets", way=way)) for way in ("fast", "as before"))
with (ROOT / "results" / "shipped_mistakes.csv").open(newline="") as file:
    MISTAKES = {row["kind"]: int(row["count"]) for row in csv.DictReader(file)}
SHARE = values("detector_on_labels", "share_of_full", trained_on="tags")[0]
OPENCV, OPENCV_500, OPENCV_ORIGINAL = (
    values("patches_against_opencv", "times_opencv", method=method, first="all")[0]
    for method in ("ours fast", "ours fast, 500 px", "ours original, 500 px")
)
BINS = "last stage on 7 x 7 bins (resnet50-v1)"
SEED_RULES = {
    (rule, column): values("voc2007_seeds", column, seed_rule=rule, trained_on="train", neck=BINS)
    for rule in ("vote", "votes")
    for column in ("CorLoc_vote", "CorLoc_evidence", "detection_mAP")
}
VIEWS = {
    views: values("voc2007_views", "CorLoc", network="256 patches per sample", views=views)
    for views in ("800", "800, 600 mirrored, 1000 mirrored")
}
DROP_BLOCK = values("voc2007_views", "CorLoc", network="256 patches per sample, drop block", views="800")[0]
OF_THREE = values("voc2007_views", "CorLoc", network="ensemble of the three")[0]
SYNTHETIC = tuple(f"{of_synthetic(boxes):.1f}" for boxes in ("the paper's", "elected"))


def of_memory(column: str, task: str) -> tuple[float, float]:
    """Return a column of the allocator's measurement: with freed blocks given back, and kept."""
    given, kept = (values("memory_allocator", column, task=task, freed_blocks=way)[0] for way in ("given back", "kept"))
    return given, kept


SYSTEM_TIME, PEAK = (of_memory(column, "train, 60 steps") for column in ("system_percent_of_user", "peak_mib"))
SYSTEM_PREDICT, PEAK_PREDICT = (
    of_memory(column, "predict, 40 images") for column in ("system_percent_of_user", "peak_mib")
)

TRUSTED = {
    column: values("box_trust", column, bin="best of each tag")  # of the classes of the fit, and of the others
    for column in ("boxes", "predicted", "observed", "kept_at_80", "right_at_80")
}
PREDICT = {
    column: values("predict_speed", column, images="1000", version="this")[0]
    for column in ("images_per_second", "throughput_to_other", "peak_mib", "peak_to_fewest")
}


def of_reviews(column: str, reviewed: str, order: str) -> float:
    return mean(values("review_simulated", column, reviewed=reviewed, order=order))


def gain_of_reviews(order: str) -> float:
    return of_reviews("CorLoc_rest", "100", order) - of_reviews("CorLoc_rest_before", "100", order)


NONE, OURS, RANDOM = (
    of_reviews("CorLoc_val", number, order) for number, order in (("0", "none"), ("100", "ours"), ("100", "random"))
)
SENTENCES = [
    (
        "docs/review.md",
        f"by {gain_of_reviews('ours'):.1f} points in our order and by {gain_of_reviews('random'):.1f} in random order",
    ),
    ("docs/review.md", f"on val from {NONE:.1f} to {OURS:.1f} and {RANDOM:.1f}"),
    ("README.md", f"on new photos from {NONE:.0f} % to {OURS:.0f} %"),
    (
        "docs/speed.md",
        f"{PREDICT['images_per_second']:.1f} images/s, {PREDICT['throughput_to_other']:.2f} times the earlier version",
    ),
    ("docs/speed.md", f"{PREDICT['peak_mib']:,.0f} MiB, {PREDICT['peak_to_fewest']:.2f} times that on 100 photos"),
    *(
        ("docs/better-boxes.md", f"{one:.1f} to {three:.1f}")
        for one, three in zip(*(VIEWS[views] for views in VIEWS), strict=True)
    ),
    ("docs/better-boxes.md", f"{DROP_BLOCK:.1f} against {mean(VIEWS['800']):.1f}"),
    ("docs/better-boxes.md", f"ensemble of all three finds {OF_THREE:.1f}"),
    ("docs/speed.md", f"falls from {SYSTEM_TIME[0]:.0f} % of user time to {SYSTEM_TIME[1]:.0f} %, and peak memory"),
    ("docs/speed.md", f"peak memory from {PEAK[0] / 1024:.1f} to {PEAK[1] / 1024:.1f} GiB"),
    ("docs/speed.md", f"falls from {SYSTEM_PREDICT[0]:.0f} % to {SYSTEM_PREDICT[1]:.0f} %, and peak memory rises"),
    ("docs/speed.md", f"peak memory rises by {PEAK_PREDICT[1] - PEAK_PREDICT[0]:.0f} MiB"),
    ("README.md", f"a mAP of {of_shipped('mAP'):.1f}"),
    ("README.md", f"correct for {of_shipped('CorLoc'):.0f} % of the tags (CorLoc {of_shipped('CorLoc'):.1f})"),
    ("README.md", f"{of_shipped('megabytes'):.0f} MB, 20 classes"),
    ("README.md", f"{values('shipped_speed', 'seconds', what='shipped model')[0]:.2f} s per photo"),
    ("README.md", f"its two heads reach {mean(TWO_HEADS):.1f} here"),
    ("README.md", f"raises CorLoc from {SYNTHETIC[0]} (arg-max, the paper) to {SYNTHETIC[1]}"),
    ("README.md", f"reaches {100 * SHARE:.0f} % of the detection mAP"),
    ("docs/results.md", f"it reaches {mean(TWO_HEADS):.1f}; the paper reports"),
    ("docs/results.md", f"The spread of {stdev(ROUNDS[3]):.1f} is that of the last round"),
    ("docs/results.md", f"the round before it spreads by {stdev(ROUNDS[2]):.1f}"),
    ("docs/results.md", f"a CorLoc of {SYNTHETIC[0]} and the vote {SYNTHETIC[1]}"),
    ("docs/results.md", f"{100 * SHARE:.0f} % of full supervision"),
    ("docs/results.md", f"{OPENCV:.1f} times OpenCV's speed at 320 pixels, {OPENCV_500:.1f} times at 500"),
    ("docs/what-holds.md", f"with our vote: {mean(TWO_HEADS):.1f} ± {stdev(TWO_HEADS):.1f}"),
    ("docs/what-holds.md", f"CorLoc {SYNTHETIC[0]}, by vote {SYNTHETIC[1]}"),
    ("docs/boxes.md", f"the vote raises CorLoc from {SYNTHETIC[0]} to {SYNTHETIC[1]}"),
    ("docs/labels.md", f"reaches {100 * SHARE:.0f} % of the detection mAP"),
    (
        "docs/labels.md",
        f"{100 * TRUSTED['predicted'][0]:.0f} % of the tags, and is for {100 * TRUSTED['observed'][0]:.0f} %",
    ),
    ("docs/labels.md", f"{100 * TRUSTED['predicted'][1]:.0f} % expected, {100 * TRUSTED['observed'][1]:.0f} % right"),
    ("docs/labels.md", "{1:.0f} % are right there ({0:.0f} % on the 12".format(*TRUSTED["right_at_80"])),
    ("docs/labels.md", f"they are {TRUSTED['kept_at_80'][1]:.0f} of {TRUSTED['boxes'][1]:.0f}"),
    ("docs/shipped-model.md", f"(CorLoc {of_shipped('CorLoc'):.1f}, mean over classes)"),
    ("docs/shipped-model.md", f"Half of the boxes are right ({MISTAKES['right']} of {sum(MISTAKES.values())})"),
    ("docs/shipped-model.md", f"correct for {of_shipped('CorLoc'):.0f} % of the tags"),
    ("docs/quickstart.md", f"of new images (CorLoc {OTHER_PHOTOS:.1f})"),
    ("docs/quickstart.md", f"and for {TRAINED_PHOTOS:.0f} % of those of the training images"),
    (
        "README.md",
        f"correct for {PETS:.0f} % of them (CorLoc {PETS:.1f}, three seeds; {PETS_BEFORE:.1f} in the version before)",
    ),
    ("README.md", f"for {OTHER_PHOTOS:.0f} % of the tags"),
    ("docs/better-boxes.md", f"The round before it spreads by {stdev(ROUNDS[2]):.1f}"),
    ("docs/better-boxes.md", "CorLoc by vote rises by {} and {} points".format(*gains("CorLoc_vote"))),
    ("docs/better-boxes.md", "detection mAP by {} and {}".format(*gains("detection_mAP"))),
    ("docs/better-boxes.md", "gain of {} is little above the spread of {}".format(*gain_and_spread("CorLoc_vote"))),
    ("docs/better-boxes.md", "gain of {} is within the spread of {}".format(*gain_and_spread("CorLoc_evidence"))),
    ("docs/patches.md", f"our default at 320 pixels is {OPENCV:.1f} times as fast as OpenCV's"),
    ("docs/patches.md", f"full size, {OPENCV_500:.1f} times, and `original`, also at 500, {OPENCV_ORIGINAL:.1f} times"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES, ids=lambda text: text[:40])
def test_sentences_say_what_was_measured(page: str, sentence: str) -> None:
    assert sentence in " ".join((ROOT / page).read_text().split())


def test_a_figure_on_val_is_called_that() -> None:
    rows = [line.split(" | ") for line in tables().summary().splitlines()[2:] if line.startswith("|")]
    assert {row[2] for row in rows} == {"val", "trainval"}
    assert "not test figures" in (ROOT / "README.md").read_text()


# Links and names


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        if target.endswith(".png"):
            Image.open(place).verify()
        if anchor:
            assert anchor in anchors(place), f"{target}#{anchor}"


@pytest.mark.parametrize("page", DOCS, ids=named)
def test_a_page_of_the_site_links_to_pages_of_the_site_only(page: Path) -> None:
    assert "](../" not in page.read_text()


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = re.findall(r"^ +- [^:]+: (\S+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    notebooks = [f"notebooks/{path.name}" for path in (ROOT / "docs" / "notebooks").iterdir()]
    assert sorted(navigation) == sorted([page.name for page in DOCS] + notebooks)


def test_the_site_asks_nothing_of_the_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert "http" not in settings
    assert "http" not in (ROOT / "docs" / "stylesheets" / "extra.css").read_text()


def test_the_readme_is_short_before_its_first_table() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert first <= 100
    assert sum(line.startswith("|---") for line in lines) <= 2  # results, and the list of pages


# Words

PRIVATE = re.compile(
    r"picture|visit|\bmend|committee|heard|\btold\b|embedded world|second round|given boxes", re.IGNORECASE
)


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS, *GUIDES], ids=named)
def test_the_words_are_those_of_the_field(page: Path) -> None:
    text = page.read_text().split("\n## Old names\n")[0] if page.name == "training.md" else page.read_text()
    found = [line for line in text.splitlines() if PRIVATE.search(line)]
    assert found == []
