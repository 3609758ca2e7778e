"""Optional packages: extras of the installation that only some commands need."""

import importlib
import importlib.util
from types import ModuleType

from pipelines.common.errors import InputError


def load(module: str, extra: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
      module: The full name of the module.
      extra: The extra of bert-tf that installs the package.

    Raises:
      InputError: The package is not installed.
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
