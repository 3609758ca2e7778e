"""Models converted for other runtimes, once for each export."""

import functools
import hashlib
import json
import os
from collections.abc import Callable

from bert_tf.export import quiet_tensorflow, saved_model
from pipelines.common import files, json_files

_FORMAT = 4  # of the conversions: models of another format are converted again


class ConvertedModels:
    """The converted models of an export, kept in a folder on a local disk."""

    def __init__(self, export: str, folder: str):
        self._export, self._folder = export, folder

    @functools.cached_property
    def _key(self) -> str:
        """A checksum of the export and of the format of conversions."""
        sums = saved_model.sums(self._export)
        lines = "".join(f"{sums[name]} {name}\n" for name in sorted(sums))
        return hashlib.sha256(f"{_FORMAT}\n{lines}".encode()).hexdigest()[:16]

    def path(self, name: str, convert: Callable[[], bytes]) -> str:
        """The file of a model; `convert` makes its contents if it does not exist."""
        path = f"{self._folder}/{self._key}/{name}"
        if not files.gfile.exists(path):
            with quiet_tensorflow.quiet():
                content = convert()
            files.gfile.makedirs(os.path.dirname(path))
            with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
                file.write(content)
        return path

    def number(self, name: str, measure: Callable[[], float]) -> float:
        """A number about a model; `measure` finds it once."""
        path = self.path(name, lambda: json.dumps(measure()).encode())
        return json_files.read(path, float)


def user_folder() -> str:
    """Folder of the user's converted models and plans."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/bert-tf/engines"
