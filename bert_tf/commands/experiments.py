r"""Re-runs the studies of the paper on a corpus, within a time, and writes one report.

  bert-tf experiments --corpus='texts/*.txt' --tasks=rte=glue/RTE,pos=ud_ewt --budget=8h
  bert-tf experiments --corpus='texts/*.txt' --budget=10m --only=masking,features
  bert-tf experiments --output=savedmodels/experiments --show

Without --tasks, three are made of the corpus itself. Jobs are kept by their settings: a command
that was stopped goes on when it is started again, and other studies take what is there.
"""

import sys

from absl import flags

from bert_tf.experiments.settings import ExperimentSettings, chosen_studies
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.corpus import FORMATS

_CORPUS = flags.DEFINE_string(
    "corpus", None, "Text to pre-train on: files or globs. Not given: --show only."
)
_TASKS = flags.DEFINE_string(
    "tasks",
    "",
    "Tasks to fine-tune for, with commas or blanks between: KIND=PATH or NAME:KIND=PATH, "
    "columns behind a question mark (reviews:classification=reviews.csv?text=review&label="
    "stars). Not given: tasks that are made of the corpus.",
)
_VOCAB = flags.DEFINE_string("vocab", None, "A vocabulary. Not given: one is learned.")
_OUTPUT = flag_types.define_path(
    "output",
    "savedmodels/experiments",
    "Folder for models, report and pictures.",
)
_ONLY = flags.DEFINE_list("only", [], "Studies, such as masking. Not given: all.")
_FORMAT = flags.DEFINE(
    flag_types.ChoiceParser(("auto", *FORMATS)),
    "format",
    "auto",
    "Format of the corpus; auto: told by looking.",
)
_LOWER_CASE = flags.DEFINE_bool(
    "lower_case",
    None,
    "Whether the vocabulary that is learned is of lower case. Not given: it is.",
)
with flag_types.group(Group.MACHINE):
    _PROCESSES = flags.DEFINE(
        flag_types.NumberParser(int, minimum=1, maximum=64),
        "processes",
        None,
        "Jobs at a time, which share the machine. Not given: one; one for each core where even the "
        "smallest jobs are too many for the time.",
    )
    _DEVICES = flags.DEFINE_list(
        "devices", [], "GPUs by number, such as 0,1: a job at a time on each. Not given: the first."
    )
with flag_types.group(Group.SAVING):
    _SHOW = flags.DEFINE_bool("show", False, "Print where the jobs stand, and do nothing.")
ExperimentSettings.define_flags()


def main() -> None:
    """Runs the experiments with the flags given."""
    only = chosen_studies(_ONLY.value)
    settings = ExperimentSettings.from_flags()
    from bert_tf.experiments import run
    from bert_tf.experiments.jobs import State
    from bert_tf.experiments.plan import Request
    from bert_tf.experiments.pretraining_jobs import Corpus
    from bert_tf.experiments.scheduler import table
    from pipelines.common import path_lists

    output = _OUTPUT.value
    if _SHOW.value:
        entries = run.show(output, only)
        print(table(entries))
        print(f"\n{run.summary(entries)}")
        return
    if not _CORPUS.value:
        raise InputError("no text was named; use CORPUS= (--corpus), files or globs.")
    if _DEVICES.value and _PROCESSES.value is not None:
        raise InputError("--devices and --processes: each device has one process; leave one out.")
    request = Request(
        settings,
        Corpus(_CORPUS.value, _FORMAT.value),
        _VOCAB.value,
        tuple(path_lists.entries(_TASKS.value)),
        _LOWER_CASE.value,
    )
    devices = _DEVICES.value or [""] * (_PROCESSES.value or 0)
    entries = run.run(request, output, only, devices)
    print(f"{run.summary(entries)}\n{output}: report.md, report.json, jobs.txt, pictures")
    failed = sum(entry.state is State.FAILED for entry in entries)
    if failed:
        sys.exit(
            f"error: {failed} of {len(entries)} jobs failed; {output}/jobs.txt says why. The same "
            "command again does what is left."
        )
