r"""Runs the paper's studies on a corpus at the scale of a time budget, and writes one report.

  bert-tf experiments --corpus='texts/*.txt' --tasks=rte=glue/RTE,pos=ud_ewt --budget=8h
  bert-tf experiments --corpus='texts/*.txt' --budget=2h --only=masking,features

Without --tasks, three tasks are made from the corpus. The same command resumes experiments that
were stopped, and other studies reuse the models that are there.
"""

import sys
from typing import Annotated

from bert_tf.experiments.studies import PRESETS, STUDIES
from pipelines.common.flag_types import Group, Path, choice, choices


def main(
    *,
    corpus: str,
    tasks: str = "",
    vocab: Path | None = None,
    output: Path = "savedmodels/experiments",
    budget: Annotated[str, choice(PRESETS), Group.TRAINING] = "8h",
    only: Annotated[tuple | None, choices(STUDIES), Group.TRAINING] = None,
) -> None:
    """Runs the experiments with the flags given.

    Flags:
      corpus: Text to pre-train on: files or globs.
      tasks: Tasks to fine-tune for, separated by commas or spaces: KIND=PATH or NAME:KIND=PATH,
        with columns after a question mark
        (reviews:classification=reviews.csv?text=review&label=stars). Not given: tasks made from the
        corpus.
      vocab: A vocabulary to use. Not given: one is learned.
      output: Folder for models, report and pictures.
      budget: About how long all of it takes on two cores. Size, steps, examples, seeds and studies
        are fixed for each; trial shows in minutes whether everything works, and learns nothing.
      only: Studies to run. Not given: those of the --budget.
    """
    chosen = only or PRESETS[budget].studies
    studies = [name for name in STUDIES if name in chosen]
    from bert_tf.experiments import plan, run

    failed = run.run(plan.Request(output, corpus, tasks, vocab, budget), studies)
    print(f"{output}: report.md, report.json, pictures")
    if failed:
        sys.exit(
            f"error: {len(failed)} runs failed; {output}/report.md has the reasons. The same "
            "command again does what is left."
        )
