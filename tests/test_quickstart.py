"""The notebook of the documentation runs from its first cell to its last."""

import json
import pathlib

import pytest

pytestmark = pytest.mark.more

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"


def test_the_notebook_is_kept_without_what_a_run_left():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_the_notebook_is_linked():
    for page in ("README.md", "docs/index.md", "docs/guides/keras.md"):
        assert "quickstart.ipynb" in (ROOT / page).read_text("utf-8"), page


@pytest.mark.slow
def test_the_notebook_runs():
    nbformat = pytest.importorskip("nbformat", reason="notebooks are not installed")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    printed = [
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    ]
    assert any("[CLS] return the sum . [SEP] add two numbers . [SEP]" in text for text in printed)
