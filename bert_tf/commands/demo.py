r"""Shows the answers of a model on a page in a browser.

  bert-tf demo --model=savedmodels/finetuned/mrpc
  bert-tf demo --model=savedmodels/bert --port=8080

The model is an export, or a fine-tuned or pre-trained model, which is first exported to a
temporary folder. The page is available on this machine only; for others, use `bert-tf serve`.
"""

import contextlib
import tempfile

from absl import flags

from pipelines.common import flag_types
from pipelines.common.flag_types import Group

_MODEL = flags.DEFINE_string(
    "model", "savedmodels/bert", "Folder of an export, or of a model in any format."
)
with flag_types.group(Group.SERVER):
    _PORT = flags.DEFINE(
        flag_types.NumberParser(int, minimum=1, maximum=65535), "port", 8501, "Port of the page."
    )


def main() -> None:
    """Serves the page until the process is stopped."""
    folder = _MODEL.value.rstrip("/")
    from bert_tf.serving.plan import EngineName
    from bert_tf.serving.server.settings import ServerSettings, check_packages

    check_packages()
    from bert_tf.export import saved_model, sources
    from bert_tf.serving.server import run

    address = run.Address("127.0.0.1", _PORT.value, None, _PORT.name)
    address.check()
    with contextlib.ExitStack() as stack:
        if not saved_model.is_export(folder):
            place = stack.enter_context(tempfile.TemporaryDirectory())
            saved_model.export(sources.of_folder(folder), place)
            folder = place
        # A demo starts at once: converting the model for another engine would take time.
        settings = ServerSettings(engine=EngineName.TENSORFLOW, threads=1)
        run.serve(folder, "bert", address, settings)
