"""What `pretrain` and `distill` share: the examples, steps and batches of each phase."""

import dataclasses
from typing import Annotated

from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group, Range
from pipelines.common.settings import Settings
from pipelines.common.texts import counted


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhaseFlags(Settings):
    """Flags with a value for each phase.

    Flags:
      tfrecords: Folder of examples that write-examples wrote, or one for each of several phases.
      steps: Training steps, or those of each of several phases.
      batch_size: Sequences per step, on all devices together; one number, or one for each phase.
    """

    group = Group.TRAINING

    tfrecords: Annotated[list, Group.DATA]
    steps: Annotated[tuple[int, ...], Range(minimum=1)] = (1_000_000,)
    batch_size: Annotated[tuple[int, ...], Range(minimum=1)] = (256,)

    def phases(self) -> tuple[Phase, ...]:
        """The phases that the flags name; an InputError if there are not as many of each."""
        from pipelines.common import path_lists

        folders = path_lists.named_folders(self.tfrecords)
        steps, batches = self.steps, self.batch_size
        if len(batches) == 1:
            batches *= len(folders)
        for flag, values in (("steps", steps), ("batch_size", batches)):
            if len(values) != len(folders):
                raise InputError(
                    f"--{flag} has {counted(len(values), 'number')}, and --tfrecords names "
                    f"{counted(len(folders), 'phase')}; give one for each."
                )
        return tuple(map(Phase, folders, steps, batches))


def run(settings: PretrainingSettings, output: str, options: RunOptions) -> None:
    """Pre-trains, and prints the report."""
    from bert_tf.pretraining import report
    from bert_tf.pretraining.run import pretrain

    result = pretrain(settings, output, options)
    print(report.summary(result))
    exported = " saved_model," if options.saved_model else ""
    print(f"\n{output}: checkpoints,{exported} report.json, curves.png")
