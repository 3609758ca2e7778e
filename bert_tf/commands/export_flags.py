"""Flags that `export` and `export-portable` share: the models, and the check of a precision."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from bert_tf.serving.plan import Precision
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Range
from pipelines.common.settings import Settings

if TYPE_CHECKING:
    from bert_tf.export.sources import ModelSource
    from bert_tf.serving.reduced_precision import ScoreCheck


@dataclasses.dataclass(frozen=True)
class ExportFlags(Settings):
    """The models to export, and what a lower precision must keep.

    Flags:
      tasks: What to export, separated by commas or blanks: names of tasks, whose folders are in
        savedmodels/finetuned/, `pretrained` for savedmodels/pretrained, or NAME=FOLDER. Names of
        folders may have blanks, commas and = if the folder exists or is in quotes. Not given: all
        models there.
      dev: Labelled files as TASK=FILE, separated by commas or blanks, on which a lower --precision
        must keep the scores. Not given: only for float32.
      max_loss: Maximum loss of a task's main metric, whose best value is 1, with a lower
        --precision.
    """

    tasks: str = ""
    dev: str = ""
    max_loss: Annotated[float, Range(minimum=0)] = 0.005

    def sources(self, precision: Precision) -> "list[ModelSource]":
        """The models; raises InputError if one does not exist, or a flag has no effect."""
        from bert_tf.export import sources
        from pipelines.common import path_lists

        given = [x for x in ("dev", "max_loss") if getattr(self, x) != getattr(ExportFlags, x)]
        if given and precision is Precision.FLOAT32:
            raise InputError(
                f"--{given[0]}: is for a lower --precision, which is scored; leave it out."
            )
        return sources.find(path_lists.entries(self.tasks))

    def score_check(
        self,
        found: "Sequence[ModelSource]",
        precision: Precision,
        engines: Sequence[str] | None = None,
    ) -> "ScoreCheck | None":
        """The check of the models in a lower precision; see `ScoreCheck`."""
        if precision is Precision.FLOAT32:
            return None
        from bert_tf.serving.reduced_precision import ScoreCheck
        from pipelines.common import flag_types, path_lists

        dev = flag_types.pairs(path_lists.entries(self.dev), "--dev: ")
        return ScoreCheck(found, precision, dev, self.max_loss, engines)
