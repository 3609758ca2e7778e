"""Models of other runtimes, converted once and kept."""

import os
from collections.abc import Callable

from bert_tf.export import quiet_tensorflow
from pipelines.common import files


class Converted:
    """A folder of converted models.

    Args:
      folder: on a local disk.
      mark: of the export that they are of: other exports have other marks.
    """

    def __init__(self, folder: str, mark: str):
        self._folder, self._mark = folder, mark

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
