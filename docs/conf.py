"""Configuration of Sphinx.

    sphinx-build -W --keep-going -b html docs build/docs

The requirements of the project need not be installed: docstrings are read without importing the
modules, and the help of commands does not import TensorFlow.
"""

import os
import pathlib
import subprocess
import sys

from sphinx.application import Sphinx

_ROOT = pathlib.Path(__file__).parents[1]
_COMMANDS = "reference/commands"  # the page with the help of all commands

project = "bert-tf"
copyright = "the authors of bert-tf"
extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = "bert-tf"

# Links to headings work like on GitHub.
myst_heading_anchors = 3

# Docstrings have names in single backticks.
default_role = "literal"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Flags", "params_style")]
# Only names that a page lists are shown.
autoapi_dirs = ["../bert_tf", "../pipelines"]
autoapi_generate_api_docs = False
autoapi_add_toctree_entry = False
autodoc_member_order = "bysource"
# Names that are unpacked from a range cannot be found without running the code.
suppress_warnings = ["autoapi.python_import_resolution"]


def _help(*arguments: str) -> str:
    """Output of --help of a command or the program."""
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
    """Adds the help of all commands to the page of commands."""
    if name != _COMMANDS:
        return
    overview = _help()
    _, listed = overview.split("\n\n", 1)
    names = [line.split()[0] for line in listed.splitlines()]
    parts = [f"```text\n{overview}\n```"]
    parts += [f"## {command}\n\n```text\n{_help(command)}\n```" for command in names]
    source[0] += "\n" + "\n\n".join(parts) + "\n"


def setup(app: Sphinx) -> None:
    """Registers the extension of the page of commands."""
    app.connect("source-read", _add_commands)
