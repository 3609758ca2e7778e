"""TensorFlow Serving in docker."""

import ipaddress
import os
import shlex
import shutil
import subprocess
from typing import NoReturn

from bert_tf.export import saved_model
from pipelines.common import files, manifest
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_IMAGE = "tensorflow/serving:2.19.1"
# The server must not pad (pad_variable_length_inputs): it would repeat each tensor's first element,
# including that of the mask. Raw text needs no padding; token ids, words and choices of unequal
# lengths are refused in one batch.
_BATCHING_CONFIG = """\
# Written by the command serve if it does not exist. You may change it.

# Larger requests are refused. Texts in a batch are computed without padding, so that a large batch
# costs no more than its parts.
max_batch_size {{ value: 256 }}

# No request waits for others: a lone request is computed at once, and requests that arrive while
# all threads are busy make the next batch.
batch_timeout_micros {{ value: 0 }}

# Concurrent batches: one for each core.
num_batch_threads {{ value: {cores} }}

# Waiting batches when all threads are busy; more are refused.
max_enqueued_batches {{ value: 256 }}

# The server is started with --tensorflow_intra_op_parallelism={threads}, the threads of one
# computation, and with --tensorflow_inter_op_parallelism={cores}.
# XLA is off (--xla_cpu_compilation_enabled): it would compile for each new length of text, a second
# or more each, while requests wait.
"""


def serve(
    folder: str, name: str, host: str, grpc_port: int, rest_port: int, threads: int | None = None
) -> NoReturn:
    """Serves a folder of versions until it is stopped, in place of this process.

    Args:
      folder: of the versions.
      name: of the model on the server.
      host: address to listen on.
      grpc_port: on this machine.
      rest_port: on this machine.
      threads: of one computation; None: all cores.

    Raises:
      InputError: there is no version, or docker is missing.
    """
    if "://" in folder:
        raise InputError(f"{folder}: docker mounts local folders only; copy the version to one.")
    if not saved_model.versions(folder):
        raise InputError(
            f"{folder}: has no exported version; name the folder of one model that has folders "
            "1, 2, ... in it (--docker serves one), or make one with bert-tf export."
        )
    host = _address(host)
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        raise InputError(
            "docker is not installed, or does not run. Serve without it (without --docker), "
            "install it (https://docs.docker.com/engine/install), or install "
            "tensorflow_model_server "
            "(https://www.tensorflow.org/tfx/serving/setup), which listens on all addresses "
            "without authentication, and run:\n  tensorflow_model_server "
            f"--model_name={shlex.quote(name)} "
            f"--model_base_path={shlex.quote(os.path.abspath(folder))} "
            f"--port={grpc_port} --rest_api_port={rest_port}"
        )
    manifest.check(f"{saved_model.newest(folder)}/{saved_model.MANIFEST}")
    threads = threads or cores()
    if not files.gfile.exists(f"{folder}/{saved_model.BATCHING}"):
        config = _BATCHING_CONFIG.format(cores=cores(), threads=threads)
        files.write_text(f"{folder}/{saved_model.BATCHING}", config)
    mounted = f"/models/{name}"
    source, target = (path.replace('"', '""') for path in (os.path.abspath(folder), mounted))
    arguments = [
        *("docker", "run", "--rm"),
        *("-p", f"{host}:{grpc_port}:8500", "-p", f"{host}:{rest_port}:8501"),
        # Unlike -v, this takes colons in paths; its fields are quoted as in a .csv file.
        *("--mount", f'type=bind,"source={source}","target={target}",readonly'),
        *("-e", f"MODEL_NAME={name}"),
        _IMAGE,
        "--enable_batching",
        f"--batching_parameters_file={mounted}/{saved_model.BATCHING}",
        f"--tensorflow_intra_op_parallelism={threads}",
        f"--tensorflow_inter_op_parallelism={cores()}",
    ]
    print(f"gRPC on {host}:{grpc_port}, REST on {host}:{rest_port}; Ctrl-C stops it.", flush=True)
    # In place of this process: docker receives the signals, and stops the container.
    os.execv(docker, arguments)


def _address(host: str) -> str:
    """An address as docker takes it before a port."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise InputError(
            f"--host={host}: is not an address of this machine; use 127.0.0.1 for this machine "
            "alone, 0.0.0.0 for all networks."
        ) from error
    return f"[{address}]" if address.version == 6 else str(address)
