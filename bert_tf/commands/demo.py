r"""Shows what a model answers, on a page in a browser.

  bert-tf demo --model=savedmodels/finetuned/mrpc
  bert-tf demo --model=savedmodels/bert --port=8080

The folder is one of an export, or of a fine-tuned or pre-trained model, which is exported into a
temporary folder first. The page is for this machine alone; to serve others, use `bert-tf serve`.
"""

import contextlib
import tempfile

from absl import flags

from pipelines.common import flag_types
from pipelines.common.flag_types import Group

_MODEL = flags.DEFINE_string(
    "model", "savedmodels/bert", "Folder of an export, or of a model of any format."
)
with flag_types.group(Group.SERVER):
    _PORT = flags.DEFINE(
        flag_types.NumberParser(int, minimum=1, maximum=65535), "port", 8501, "Port of the page."
    )


def main() -> None:
    """Shows the page of the model that the flags name, until it is stopped."""
    folder = _MODEL.value.rstrip("/")
    from bert_tf.serving.server import packages

    packages.check()
    from bert_tf.export import saved_model, sources
    from bert_tf.serving.engines.plan import EngineName
    from bert_tf.serving.server import run
    from bert_tf.serving.server.settings import ServerSettings

    with contextlib.ExitStack() as stack:
        if not saved_model.is_export(folder):
            place = stack.enter_context(tempfile.TemporaryDirectory())
            saved_model.export(sources.of_folder(folder), place)
            folder = place
        # For one who tries it, nothing is worth measuring.
        settings = ServerSettings(engine=EngineName.TENSORFLOW, threads=1)
        run.serve(folder, "bert", run.Address("127.0.0.1", _PORT.value, None), settings)
