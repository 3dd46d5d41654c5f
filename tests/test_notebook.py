"""The notebook of the docs: it runs from start to labels, and what is stored in it is a run without a failed cell."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebooks" / "own_images.ipynb"


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(notebook: nbformat.NotebookNode) -> set[str]:
    return {output.output_type for cell in code_cells(notebook) for output in cell.outputs}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the notebook ran in, with the executed notebook beside what it wrote."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    # a cell that fails raises
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    nbformat.write(notebook, folder / "executed.ipynb")
    return folder


def test_every_cell_runs(place: Path) -> None:
    notebook = nbformat.read(place / "executed.ipynb", as_version=4)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert "error" not in kinds(notebook)


def test_labels_are_written(place: Path) -> None:
    labels = json.loads((place / "labels" / "annotations" / "instances_train.json").read_text())
    assert len(labels["images"]) == 60
    assert len(labels["annotations"]) >= 20
    assert {image["file_name"] for image in labels["images"]} == {
        str(path.relative_to(place / "labels" / "images")) for path in (place / "labels" / "images").rglob("*.jpg")
    }


def test_the_stored_notebook_ran_from_top_to_bottom_without_errors() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert all(cell.outputs for cell in code_cells(notebook))
    assert "error" not in kinds(notebook)
    assert any("image/jpeg" in output.get("data", {}) for cell in code_cells(notebook) for output in cell.outputs)


def test_the_stored_notebook_names_no_folder_of_the_machine_it_ran_on() -> None:
    text = NOTEBOOK.read_text()
    assert "/tmp/" not in text
    assert "/home/" not in text
    assert str(NOTEBOOK.parent.parent.parent) not in text
