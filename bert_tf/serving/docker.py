"""TensorFlow Serving in docker."""

import ipaddress
import os
import shlex
import shutil
import subprocess
from typing import NoReturn

from bert_tf.export import saved_model
from pipelines.common import checksums, files
from pipelines.common.errors import InputError

# Requests wait 2 ms for others; larger ones than max_batch_size are refused. The server must not
# pad (pad_variable_length_inputs): it would repeat each tensor's first element, mask and all. Raw
# text needs no padding; token ids, words and choices of unequal lengths are refused in one batch.
_BATCHING_CONFIG = """\
# Written by the command serve where there is none: change it as you like.
max_batch_size {{ value: 256 }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 256 }}
num_batch_threads {{ value: {threads} }}
"""


def serve(
    folder: str, image: str, name: str, host: str, grpc_port: int, rest_port: int
) -> NoReturn:
    """Serves a folder of versions until it is stopped, in place of this process.

    Args:
      folder: of the versions.
      image: of TensorFlow Serving.
      name: the model's name.
      host: the address to listen on.
      grpc_port: of this machine.
      rest_port: of this machine.

    Raises:
      InputError: there is no version, or no docker.
    """
    if "://" in folder:
        raise InputError(f"{folder}: docker mounts local folders only; copy the version to one.")
    if not saved_model.versions(folder):
        raise InputError(f"{folder}: has no exported version; make one with make export.")
    host = _address(host)
    arguments = command(folder, image, name, host, grpc_port, rest_port)
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        raise InputError(
            "docker is not at hand, or does not run here. Install it "
            "(https://docs.docker.com/engine/install), or install tensorflow_model_server "
            "(https://www.tensorflow.org/tfx/serving/setup), which listens on all addresses and "
            "asks nobody who they are, and run:\n  tensorflow_model_server "
            f"--model_name={shlex.quote(name)} "
            f"--model_base_path={shlex.quote(os.path.abspath(folder))} "
            f"--port={grpc_port} --rest_api_port={rest_port}"
        )
    if not files.gfile.exists(f"{folder}/{saved_model.BATCHING}"):
        config = _BATCHING_CONFIG.format(threads=os.cpu_count() or 1)
        files.write_text(f"{folder}/{saved_model.BATCHING}", config)
    checksums.check(saved_model.newest(folder))
    print(f"gRPC on {host}:{grpc_port}, REST on {host}:{rest_port}; Ctrl-C stops it.", flush=True)
    # In place of this process: signals are docker's, which stops the container.
    os.execv(docker, arguments)


def _address(host: str) -> str:
    """An address as docker takes it, before a port.

    Raises:
      InputError: it is no IP address.
    """
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise InputError(
            f"--host={host}: is no address of this machine; use 127.0.0.1 for this machine alone, "
            "0.0.0.0 for all that can reach it."
        ) from error
    return f"[{address}]" if address.version == 6 else str(address)


def command(
    folder: str, image: str, name: str, host: str, grpc_port: int, rest_port: int
) -> list[str]:
    """The docker command that serves a folder of versions.

    Args:
      folder: of the versions.
      image: of TensorFlow Serving.
      name: the model's name.
      host: the address to listen on.
      grpc_port: of this machine.
      rest_port: of this machine.
    """
    mounted = f"/models/{name}"
    source = os.path.abspath(folder).replace('"', '""')
    return [
        *("docker", "run", "--rm"),
        *("-p", f"{host}:{grpc_port}:8500", "-p", f"{host}:{rest_port}:8501"),
        # Unlike -v, this takes colons in paths; its fields are quoted as in a .csv file.
        *("--mount", f'type=bind,"source={source}","target={mounted}",readonly'),
        *("-e", f"MODEL_NAME={name}"),
        *(
            image,
            "--enable_batching",
            f"--batching_parameters_file={mounted}/{saved_model.BATCHING}",
        ),
    ]
