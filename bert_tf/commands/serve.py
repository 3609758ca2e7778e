r"""Serves an export with TensorFlow Serving, in docker, for this machine alone.

The server asks nobody who they are: put a proxy with authentication before it, or use a private
network, before you name another --host.

bert-tf serve --model=savedmodels/bert --grpc_port=8500 --rest_port=8501
"""

from absl import flags

_MODEL = flags.DEFINE_string("model", "savedmodels/bert", "Folder of the versions.")
_IMAGE = flags.DEFINE_string("image", "tensorflow/serving:2.19.1", "The docker image.")
_NAME = flags.DEFINE_string("name", "bert", "The model's name on the server.")
_HOST = flags.DEFINE_string(
    "host", "127.0.0.1", "Address to listen on. The server asks nobody who they are."
)
_GRPC_PORT, _REST_PORT = (
    flags.DEFINE_integer(name, port, text, lower_bound=1, upper_bound=65535)
    for name, port, text in (
        ("grpc_port", 8500, "Port for gRPC."),
        ("rest_port", 8501, "Port for REST."),
    )
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
