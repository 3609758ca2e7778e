"""TensorFlow Serving in docker."""

import ipaddress
import os
import shlex
import shutil
import subprocess
from typing import NoReturn

from bert_tf.export import saved_model
from bert_tf.serving import selection
from bert_tf.serving.engines import converted
from bert_tf.serving.engines.plan import EngineName
from pipelines.common import checksums, files
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_IMAGE = "tensorflow/serving:2.19.1"
# The server must not pad (pad_variable_length_inputs): it would repeat each tensor's first element,
# mask and all. Raw text needs no padding; token ids, words and choices of unequal lengths are
# refused in one batch.
_BATCHING_CONFIG = """\
# Written by the command serve where there is none: change it as you like.

# Larger requests are refused. Texts in a batch are computed without padding, so that a large one
# costs no more than its parts.
max_batch_size {{ value: 256 }}

# Nothing waits for company: a lone request is computed at once, and what comes in while all
# threads are busy makes the next batch.
batch_timeout_micros {{ value: 0 }}

# Batches that are computed at once: one for each core.
num_batch_threads {{ value: {cores} }}

# What waits when all are busy; more is refused.
max_enqueued_batches {{ value: 256 }}

# The server is started with --tensorflow_intra_op_parallelism={threads}, the threads of one
# computation, which was {how}, and with --tensorflow_inter_op_parallelism={cores}.
# XLA is off (--xla_cpu_compilation_enabled): it would compile for each length of text that it has
# not seen, a second or more each, while requests wait.
"""


def serve(
    folder: str,
    name: str,
    host: str,
    grpc_port: int,
    rest_port: int,
    wished: int | None = None,
) -> NoReturn:
    """Serves a folder of versions until it is stopped, in place of this process.

    Args:
      folder: of the versions.
      name: the model's name.
      host: the address to listen on.
      grpc_port: of this machine.
      rest_port: of this machine.
      wished: threads of one computation; None: what is the fastest here, which is measured once.

    Raises:
      InputError: there is no version, or no docker.
    """
    if "://" in folder:
        raise InputError(f"{folder}: docker mounts local folders only; copy the version to one.")
    if not saved_model.versions(folder):
        raise InputError(f"{folder}: has no exported version; make one with make export.")
    host = _address(host)
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        raise InputError(
            "docker is not at hand, or does not run here. Serve without it (without --docker), "
            "install it (https://docs.docker.com/engine/install), or install "
            "tensorflow_model_server "
            "(https://www.tensorflow.org/tfx/serving/setup), which listens on all addresses and "
            "asks nobody who they are, and run:\n  tensorflow_model_server "
            f"--model_name={shlex.quote(name)} "
            f"--model_base_path={shlex.quote(os.path.abspath(folder))} "
            f"--port={grpc_port} --rest_api_port={rest_port}"
        )
    newest = saved_model.newest(folder)
    checksums.check(newest)
    cache = converted.user_folder()
    threads = selection.choose(newest, EngineName.TENSORFLOW, wished, None, cache).threads
    if not files.gfile.exists(f"{folder}/{saved_model.BATCHING}"):
        config = batching_config(threads, measured=wished is None)
        files.write_text(f"{folder}/{saved_model.BATCHING}", config)
    arguments = command(folder, name, host, grpc_port, rest_port, threads)
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


def batching_config(threads: int, measured: bool) -> str:
    """How the server puts requests together, and why so.

    Args:
      threads: of one computation.
      measured: whether they were measured to be the fastest.
    """
    how = "measured to be the fastest on this machine" if measured else "asked for"
    return _BATCHING_CONFIG.format(cores=cores(), threads=threads, how=how)


def command(
    folder: str, name: str, host: str, grpc_port: int, rest_port: int, threads: int
) -> list[str]:
    """The docker command that serves a folder of versions.

    Args:
      folder: of the versions.
      name: the model's name.
      host: the address to listen on.
      grpc_port: of this machine.
      rest_port: of this machine.
      threads: of one computation.
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
            _IMAGE,
            "--enable_batching",
            f"--batching_parameters_file={mounted}/{saved_model.BATCHING}",
            f"--tensorflow_intra_op_parallelism={threads}",
            f"--tensorflow_inter_op_parallelism={cores()}",
        ),
    ]
