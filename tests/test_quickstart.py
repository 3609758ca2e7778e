"""The notebook of the documentation runs from its first cell to its last.

`python -m tests.test_quickstart` runs it and keeps the outputs.
"""

import copy
import json
import pathlib
import re

import pytest

pytestmark = pytest.mark.more

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"


def _run():
    """The notebook with the outputs of a run, without messages of TensorFlow and styles."""
    nbformat = pytest.importorskip("nbformat", reason="notebooks are not installed")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    metadata = copy.deepcopy(notebook.metadata)
    resources = {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()
    notebook.metadata = metadata
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                lines = output.text.splitlines(keepends=True)
                output.text = "".join(line for line in lines if not line.startswith("INFO:"))
            output.get("data", {}).pop("text/html", None)
        if cell.cell_type == "code":
            outputs = (o for o in cell.outputs if o.get("name") != "stderr" and o.get("text", "-"))
            cell.outputs = list(outputs)
    return notebook


def _printed(cell):
    """What a cell printed, without its numbers, which depend on the packages and the processor."""
    texts = [o.get("text") or o["data"]["text/plain"] for o in cell["outputs"]]
    return re.sub(r"[\d.,\s\x1b─━│┃]+", " ", "".join(map("".join, texts)))


def test_the_notebook_is_kept_as_one_run_left_it():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    assert not any(output.get("name") == "stderr" for output in outputs)
    assert "/tmp" not in json.dumps(outputs)


def test_the_notebook_is_linked():
    for page in ("README.md", "docs/index.md", "docs/guides/keras.md"):
        assert "quickstart.ipynb" in (ROOT / page).read_text("utf-8"), page


@pytest.mark.slow
def test_the_notebook_runs():
    notebook = _run()
    kept = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    for cell, before in zip(notebook.cells, kept, strict=True):
        if cell["cell_type"] == "code":
            assert _printed(cell) == _printed(before)


if __name__ == "__main__":
    import nbformat

    nbformat.write(_run(), NOTEBOOK)
