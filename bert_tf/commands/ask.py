r"""Sends a request to a server, or to an export in this process; prints the answer as JSON.

  bert-tf ask --server=grpc://localhost:8500 --signature=mrpc \
      --inputs='{"text_a": ["It rained."], "text_b": ["Rain fell."]}'
  bert-tf ask --model=savedmodels/bert --inputs='{"text": ["A fine film."]}'

With --model, this command runs the export: only use exports from sources that you trust.
"""

import json
from typing import Any

from absl import flags

from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_INPUTS = flags.DEFINE_string(
    "inputs", None, "The inputs as JSON: lists of values by name.", required=True
)
_SIGNATURE = flags.DEFINE_string(
    "signature", None, "Name of the signature. Not given: that of the first task."
)
_MODEL = flags.DEFINE_string(
    "model", None, "Folder of an export to run in this process. Not given: --server is used."
)
with flag_types.group(Group.SERVER):
    _SERVER = flags.DEFINE_string(
        "server",
        None,
        "Address of the server: grpc://host:8500 or http://host:8501; with TLS grpcs://host:8500 "
        "or https://host. Not given: --model is used.",
    )
    _TOKEN_FILE = flags.DEFINE_string(
        "token_file", None, "File with the token of the server. Not given: no token is sent."
    )
    _AUTHORITY = flags.DEFINE_string(
        "authority",
        None,
        "File of trusted certificates (PEM) for TLS. Not given: those of the system.",
    )
    _NAME = flags.DEFINE_string("name", "bert", "Name of the model on the server.")


def main() -> None:
    """Asks as the flags say."""
    from bert_tf.serving import client
    from bert_tf.serving.credentials import Access
    from bert_tf.serving.predictor import Predictor
    from pipelines.common import json_files

    inputs = json_files.parse(_INPUTS.value, "--inputs")
    if not isinstance(inputs, dict):
        raise InputError('--inputs: must be an object, such as {"text": ["a text"]}.')
    if _SERVER.value is not None and _MODEL.value is None:
        access = Access.of_files(_TOKEN_FILE.value, _AUTHORITY.value)
        ask = client.connect(_SERVER.value, _NAME.value, access=access).predict
    elif _MODEL.value is not None and _SERVER.value is None:
        ask = Predictor(_MODEL.value)
    else:
        raise InputError("give either --server or --model.")
    answer = {
        name: _plain(value.tolist()) for name, value in ask(_SIGNATURE.value, **inputs).items()
    }
    print(json.dumps(answer, ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
