"""Models of other runtimes, converted once and kept."""

import functools
import hashlib
import json
import os
from collections.abc import Callable

from bert_tf.export import quiet_tensorflow, saved_model
from pipelines.common import files, json_files

# Of what conversions write: models of another form are converted again.
_FORMAT = 3


class Converted:
    """The converted models of an export.

    Args:
      export: the path of it.
      folder: on a local disk.
    """

    def __init__(self, export: str, folder: str):
        self._export, self._folder = export, folder

    @functools.cached_property
    def _mark(self) -> str:
        """By the contents of the export and the form of conversions: others have other marks."""
        sums = saved_model.sums(self._export)
        told = "".join(f"{sums[name]} {name}\n" for name in sorted(sums))
        return hashlib.sha256(f"{_FORMAT}\n{told}".encode()).hexdigest()[:16]

    def path(self, name: str, convert: Callable[[], bytes]) -> str:
        """The file of a model, which is converted if it is not there.

        Args:
          name: of the file.
          convert: makes its contents.
        """
        path = f"{self._folder}/{self._mark}/{name}"
        if not files.gfile.exists(path):
            with quiet_tensorflow.quiet():
                content = convert()
            files.gfile.makedirs(os.path.dirname(path))
            with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
                file.write(content)
        return path

    def number(self, name: str, measure: Callable[[], float]) -> float:
        """What was measured of a model, once.

        Args:
          name: of the file that keeps it.
          measure: measures it.
        """
        path = self.path(name, lambda: json.dumps(measure()).encode())
        return json_files.read(path, float)


def user_folder() -> str:
    """Where a user's models are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/bert-tf/engines"
