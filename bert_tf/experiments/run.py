"""All of it: plan, jobs, report."""

import datetime
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from bert_tf.experiments import own_tasks, plan, report, scale
from bert_tf.experiments.jobs import Place, State, with_needs
from bert_tf.experiments.plan import PLAN, Plan, Request
from bert_tf.experiments.scheduler import Entry, Schedule, table
from bert_tf.experiments.studies.registry import STUDIES
from bert_tf.experiments.worker import Worker
from pipelines.common import files, json_files, locks, manifest, outputs
from pipelines.common.errors import InputError
from pipelines.common.threads import cores

_IDENTITY = "experiments.json"
TABLE = "jobs.txt"
_BEYOND = 1.1  # of a budget; so much more is told


def run(request: Request, output: str, only: Sequence[str], devices: Sequence[str]) -> list[Entry]:
    """Does the jobs of studies, or those that are left of them, and writes the report.

    Args:
      request: what to do it with.
      output: folder for all.
      only: names of studies.
      devices: GPUs by number, one for each process; or as many empty texts as there are to be
        processes; none: one process, or more where it is short of time (`_processes`).

    Returns:
      The jobs.

    Raises:
      InputError: the data cannot be read, or the folder is of other experiments.
      stopping.Stopped: a signal came; the report is of what was done.
    """
    outputs.check_folder(output, "experiments", [_IDENTITY])
    with locks.held(output):
        _identify(request, output)
        made = _plan(request, Place(output), only)
        # Where none that is asked for has enough time, it is asked for all the same.
        chosen = [name for name in only if name in made.studies] or only
        studies = [STUDIES[name] for name in chosen]
        schedule = _schedule(made, chosen, output)
        devices = devices or [""] * _processes(schedule, request.settings.seconds)
        about = own_tasks.described(made.inputs.tasks) if not request.tasks else _described(request)
        _log_plan(made, schedule, len(devices), request.settings.seconds)
        left_out = [name for name in only if name not in chosen]
        if left_out:
            logging.warning(
                "there is no time for models that learn enough in all studies; left out: %s.",
                ", ".join(left_out),
            )
        reporter = _Reporter(schedule, len(devices))
        try:
            schedule.run([_environment(device) for device in devices], reporter)
        finally:
            entries = list(schedule.entries.values())
            files.write_text(f"{output}/{TABLE}", table(entries) + "\n")
            report.write(output, made, studies, entries, about, left_out)
        return entries


def show(output: str, only: Sequence[str]) -> list[Entry]:
    """The jobs as they stand, without doing any.

    Raises:
      InputError: there are none in this folder.
    """
    if not files.gfile.exists(f"{output}/{PLAN}"):
        raise InputError(f"{output}: has no {PLAN}; nothing was begun there.")
    made = plan.read(output)
    chosen = [name for name in only if name in made.studies] or only
    return list(_schedule(made, chosen, output).entries.values())


def _identify(request: Request, output: str) -> None:
    """Notes what the folder is of, or compares it."""
    path, identity = f"{output}/{_IDENTITY}", request.identity()
    if not files.gfile.exists(path):
        json_files.write(path, identity)
        return
    other = manifest.difference(json_files.read(path, dict), identity)
    if other:
        raise InputError(
            f"{output}: is of experiments with other {other}. Name another folder (OUT=), or "
            "remove this one."
        )


def _plan(request: Request, place: Place, only: Sequence[str]) -> Plan:
    """The plan, made in a process of its own, which gives memory and devices back."""
    if files.gfile.exists(f"{place.root}/{PLAN}"):
        return plan.read(place.root)
    logging.info("measuring this machine, and counting the examples of the tasks.")
    worker = Worker({})
    try:
        worker.begin(f"{place.root}/plan.log", plan.make, request, place, only)
        result = worker.result()
    finally:
        worker.close()
    if result.error is not None:
        raise InputError(result.error)
    return result.value


def _schedule(made: Plan, only: Sequence[str], output: str) -> Schedule:
    jobs = with_needs(made.jobs(only))
    costs = {job.key: job.cost(made.scale.speed) for job in jobs}
    return Schedule(jobs, Place(output, made.precision), costs)


def _processes(schedule: Schedule, budget: float) -> int:
    """How many jobs are done at a time where nobody says it.

    One has the machine to itself. Jobs of which even the smallest are too many for the time do
    little but start, which one core does: then there are as many as cores.
    """
    short = schedule.seconds > _BEYOND * budget
    return cores() if short and not tf.config.list_physical_devices("GPU") else 1


def _environment(device: str) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": device} if device else {}


def _log_plan(made: Plan, schedule: Schedule, processes: int, budget: float) -> None:
    thought = made.scale
    left = schedule.seconds_left(processes)
    if not scale.sees_enough(made.scale):
        logging.warning(
            "%s is too little for models that learn more than what stands next to what; this is a "
            "trial of the program, and findings are not to be expected.",
            _time(budget),
        )
    logging.info(
        "%d jobs: models of %s, %s steps of pre-training, %d seeds, tasks %s; about %s.",
        len(schedule.entries),
        ", ".join(map(str, thought.sizes)),
        f"{thought.steps:,}",
        len(thought.seeds),
        ", ".join(task.name for task in made.inputs.tasks),
        _time(left),
    )


class _Reporter:
    """Tells of each job that ends, and keeps the table."""

    def __init__(self, schedule: Schedule, processes: int):
        self._schedule = schedule
        self._processes = processes

    def __call__(self, entry: Entry) -> None:
        schedule = self._schedule
        entries = list(schedule.entries.values())
        files.write_text(f"{schedule.place.root}/{TABLE}", table(entries) + "\n")
        if entry.state not in (State.DONE, State.FAILED):
            return
        done = sum(other.state in (State.DONE, State.SKIPPED, State.FAILED) for other in entries)
        left = _time(schedule.seconds_left(self._processes))
        logging.info("[%d/%d, %s left] %s", done, len(entries), left, table([entry]))


def _time(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def _described(request: Request) -> str:
    return f"corpus: {request.corpus.files}; tasks: {', '.join(request.tasks)}"


def summary(entries: Sequence[Entry]) -> str:
    """How many jobs stand how."""
    count = {state: sum(entry.state is state for entry in entries) for state in State}
    return ", ".join(f"{number} {state}" for state, number in count.items() if number)
