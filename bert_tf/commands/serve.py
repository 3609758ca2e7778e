r"""Serves an export with TensorFlow Serving, in docker, for this machine alone.

The server asks nobody who they are: put a proxy with authentication before it, or use a private
network, before you name another --host.

  bert-tf serve --model=savedmodels/bert --grpc_port=8500 --rest_port=8501
"""

from absl import flags

from pipelines.common import flag_types
from pipelines.common.flag_groups import Group, group
from pipelines.common.flag_types import Limits

with group(Group.DATA):
    _MODEL = flags.DEFINE_string(
        "model", "savedmodels/bert", "Folder of the export's versions; the newest is served."
    )
with group(Group.SERVER):
    _NAME = flags.DEFINE_string("name", "bert", "What the model is called on the server.")
    _HOST = flags.DEFINE_string(
        "host",
        "127.0.0.1",
        "Address to listen on: 127.0.0.1 is this machine alone, 0.0.0.0 all that can reach it.",
    )
    _GRPC_PORT, _REST_PORT = (
        flag_types.define_number(name, port, text, int, Limits(least=1, most=65535))
        for name, port, text in (
            ("grpc_port", 8500, "Port for gRPC."),
            ("rest_port", 8501, "Port for REST."),
        )
    )
    _IMAGE = flags.DEFINE_string(
        "image", "tensorflow/serving:2.19.1", "The docker image of TensorFlow Serving."
    )


def main() -> None:
    """Serves with the flags given, until it is stopped."""
    from bert_tf.serving import docker

    docker.serve(
        _MODEL.value.rstrip("/"),
        _IMAGE.value,
        _NAME.value,
        _HOST.value,
        _GRPC_PORT.value,
        _REST_PORT.value,
    )
