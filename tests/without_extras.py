"""Runs a command as in an installation without extras: python -m tests.without_extras COMMAND.

Every installed package that the required dependencies of pyproject.toml do not bring cannot be
imported.
"""

import importlib.machinery
import importlib.metadata
import pathlib
import re
import sys
import tomllib

from packaging.requirements import Requirement

_PROJECT = pathlib.Path(__file__).parent.parent / "pyproject.toml"


def main():
    """Runs the command that the arguments name."""
    kept = _required()
    hidden = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        # Some packages bring `tests` of their own.
        if kept.isdisjoint(map(_normal, owners)) and not (_PROJECT.parent / module).exists()
    }
    for module in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[module]
    place = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path[place] = _Finder(hidden)
    from bert_tf import __main__

    __main__.main()


class _Finder:
    """Finds modules on the path, except for hidden ones."""

    def __init__(self, hidden):
        self._hidden = hidden

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self._hidden:
            return None
        return importlib.machinery.PathFinder.find_spec(name, path, target)

    find_distributions = staticmethod(importlib.machinery.PathFinder.find_distributions)


def _required():
    """Names of the packages that an installation without extras has."""
    project = tomllib.loads(_PROJECT.read_text())["project"]
    missing, found = [Requirement(line) for line in project["dependencies"]], set()
    while missing:
        requirement = missing.pop()
        name = _normal(requirement.name)
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in extras):
                missing.append(needed)
    return found


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
