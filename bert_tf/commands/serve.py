r"""Serves an export over gRPC and REST, as TensorFlow Serving does, with a page to try it.

By default the server runs in this process: it loads versions that are added to the folder, and
batches the requests of several clients. With --docker, TensorFlow Serving is used.

  bert-tf serve --model=savedmodels/bert --grpc_port=8500 --rest_port=8501
  bert-tf serve --model=savedmodels/bert --engine=onnxruntime
  bert-tf serve --model=savedmodels/bert --docker

It listens on this machine only. Before you name another --host: our server authenticates clients
with --token_file, and uses TLS with --certificate and --key; TensorFlow Serving has no
authentication. An export is a program: only serve exports from sources that you trust.
"""

import dataclasses

from absl import flags

from bert_tf.serving.server.settings import ServerSettings, check_packages
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_MODEL = flags.DEFINE_string(
    "model", "savedmodels/bert", "Folder with the versions of an export; the newest is served."
)
with flag_types.group(Group.SERVER):
    _NAME = flags.DEFINE_string("name", "bert", "Name of the model on the server.")
    _HOST = flags.DEFINE_string(
        "host",
        "127.0.0.1",
        "Address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for all networks.",
    )
    _GRPC_PORT, _REST_PORT = (
        flags.DEFINE(flag_types.NumberParser(int, minimum=1, maximum=65535), name, port, text)
        for name, port, text in (
            ("grpc_port", 8500, "Port for gRPC."),
            ("rest_port", 8501, "Port for REST and the page."),
        )
    )
    _DOCKER = flags.DEFINE_bool("docker", False, "Serve with TensorFlow Serving in docker.")
ServerSettings.define_flags()
_DOCKER_SETTINGS = ("threads",)  # the others are those of our server


def _check_docker() -> None:
    """Raises InputError if a flag is given that TensorFlow Serving would not follow."""
    names = [field.name for field in dataclasses.fields(ServerSettings)]
    given = [name for name in names if flags.FLAGS[name].present and name not in _DOCKER_SETTINGS]
    if given:
        listed = ", ".join(f"--{name}" for name in given)
        raise InputError(
            f"{listed}: with --docker, TensorFlow Serving would ignore this; leave it out, or "
            "serve without --docker. A reverse proxy in front of TensorFlow Serving can check a "
            "token, offer TLS and limit requests."
        )


def main() -> None:
    """Serves as the flags say, until the process is stopped."""
    model = _MODEL.value.rstrip("/")
    if not _NAME.value or "/" in _NAME.value:
        raise InputError(f"--name={_NAME.value}: is a part of URLs; give a name without slashes.")
    settings = ServerSettings.from_flags()
    if _DOCKER.value:
        from bert_tf.serving import docker

        _check_docker()
        ports = (_GRPC_PORT.value, _REST_PORT.value)
        docker.serve(model, _NAME.value, _HOST.value, *ports, settings.threads)
    check_packages()
    from bert_tf.serving.server import run

    address = run.Address(_HOST.value, _REST_PORT.value, _GRPC_PORT.value)
    run.serve(model, _NAME.value, address, settings)
