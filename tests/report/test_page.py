"""The page: one file that fetches nothing, shows the numbers given, escapes every name, and is written whole."""

import base64
import io
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from deep_patch_learning.report import page as page_module
from deep_patch_learning.report.build import MeasuredRun, ReportOptions, build_report
from deep_patch_learning.report.opinions import Doubt, Opinions
from deep_patch_learning.report.page import render, write_report
from deep_patch_learning.report.sections import spread, to_explain

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Parsed(HTMLParser):
    """The elements, texts and attributes of a page; elements must close in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.texts.append(" ".join(data.split()))

    def values(self, name):
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def figures_of(hand, with_boxes=True):
    first, second = hand.classes
    figures = {"images": 8, "mAP": 61.23, "mAP_11pt": 58.77, "AP": {first: 71.23, second: 51.23}}
    figures |= {"AP_11pt": {first: 1.0, second: 2.0}, "positives": {first: 4, second: 4}}
    if with_boxes:
        figures |= {"CorLoc": 43.21, "CorLoc_per_class": {first: 33.21, second: 53.21}}
        figures |= {"detection_mAP": 12.34, "recall_at_80": 23.45, "CorLoc_rule": "IoU >= 0.5, difficult boxes in"}
    return figures


@pytest.fixture
def report(hand, run, model, ready):
    """Of the eight images, 0 to 4 are found right and 5 to 7 wrong; the network says that all show the first class."""
    far = np.array([55, 42, 75, 58], np.float32)
    boxes = [hand.true_box if number < 5 else far for number in range(8)]
    predictions = [
        hand.prediction(name, np.stack([box] * 2)) for name, box in zip(ready.images.names, boxes, strict=True)
    ]
    truth = [hand.truth(number % 2) for number in range(8)]
    comparison = [{"name": "both <heads>", "mAP": 61.23, "CorLoc": 43.21}, {"name": "naive", "CorLoc": 9.87}]
    return build_report(
        MeasuredRun(run, model, ready, predictions, figures_of(hand), truth, split="te<s>t"),
        ReportOptions(comparison=comparison, command="dpl demo <a> & b"),
    )


def check_self_contained(text):
    parsed = Parsed(text)
    assert "http://" not in text.replace('"http://www.w3.org/2000/svg"', "")
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in text
    links = parsed.values("src") + parsed.values("href")
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in links)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in parsed.values("href")} <= set(ids)
    for uri in parsed.values("src"):
        image = Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1], validate=True)))
        image.load()
        assert image.format == "JPEG"
    assert "link" not in {tag for tag, _ in parsed.elements}
    assert sum(tag == "script" for tag, _ in parsed.elements) == 1
    return parsed


def cards_of(report):
    """Return every card of the page."""
    groups = [*report.doubts, *(group for one in report.by_class for group in (one.best, one.worst)), report.sample]
    return [*(card for group in groups for card in group.cards), *(one.card for one in report.explained)]


def test_one_file_that_fetches_nothing(report):
    parsed = check_self_contained(render(report))
    crops = sum(len(one.crops) for one in (*report.filters, *report.explained))
    assert len(parsed.values("src")) == len(cards_of(report)) + crops
    assert crops > 0


def test_the_numbers_shown_are_those_given(report):
    texts = Parsed(render(report)).texts
    for figure in ("61.2", "58.8", "43.2", "12.3", "23.4", "71.2", "51.2", "33.2", "53.2", "9.9"):
        assert figure in texts
    joined = " ".join(texts)
    assert "8 images of the split “te<s>t”" in joined
    assert "7 training steps" in joined
    assert "0.003" in texts
    assert "2.6.0" in texts


def test_boxes_are_right_and_wrong_as_corloc_says(report):
    right = {f'<i>"{number}&.jpg' for number in range(5)}
    for card in report.sample.cards:
        assert [tag.right for tag in card.tags] == [card.name in right]
        assert [box.kind for box in card.boxes] == ["true", "right" if card.name in right else "wrong"]
    parsed = Parsed(render(report))
    shown = [tag for card in cards_of(report)[: -len(report.explained)] for tag in card.tags]
    assert parsed.texts.count("✓") == sum(tag.right is True for tag in shown) > 0
    assert parsed.texts.count("✗") == sum(tag.right is False for tag in shown) > 0


def test_a_wrong_box_never_shows_an_iou_that_would_be_right(hand, run, model, ready):
    width = 40 * 0.498  # of the true box's 40 columns: IoU 0.498
    box = np.array([10, 10, 10 + width, 40], np.float32)
    predictions = [hand.prediction(name, np.stack([box] * 2)) for name in ready.images.names]
    truth = [hand.truth(number % 2) for number in range(8)]
    measured = MeasuredRun(run, model, ready, predictions, figures_of(hand), truth)
    texts = Parsed(render(build_report(measured, ReportOptions(images_for_parts=0)))).texts
    assert "0.49" in texts
    assert "0.50" not in texts


def test_settings_of_an_earlier_version_have_their_present_names(hand, run, model, ready):
    run.config.write_text('name = "x"\npicking = "vote"\n')
    predictions = [hand.prediction(name, None) for name in ready.images.names]
    measured = MeasuredRun(run, model, ready, predictions, figures_of(hand, False))
    settings = build_report(measured, ReportOptions(images_for_parts=0)).settings
    assert (settings["name"], settings["box selection"]) == ("x", "vote")
    assert "picking" not in settings


def test_where_network_and_tags_disagree(report, hand):
    wrong, missing = report.doubts
    first, second = hand.classes
    assert {(card.name, card.tags[0].name) for card in wrong.cards} == {(f'<i>"{n}&.jpg', second) for n in (1, 3, 5, 7)}
    assert {(card.name, card.tags[0].name) for card in missing.cards} == {
        (f'<i>"{n}&.jpg', first) for n in (1, 3, 5, 7)
    }
    assert (wrong.total, missing.total) == (4, 4)
    texts = Parsed(render(report)).texts
    assert texts.count("no, 12%") == texts.count("yes, 88%") == 4


def test_unknown_tags_stand_apart_from_wrong_and_missing_ones(hand, run, model, ready):
    ready.images.labels[1] = -1
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.images.names]
    report = build_report(
        MeasuredRun(run, model, ready, predictions, figures_of(hand, False)), ReportOptions(images_for_parts=0)
    )
    assert [(group.title, group.total) for group in report.doubts] == [
        ("Likely wrong tags", 3),
        ("Likely missing tags", 3),
        ("Unknown tags", 2),
    ]
    assert {card.name for card in report.doubts[2].cards} == {'<i>"1&.jpg'}
    assert "unknown" in Parsed(render(report)).texts


def test_best_and_worst_of_each_class(report):
    assert [one.class_index for one in report.by_class] == [0, 1]
    for one in report.by_class:
        assert [card.tags[0].state for card in one.best.cards] == ["tagged"] * 4
        assert [card.tags[0].state for card in one.worst.cards] == ["tagged"] * 4 + ["not tagged"] * 4
        assert {card.tags[0].class_index for card in (*one.best.cards, *one.worst.cards)} == {one.class_index}


def test_the_first_class_with_images_is_open(hand, run, model, ready):
    ready.images.labels[:, 0] = 0
    predictions = [hand.prediction(name, None) for name in ready.images.names]
    report = build_report(
        MeasuredRun(run, model, ready, predictions, figures_of(hand, False)), ReportOptions(images_for_parts=0)
    )
    sections = [attributes for tag, attributes in Parsed(render(report)).elements if tag == "details"]
    assert [one["data-classes"] for one in sections if "open" in one] == ["1"]


def test_predicted_and_missing_tags_are_explained(report):
    states = [(one.card.tags[0].class_index, one.card.tags[0].state) for one in report.explained]
    assert states == [(0, "tagged")] + [(0, "not tagged")] * 3
    for one in report.explained:
        assert [box.kind for box in one.card.boxes].count("found") == 1
        numbers = " ".join(box.label for box in one.card.boxes if box.kind == "part").split()
        assert sorted(numbers) == [str(number) for number in range(1, len(one.crops) + 1)]
        assert 0 < sum(float(crop.share[:-1]) for crop in one.crops) <= 102  # of a whole, each rounded


def test_images_without_patches_are_not_explained():
    opinions = Opinions(np.full((3, 1), 0.9), np.full((3, 1), 0.5), np.array([[1], [0], [1]]))
    assert to_explain(opinions, [False, False, True]) == [Doubt(2, 0)]
    assert to_explain(opinions, [False] * 3) == []


def test_every_name_is_escaped(report, hand):
    text = render(report)
    parsed = check_self_contained(text)
    for name in (*hand.classes, '<i>"0&.jpg', "dpl demo <a> & b", "</dl><script>", "both <heads>"):
        assert name in parsed.texts
    assert {tag for tag, _ in parsed.elements}.isdisjoint({"b", "i", "a<b>", "heads"})
    assert any(alt.startswith('<i>"0&.jpg: <b>&"cat 88%, tagged') for alt in parsed.values("alt"))
    assert all(parsed.values("alt"))


def test_without_true_boxes(hand, run, model, ready):
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.images.names]
    report = build_report(MeasuredRun(run, model, ready, predictions, figures_of(hand, with_boxes=False)))
    text = render(report)
    parsed = check_self_contained(text)
    visible = " ".join(parsed.texts)
    assert "CorLoc" not in visible
    assert "IoU" not in visible
    assert not {"✓", "✗"} & set(parsed.texts)
    assert "There are no true boxes here" in visible
    assert {box.kind for card in report.sample.cards for box in card.boxes} == {"found"}


def test_without_classification_head(hand, run, ready):
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.images.names]
    report = build_report(
        MeasuredRun(run, hand.model(heads=("discovery",)), ready, predictions, figures_of(hand, False))
    )
    assert report.filters == ()
    assert "This network has no classification head" in " ".join(check_self_contained(render(report)).texts)


def test_without_discovery_head(hand, run, ready):
    predictions = [hand.prediction(name, None) for name in ready.images.names]
    truth = [hand.truth(number % 2) for number in range(8)]
    model = hand.model(heads=("classification",))
    report = build_report(MeasuredRun(run, model, ready, predictions, figures_of(hand, False), truth))
    assert all(card.boxes == () for card in report.sample.cards)
    assert "This network has no discovery head" in " ".join(check_self_contained(render(report)).texts)


def test_a_run_without_log_and_settings(hand, run, model, ready):
    for path in (run.log, run.config, run.versions):
        path.unlink()
    predictions = [hand.prediction(name, np.stack([hand.true_box] * 2)) for name in ready.images.names]
    report = build_report(MeasuredRun(run, model, ready, predictions, {"mAP": 50.0}), ReportOptions(images_for_parts=0))
    visible = " ".join(check_self_contained(render(report)).texts)
    assert "has not logged a step yet" in visible
    assert "No image was searched" in visible
    assert "not known" in report.notice.text


def test_other_counts_of_images_and_predictions_are_refused(hand, run, model, ready):
    with pytest.raises(ValueError, match="8 images, 0 predictions, no true boxes"):
        build_report(MeasuredRun(run, model, ready, [], {}))


def test_the_file_is_there_whole_or_not_at_all(report, tmp_path, monkeypatch):
    path = tmp_path / "new" / "folder" / "report.html"
    assert write_report(path, report) == path
    before = path.read_bytes()
    assert before.decode() == render(report)

    def full(self, data):
        raise OSError("no space left on device")

    monkeypatch.setattr(page_module.Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        write_report(path, report)
    monkeypatch.undo()
    monkeypatch.setattr(page_module.Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_report(path, report)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_a_file_name_that_is_no_text_is_written(hand, run, model, ready, tmp_path):
    predictions = [hand.prediction(f"\udcff{name}", np.stack([hand.true_box] * 2)) for name in ready.images.names]
    report = build_report(MeasuredRun(run, model, ready, predictions, {"mAP": 50.0}), ReportOptions(images_for_parts=0))
    assert "charset" in write_report(tmp_path / "report.html", report).read_text(encoding="utf-8")


def test_the_sample_is_spread_over_the_classes_and_stays_the_same():
    classes_of = {number: [0] for number in range(100)} | {100: [1], 101: [2], 102: [2, 3]}
    chosen = spread(classes_of, 6)
    assert len(chosen) == len(set(chosen)) == 6
    assert {100, 101, 102} <= set(chosen)
    assert chosen == spread(classes_of, 6)
    assert sorted(spread(classes_of, 1000)) == sorted(classes_of)
    assert spread({}, 3) == []
