"""The paper's figures: its means are the means of its classes, and its tables agree with each other."""

import statistics

import pytest

from deep_patch_learning.research.reproduce import paper

ROWS = [
    pytest.param(row, id=f"{measure} {year} {name}")
    for measure, tables in (("AP", paper.CLASSIFICATION), ("CorLoc", paper.DISCOVERY))
    for year, rows in tables.items()
    for name, row in rows.items()
]


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_mean_is_the_mean_of_the_classes(row: paper.ClassRow) -> None:
    assert len(row.classes) == len(paper.CLASSES) == 20
    assert row.mean == pytest.approx(statistics.fmean(row.classes), abs=0.1)


def test_tables_agree_where_they_show_the_same_experiment() -> None:
    full = (paper.CLASSIFICATION[2007][paper.ALEXNET].mean, paper.DISCOVERY[2007][paper.ALEXNET].mean)
    assert full == (paper.FULL.mAP, paper.FULL.CorLoc)
    assert paper.TASKS["both"] == paper.SCALES["five"] == paper.PATCHES["selective-search"] == paper.FULL
    assert paper.TIMES[paper.ALEXNET].seconds_with_patches == paper.FULL.seconds_with_patches
    for year, peers in paper.PEERS.items():
        for network in (paper.ALEXNET, paper.VGG16):
            name = network.replace("DPL", "HCP")
            assert peers["hcp"][network] == paper.CLASSIFICATION[year][name].mean


def test_classes_are_found_by_name() -> None:
    row = paper.CLASSIFICATION[2007][paper.VGG16]
    assert (row.of("aeroplane"), row.of("tvmonitor"), row.of("unicorn")) == (98.0, 92.8, None)
    assert paper.counterpart("resnet50") is None
