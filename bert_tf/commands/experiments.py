r"""Runs the paper's studies on a corpus at the scale of a time budget, and writes one report.

  bert-tf experiments --corpus='texts/*.txt' --tasks=rte=glue/RTE,pos=ud_ewt --budget=8h
  bert-tf experiments --corpus='texts/*.txt' --budget=2h --only=masking,features

Without --tasks, three tasks are made from the corpus. The same command resumes experiments that
were stopped, and other studies reuse the models that are there.
"""

import sys

from absl import flags

from bert_tf.experiments.studies import PRESETS, STUDIES
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_CORPUS = flags.DEFINE_string(
    "corpus", None, "Text to pre-train on: files or globs.", required=True
)
_TASKS = flags.DEFINE_string(
    "tasks",
    "",
    "Tasks to fine-tune for, separated by commas or spaces: KIND=PATH or NAME:KIND=PATH, with "
    "columns after a question mark (reviews:classification=reviews.csv?text=review&label=stars). "
    "Not given: tasks made from the corpus.",
)
_VOCAB = flags.DEFINE_string("vocab", None, "A vocabulary to use. Not given: one is learned.")
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/experiments", "Folder for models, report and pictures."
)
with flag_types.group(Group.TRAINING):
    _BUDGET = flags.DEFINE(
        flag_types.ChoiceParser(PRESETS),
        "budget",
        "8h",
        "About how long all of it takes on two cores. Size, steps, examples, seeds and studies are "
        "fixed for each; trial shows in minutes whether everything works, and learns nothing.",
    )
    _ONLY = flags.DEFINE_list(
        "only", [], f"Studies, of {', '.join(STUDIES)}. Not given: those of the --budget."
    )


def main() -> None:
    """Runs the experiments with the flags given."""
    for name in _ONLY.value:
        if name not in STUDIES:
            raise InputError(f"--only={name}: unknown study; use {', '.join(STUDIES)}.")
    chosen = _ONLY.value or PRESETS[_BUDGET.value].studies
    studies = [name for name in STUDIES if name in chosen]
    from bert_tf.experiments import plan, run

    output = _OUTPUT.value
    request = plan.Request(output, _CORPUS.value, _TASKS.value, _VOCAB.value, _BUDGET.value)
    failed = run.run(request, studies)
    print(f"{output}: report.md, report.json, pictures")
    if failed:
        sys.exit(
            f"error: {len(failed)} runs failed; {output}/report.md has the reasons. The same "
            "command again does what is left."
        )
