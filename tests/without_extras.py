"""Runs a command as in an installation without extras: python -m tests.without_extras COMMAND.

Every installed package that the required dependencies of pyproject.toml do not bring cannot be
imported.
"""

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
    for module, owners in importlib.metadata.packages_distributions().items():
        ours = (_PROJECT.parent / module).exists()  # some packages bring `tests` of their own
        if kept.isdisjoint(map(_normal, owners)) and not ours:
            sys.modules[module] = None  # cannot be imported, and has no spec
    from bert_tf import __main__

    __main__.main()


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
