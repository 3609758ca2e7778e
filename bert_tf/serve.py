r"""Serves an export with TensorFlow Serving, in docker.

python -m bert_tf.serve --model=savedmodels/bert --grpc_port=8500 --rest_port=8501
"""

import pipelines.quiet_start  # noqa: F401  isort: skip

import os
import shutil
import subprocess

from absl import flags

from bert_tf.exports import saved_model
from pipelines import commands, files
from pipelines.errors import InputError

_MODEL = flags.DEFINE_string("model", "savedmodels/bert", "Folder of the versions.")
_IMAGE = flags.DEFINE_string("image", "tensorflow/serving:2.19.1", "The docker image.")
_NAME = flags.DEFINE_string("name", "bert", "The model's name on the server.")
_GRPC_PORT = flags.DEFINE_integer("grpc_port", 8500, "Port for gRPC.")
_REST_PORT = flags.DEFINE_integer("rest_port", 8501, "Port for REST.")

_BATCHING = "batching.config"
# Requests wait 2 ms for others; larger ones than max_batch_size are refused. The server must not
# pad (pad_variable_length_inputs): it would repeat each tensor's first element, mask and all. Raw
# text needs no padding; token ids, words and choices of unequal lengths are refused in one batch.
_BATCHING_CONFIG = """\
max_batch_size {{ value: 256 }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 256 }}
num_batch_threads {{ value: {threads} }}
"""


def main() -> None:
    """Serves with the flags given, until it is stopped."""
    folder = _MODEL.value.rstrip("/")
    if "://" in folder:
        raise InputError(f"{folder}: docker mounts local folders only; copy the version to one.")
    if not saved_model.versions(folder):
        raise InputError(f"{folder}: has no exported version; make one with make export.")
    arguments = command(folder, _IMAGE.value, _NAME.value, _GRPC_PORT.value, _REST_PORT.value)
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        raise InputError(
            "docker is not at hand, or does not run here. Install it "
            "(https://docs.docker.com/engine/install), or install tensorflow_model_server "
            "(https://www.tensorflow.org/tfx/serving/setup) and run:\n  tensorflow_model_server "
            f"--model_name={_NAME.value} --model_base_path={os.path.abspath(folder)} "
            f"--port={_GRPC_PORT.value} --rest_api_port={_REST_PORT.value}"
        )
    config = _BATCHING_CONFIG.format(threads=os.cpu_count() or 1)
    files.write_text(f"{folder}/{_BATCHING}", config)
    print(f"gRPC on port {_GRPC_PORT.value}, REST on port {_REST_PORT.value}; stop with Ctrl-C.")
    raise SystemExit(subprocess.run(arguments).returncode)


def command(folder: str, image: str, name: str, grpc_port: int, rest_port: int) -> list[str]:
    """The docker command that serves a folder of versions.

    Args:
      folder: of the versions.
      image: of TensorFlow Serving.
      name: the model's name.
      grpc_port: of this machine.
      rest_port: of this machine.
    """
    mounted = f"/models/{name}"
    return [
        *("docker", "run", "--rm", "-p", f"{grpc_port}:8500", "-p", f"{rest_port}:8501"),
        *("-v", f"{os.path.abspath(folder)}:{mounted}:ro", "-e", f"MODEL_NAME={name}"),
        *(image, "--enable_batching", f"--batching_parameters_file={mounted}/{_BATCHING}"),
    ]


if __name__ == "__main__":
    commands.run(main)
