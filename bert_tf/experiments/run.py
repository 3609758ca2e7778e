"""Runs the experiments: the plan, the jobs, the report."""

import datetime
import statistics
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import logging

from bert_tf.experiments import plan as plans
from bert_tf.experiments import planning, report, schedule
from bert_tf.experiments.jobs import FineTuningJob, PretrainingJob
from bert_tf.experiments.plan import PLAN, ExperimentPlan
from bert_tf.experiments.schedule import JobEntry, JobProcess, JobState, table
from bert_tf.experiments.settings import ExperimentSettings
from bert_tf.experiments.studies import jobs_of
from pipelines.common import files, locks, manifest, outputs
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_IDENTITY = "experiments.json"
_TABLE = "jobs.txt"


def run(
    settings: ExperimentSettings, output: str, only: Sequence[str], devices: Sequence[str]
) -> list[JobEntry]:
    """Does the jobs of studies that are not yet done, and writes the report.

    Args:
      settings: the data and the settings; they must have a corpus.
      output: folder for everything.
      only: names of studies.
      devices: the GPU of each process, or "" for each process; empty: one process, or one on each
        core for a trial of the smallest scale on a CPU.

    Returns:
      The jobs.

    Raises:
      InputError: the data cannot be read, or the folder is of other experiments.
      stopping.Stopped: a signal came; the report covers what is done.
    """
    outputs.check_folder(output, "experiments", [_IDENTITY])
    _check_devices(devices)
    with locks.held(output):
        _check_identity(settings, output)
        plan = _plan(settings, output, only)
        studies = _studies(plan, only)
        left_out = [name for name in only if name not in studies]
        entries = _entries(plan, studies)
        if not devices:
            gpus = tf.config.list_physical_devices("GPU")
            devices = [""] * (1 if plan.sees_enough or gpus else cores())
        _log_plan(plan, entries, left_out)

        def changed(entry: JobEntry) -> None:
            files.write_text(f"{output}/{_TABLE}", table(entries.values()) + "\n")
            if entry.state in (JobState.DONE, JobState.FAILED):
                open_states = (JobState.WAITING, JobState.RUNNING)
                done = sum(each.state not in open_states for each in entries.values())
                left = _seconds_left(entries, settings.seconds) / len(devices)
                shown = datetime.timedelta(seconds=round(left))
                logging.info("[%d/%d, %s left] %s", done, len(entries), shown, table([entry]))

        try:
            schedule.run(entries, plan, devices, changed)
        finally:
            files.write_text(f"{output}/{_TABLE}", table(entries.values()) + "\n")
            report.write(plan, studies, list(entries.values()), left_out)
        return list(entries.values())


def show(output: str, only: Sequence[str]) -> list[JobEntry]:
    """The jobs and their states; nothing is run.

    Raises:
      InputError: the folder has no plan.
    """
    if not files.gfile.exists(f"{output}/{PLAN}"):
        raise InputError(f"{output}: has no {PLAN}; no experiments were begun there.")
    plan = plans.read(output)
    planned = {job.name for job in jobs_of(plan, plan.studies)}
    every = _entries(plan, _studies(plan, only))
    begun = [e for name, e in every.items() if name in planned or e.state is not JobState.WAITING]
    return begun or list(every.values())


def _check_devices(devices: Sequence[str]) -> None:
    """Raises InputError if a device is none of this machine's GPUs; "" is any device."""
    count = len(tf.config.list_physical_devices("GPU"))
    for device in filter(None, devices):
        if not device.isdecimal() or int(device) >= count:
            known = f"they have the numbers 0 to {count - 1}" if count else "this machine has none"
            raise InputError(f"--devices={device}: is not a GPU; {known}.")


def _studies(plan: ExperimentPlan, only: Sequence[str]) -> Sequence[str]:
    """The studies to do: those that the plan does not leave out, or all if it leaves out all."""
    return [name for name in only if name not in plan.left_out] or only


def _entries(plan: ExperimentPlan, studies: Sequence[str]) -> dict[str, JobEntry]:
    return {job.name: JobEntry.of(job, plan) for job in jobs_of(plan, studies)}


def _check_identity(settings: ExperimentSettings, output: str) -> None:
    """Writes what the folder is for, or raises InputError where it is for something else."""
    other = manifest.begin(f"{output}/{_IDENTITY}", settings.describe())
    if other:
        raise InputError(
            f"{output}: is of experiments with other {other}. Name another folder (--output, "
            "OUT=), or remove this one."
        )


def _plan(settings: ExperimentSettings, output: str, only: Sequence[str]) -> ExperimentPlan:
    """The plan of the folder, made where there is none.

    A process of its own makes it, so that its memory and devices are free afterwards.
    """
    if files.gfile.exists(f"{output}/{PLAN}"):
        return plans.read(output)
    logging.info("counting the examples of the tasks, and measuring a few training steps.")
    log = f"{output}/plan.log"
    error = JobProcess("", log, planning.make, settings, output, only).error()
    if error:
        raise InputError(error)
    return plans.read(output)


def _log_plan(
    plan: ExperimentPlan, entries: Mapping[str, JobEntry], left_out: Sequence[str]
) -> None:
    if not plan.sees_enough:
        logging.warning(
            "--budget=%s is too small for models that learn more than which words are neighbours; "
            "this is a trial of the program, and findings are not to be expected.",
            plan.settings.budget,
        )
    if left_out:
        logging.warning(
            "there is no time for models that learn enough in all studies; left out: %s.",
            ", ".join(left_out),
        )
    logging.info(
        "%d jobs: a model of %s, %s steps of pre-training, %d seeds, %s training examples of each "
        "task, tasks %s.",
        len(entries),
        plan.size,
        f"{plan.steps:,}",
        len(plan.seeds),
        "all" if plan.max_examples is None else f"at most {plan.max_examples:,}",
        ", ".join(task.name for task in plan.tasks),
    )


def _seconds_left(entries: Mapping[str, JobEntry], budget: float) -> float:
    """An estimate for the jobs that are left: the mean time of those of their kind.

    Where no job of a kind is done, it is the part of the budget for one.
    """
    left = 0.0
    parts = {PretrainingJob: planning.PRETRAINING, FineTuningJob: 1 - planning.PRETRAINING}
    for kind, part in parts.items():
        alike = [entry for entry in entries.values() if isinstance(entry.job, kind)]
        taken = [entry.outcome["seconds"] for entry in alike if entry.outcome]
        mean = statistics.fmean(taken) if taken else part * budget / max(1, len(alike))
        left += mean * sum(e.state in (JobState.WAITING, JobState.RUNNING) for e in alike)
    return left


def summary(entries: Sequence[JobEntry]) -> str:
    """The number of jobs in each state."""
    count = {state: sum(entry.state is state for entry in entries) for state in JobState}
    return ", ".join(f"{number} {state}" for state, number in count.items() if number)
