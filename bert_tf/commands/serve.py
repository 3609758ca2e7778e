r"""Serves an export over gRPC and REST, as TensorFlow Serving does, with a page to try it.

By default the server runs in this process: it loads versions that are added to the folder, and
batches the requests of several clients. With --docker, TensorFlow Serving is used.

  bert-tf serve --model=savedmodels/bert --grpc_port=8500 --rest_port=8501
  bert-tf serve --model=savedmodels/bert --engine=onnxruntime
  bert-tf serve --model=savedmodels/bert --docker
  bert-tf serve --model=savedmodels/served

A folder of exports (savedmodels/served/topics/1, savedmodels/served/vectors/1, ...) is served as a
whole.

It listens on this machine only. Before you name another --host: our server authenticates clients
with --token_file, and uses TLS with --certificate and --key; TensorFlow Serving has no
authentication. An export is a program: only serve exports from sources that you trust.
"""

import dataclasses
from typing import Annotated

from absl import flags

from bert_tf.serving.server.settings import ServerSettings, check_name, check_packages
from pipelines.common import stopping
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group, Path, Port

_DOCKER_SETTINGS = ("threads",)  # the others are those of our server


def main(
    *,
    model: Path = "savedmodels/bert",
    name: Annotated[str | None, Group.SERVER] = None,
    host: Annotated[str, Group.SERVER] = "127.0.0.1",
    grpc_port: Annotated[Port, Group.SERVER] = 8500,
    rest_port: Annotated[Port, Group.SERVER] = 8501,
    docker: Annotated[bool, Group.SERVER] = False,
    settings: ServerSettings,
) -> None:
    """Serves as the flags say, until the process is stopped.

    Flags:
      model: Folder with the versions of an export, the newest of which is served; or a folder of
        such folders, all of which are served.
      name: Name of the model on the server. Not given: bert; of several, the names of their
        folders.
      host: Address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for all networks.
      grpc_port: Port for gRPC.
      rest_port: Port for REST and the page.
      docker: Serve with TensorFlow Serving in docker.
    """
    if name is not None:
        check_name(name, "--name=")
    if docker:
        from bert_tf.serving import docker as tensorflow_serving

        _check_docker()
        tensorflow_serving.serve(
            model, name or "bert", host, grpc_port, rest_port, settings.threads
        )
    check_packages()
    from bert_tf.serving.server import run, versions

    models = versions.models_in(model, name)
    run.serve(models, run.Address(host, rest_port, grpc_port), settings)
    stopping.leave(0)


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
