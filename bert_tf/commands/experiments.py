r"""Runs the paper's studies on a corpus within a time budget, and writes one report.

  bert-tf experiments --corpus='texts/*.txt' --tasks=rte=glue/RTE,pos=ud_ewt --budget=8h
  bert-tf experiments --corpus='texts/*.txt' --budget=10m --only=masking,features
  bert-tf experiments --output=savedmodels/experiments --show

Without --tasks, three tasks are made from the corpus. The same command resumes a run that was
stopped, and other studies reuse the models that are there.
"""

import sys

from absl import flags

from bert_tf.experiments.settings import ExperimentSettings, chosen_studies
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_OUTPUT = flag_types.define_path(
    "output", "savedmodels/experiments", "Folder for models, report and pictures."
)
_ONLY = flags.DEFINE_list("only", [], "Studies to run, such as masking. Not given: all.")
with flag_types.group(Group.MACHINE):
    _PROCESSES = flags.DEFINE(
        flag_types.NumberParser(int, minimum=1, maximum=64),
        "processes",
        None,
        "Jobs at a time, which share the machine. Not given: one, or one on each core where the "
        "budget is too small for any study.",
    )
    _DEVICES = flags.DEFINE_list(
        "devices",
        [],
        "GPUs by number, such as 0,1; each runs one job at a time. Not given: the first.",
    )
with flag_types.group(Group.SAVING):
    _SHOW = flags.DEFINE_bool("show", False, "Print the state of the jobs, and run nothing.")
ExperimentSettings.define_flags()


def main() -> None:
    """Runs the experiments with the flags given."""
    only, output = chosen_studies(_ONLY.value), _OUTPUT.value
    settings = ExperimentSettings.from_flags()
    from bert_tf.experiments import run
    from bert_tf.experiments.schedule import JobState, table

    if _SHOW.value:
        entries = run.show(output, only)
        print(f"{table(entries)}\n\n{run.summary(entries)}")
        return
    if not settings.corpus:
        raise InputError("no text was named; use CORPUS= (--corpus), files or globs.")
    if _DEVICES.value and _PROCESSES.value is not None:
        raise InputError("--devices and --processes: each device has one process; leave one out.")
    devices = _DEVICES.value or [""] * (_PROCESSES.value or 0)
    entries = run.run(settings, output, only, devices)
    print(f"{run.summary(entries)}\n{output}: report.md, report.json, jobs.txt, pictures")
    failed = sum(entry.state is JobState.FAILED for entry in entries)
    if failed:
        sys.exit(
            f"error: {failed} of {len(entries)} jobs failed; {output}/jobs.txt has the reasons. "
            "The same command again does what is left."
        )
