r"""Shows the answers of a model on a page in a browser.

  bert-tf demo --model=savedmodels/finetuned/mrpc
  bert-tf demo --model=savedmodels/bert --port=8080

The model is an export, or a fine-tuned or pre-trained model, which is first exported to a
temporary folder. The page is available on this machine only; for others, use `bert-tf serve`.
"""

import contextlib
import tempfile
from typing import Annotated

from pipelines.common import stopping
from pipelines.common.flag_types import Group, Path, Port


def main(*, model: Path = "savedmodels/bert", port: Annotated[Port, Group.SERVER] = 8501) -> None:
    """Serves the page until the process is stopped.

    Flags:
      model: Folder of an export, or of a model in any format.
      port: Port of the page.
    """
    from bert_tf.serving.plan import EngineName
    from bert_tf.serving.server.settings import ServerSettings, check_packages

    check_packages()
    from bert_tf.export import saved_model, sources
    from bert_tf.serving.server import run

    address = run.Address("127.0.0.1", port, None, "port")
    address.check()
    with contextlib.ExitStack() as stack:
        if not saved_model.is_export(model):
            place = stack.enter_context(tempfile.TemporaryDirectory())
            saved_model.export(sources.of_folder(model), place)
            model = place
        # A demo starts at once: converting the model for another engine would take time.
        settings = ServerSettings(engine=EngineName.TENSORFLOW, threads=1)
        run.serve({"bert": model}, address, settings)
    stopping.leave(0)
