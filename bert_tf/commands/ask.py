r"""Sends a request to a server, or to an export in this process; prints the answer as JSON.

  bert-tf ask --server=grpc://localhost:8500 --signature=mrpc \
      --inputs='{"text_a": ["It rained."], "text_b": ["Rain fell."]}'
  bert-tf ask --model=savedmodels/bert --inputs='{"text": ["A fine film."]}'

With --model, this command runs the export: only use exports from sources that you trust.
"""

import json
from typing import Annotated, Any

from absl import flags

from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group, Path


def main(
    *,
    inputs: str,
    signature: str | None = None,
    model: Path | None = None,
    server: Annotated[str | None, Group.SERVER] = None,
    token_file: Annotated[str | None, Group.SERVER] = None,
    authority: Annotated[str | None, Group.SERVER] = None,
    name: Annotated[str, Group.SERVER] = "bert",
) -> None:
    """Asks a server or an export.

    Flags:
      inputs: The inputs as JSON: lists of values by name.
      signature: Name of the signature. Not given: that of the first task.
      model: Folder of an export to run in this process. Not given: --server is used.
      server: Address of the server: grpc://host:8500 or http://host:8501; with TLS
        grpcs://host:8500 or https://host. Not given: --model is used.
      token_file: File with the token of the server. Not given: no token is sent.
      authority: File of trusted certificates (PEM) for TLS. Not given: those of the system.
      name: Name of the model on the server.
    """
    from bert_tf.serving import client
    from bert_tf.serving.credentials import Access
    from bert_tf.serving.predictor import Predictor
    from pipelines.common import json_files

    values = json_files.parse(inputs, "--inputs")
    if not isinstance(values, dict):
        raise InputError('--inputs: must be an object, such as {"text": ["a text"]}.')
    if server and not model:
        ask = client.connect(server, name, access=Access.of_files(token_file, authority)).predict
    elif model and not server:
        for flag in ("token_file", "authority", "name"):
            if flags.FLAGS[flag].present:
                raise InputError(f"--{flag}: is for --server; leave it out with --model.")
        ask = Predictor(model)
    else:
        raise InputError("give either --server or --model.")
    answer = {key: _plain(value.tolist()) for key, value in ask(signature, **values).items()}
    print(json.dumps(answer, ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
