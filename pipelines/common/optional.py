"""Packages that one command or another wants: extras of the installation."""

import importlib
import importlib.util
from types import ModuleType

from pipelines.common.errors import InputError


def load(module: str, extra: str) -> ModuleType:
    """Imports a module of a package that may be missing.

    Args:
      module: its full name.
      extra: of bert-tf that brings the package.

    Raises:
      InputError: it is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{module.partition('.')[0]} is not installed, which this needs: "
            f"pip install 'bert-tf[{extra}]'."
        ) from error


def is_there(module: str) -> bool:
    """Whether a top-level module can be imported."""
    return importlib.util.find_spec(module) is not None
