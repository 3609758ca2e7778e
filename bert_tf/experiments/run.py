"""Does the runs of the experiments one after the other, and rewrites the report after each."""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

import tensorflow as tf
from absl import logging

from bert_tf.experiments import plan as plans
from bert_tf.experiments import report
from bert_tf.experiments.plan import IDENTITY, OWN_TASKS, CommandRun, Request
from pipelines.common import command_line, files, locks, outputs, parallel, stopping

_MODULES = {
    "learn-vocabulary": "pipelines.commands.learn_vocabulary",
    "write-examples": "pipelines.commands.write_examples",
    "pretrain": "bert_tf.commands.pretrain",
    "finetune": "bert_tf.commands.finetune",
}


def run(request: Request, studies: Sequence[str]) -> dict[str, str]:
    """Does the runs of studies that are not finished, and returns errors by name of the run.

    Raises:
      InputError: the data cannot be read, or the folder is of other experiments.
      stopping.Stopped: a signal came; the run is resumed the next time.
    """
    outputs.check_folder(request.output, "experiments", [IDENTITY], known=[OWN_TASKS])
    failed: dict[str, str] = {}
    with locks.held(request.output):
        plan = plans.make(request)
        runs = plan.runs(studies)
        for number, each in enumerate(runs, 1):
            if each.done:
                continue
            lost = each.need and not each.need.done and f"needs {each.need.name}, which failed"
            error = lost or _execute(each, request.output)
            if error:
                failed[each.name] = error
            logging.info("[%d/%d] %s: %s", number, len(runs), each.name, error or "done")
            report.write(plan, studies, failed)
        report.write(plan, studies, failed)
    return failed


def _execute(run: CommandRun, output: str) -> str:
    """Runs a command in a process that ends with this one; returns an error message, or ""."""
    log = f"{output}/log.txt"
    # A process that is forked cannot use GPUs that its server has seen.
    preload = "" if tf.config.list_physical_devices("GPU") else "bert_tf.finetuning.sweep"
    # Ctrl-C is for this process, which stops the other.
    pool = parallel.process_pool(1, os.setsid, preload=preload)
    process = pool.submit(os.getpid)
    try:
        return pool.submit(_call, run.words, log).result()
    except BrokenProcessPool:
        return f"its process {pool.death()} (see {log})"
    except stopping.Stopped:
        with contextlib.suppress(ProcessLookupError, BrokenProcessPool):
            os.kill(process.result(), signal.SIGTERM)
        raise
    finally:
        pool.shutdown()


def _call(words: Sequence[str], log: str) -> str:
    command, *flags = words
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        command_line.run(f"bert-tf {command}", _MODULES[command], flags)
    except SystemExit as end:
        if end.code:
            sys.stderr.flush()
            return files.read_whole(log).decode(errors="replace").strip().splitlines()[-1]
    except Exception as error:  # a bug: the log has the traceback
        traceback.print_exc()
        return f"{type(error).__name__}: {error} (see {log})"
    return ""
