"""The built-in labelled texts: paragraphs of docstrings, and the package that they come from.

They let one try fine-tuning where there are no data. The largest packages are the classes, "python"
stands for the standard library; all have equally many texts. All texts of a module are in one file,
and no text is in two, so that dev and test have only unseen ones. Texts that name their package are
left out: the task would be to find one word.
"""

import hashlib
import itertools
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from pipelines.common import files, json_files
from pipelines.corpus import builtin

FILES = {"train.tsv": 0.8, "dev.tsv": 0.1, "test.tsv": 0.1}  # and their fractions
_ENDS = dict(zip(FILES, itertools.accumulate(FILES.values()), strict=True)) | {"test.tsv": 1.0}
_MANIFEST = "manifest.json"
_CLASSES = 8
_TEXTS = 500  # of a class, at most
_MODULES = 300  # of a class, that are read
_WORDS = range(8, 61)
_STANDARD_LIBRARY = "python"


class _Module(NamedTuple):
    name: str  # its path in its root
    path: str


def make(
    folder: str, roots: Mapping[str, str] | None = None, texts: int = _TEXTS
) -> dict[str, int] | None:
    """Writes a folder with FILES, tables with the columns text and label; it appears when complete.

    Args:
      folder: where to write.
      roots: folders of Python source, by the label of all in it, or "" where the names of packages
        are the labels; None: the standard library and site-packages.
      texts: of a class, at most.

    Returns:
      The number of texts of each file, or None if the folder exists already.

    Raises:
      InputError: something else has its name, or another process writes it.
    """
    if files.gfile.exists(f"{folder}/{_MANIFEST}"):
        return None
    with files.folder_aside(folder) as partial:
        found = _texts_by_class(_modules_by_class(roots or _installed()))
        counts: dict[str, int] = {}
        for name, fraction in FILES.items():
            # Equally many of each class: as many as the smallest has.
            count = min(round(fraction * texts), *(len(each[name]) for each in found.values()))
            rows = [(text, label) for label, each in found.items() for text in each[name][:count]]
            lines = sorted((f"{text}\t{label}\n" for text, label in rows), key=_hash)
            files.write_text(f"{partial}/{name}", "text\tlabel\n" + "".join(lines))
            counts[name] = len(rows)
        json_files.write(f"{partial}/{_MANIFEST}", {"made_by": "make-labelled", "texts": counts})
        return counts


def _installed() -> dict[str, str]:
    standard, *others = builtin.installed()
    return {standard: _STANDARD_LIBRARY, **dict.fromkeys(others, "")}


def _modules_by_class(roots: Mapping[str, str]) -> dict[str, list[_Module]]:
    """Some modules of the largest classes."""
    found = defaultdict[str, list[_Module]](list)
    for root, label in roots.items():
        for path in builtin.modules([root], others=roots):
            module = _Module(os.path.relpath(path, root), path)
            package = module.name.split(os.sep)[0]
            if label or not package.endswith(".py"):
                found[label or package].append(module)
    by_size = sorted(found, key=lambda label: (-len(found[label]), label))
    largest: list[str] = []
    for label in by_size:  # but for relatives, such as keras and tf_keras, whose texts are alike
        if not any(label in other or other in label for other in largest):
            largest.append(label)
    largest = largest[:_CLASSES]
    return {label: sorted(found[label], key=_by_hash)[:_MODULES] for label in sorted(largest)}


def _texts_by_class(modules: Mapping[str, list[_Module]]) -> dict[str, dict[str, list[str]]]:
    """The texts of each class and file, by the module that they are in."""
    each = [(label, module) for label, found in modules.items() for module in found]
    found = {label: {name: list[str]() for name in FILES} for label in modules}
    seen: set[str] = set()
    paragraphs = builtin.paragraphs_of_modules([module.path for _, module in each])
    for (label, module), texts in zip(each, paragraphs, strict=True):
        place = int(_hash(f"file of {module.name}")[:8], 16) / 16**8  # from 0 to 1
        name = next(name for name, end in _ENDS.items() if place < end)
        for text in texts:
            if len(text.split()) in _WORDS and label not in text.lower() and text not in seen:
                seen.add(text)
                found[label][name].append(text)
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _by_hash(module: _Module) -> str:
    return _hash(module.name)  # the same order everywhere
