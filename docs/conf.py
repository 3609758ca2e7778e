"""How Sphinx builds the documentation.

    sphinx-build -W --keep-going -b html docs build/docs

Nothing of the project's requirements is needed: docstrings are read from the files without
importing them, and the help of commands is there before TensorFlow is.
"""

import os
import pathlib
import subprocess
import sys

from sphinx.application import Sphinx

_ROOT = pathlib.Path(__file__).parents[1]
_COMMANDS = "reference/commands"  # the page that the help of all commands is added to

project = "bert-tf"
copyright = "the authors of bert-tf"
extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = "bert-tf"

# Headings can be linked to, as on sites that show Markdown.
myst_heading_anchors = 3

# Docstrings have single backticks round names.
default_role = "literal"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Only what a page names is shown.
autoapi_dirs = ["../bert_tf", "../pipelines"]
autoapi_generate_api_docs = False
autoapi_add_toctree_entry = False
autodoc_member_order = "bysource"
# Names that are unpacked from a range are not seen by a reader that runs nothing.
suppress_warnings = ["autoapi.python_import_resolution"]


def _help(*arguments: str) -> str:
    """What a command, or the program, prints for --help."""
    code = "import sys; from bert_tf.__main__ import main; sys.argv[0] = 'bert-tf'; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--help"],
        capture_output=True,
        check=True,
        cwd=_ROOT,
        env={**os.environ, "COLUMNS": "88", "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
    )
    return done.stdout.strip()


def _add_commands(app: Sphinx, name: str, source: list[str]) -> None:
    """Adds the help of all commands to their page."""
    if name != _COMMANDS:
        return
    overview = _help()
    names = [line.split()[0] for line in overview.splitlines() if line.startswith("  ")]
    parts = [f"```text\n{overview}\n```"]
    parts += [f"## {command}\n\n```text\n{_help(command)}\n```" for command in names]
    source[0] += "\n" + "\n\n".join(parts) + "\n"


def setup(app: Sphinx) -> None:
    """Registers what is above."""
    app.connect("source-read", _add_commands)
