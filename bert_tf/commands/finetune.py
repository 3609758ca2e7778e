r"""Fine-tunes a BERT for one task, or for several that share an encoder.

  bert-tf finetune --task=mrpc --data=glue/MRPC --init=uncased_L-12_H-768_A-12
  bert-tf finetune --task=classification --data=reviews.csv --init=savedmodels/base \
      --columns=text=review,label=stars
  bert-tf finetune --task=mrpc,topics=classification --data=glue/MRPC,topics/ --init=...

`bert-tf train-embeddings` is the same with the task `embedding`. The columns of its data decide
the loss: pairs (text_a, text_b), pairs with a similarity (label), pairs with a text that is not
alike (negative), texts with a class (label), or texts alone:

  bert-tf train-embeddings --init=all-MiniLM-L6-v2 --train=questions.tsv --dev=sts-dev.tsv

A run that was stopped is resumed.
"""

from collections.abc import Sequence
from typing import Any

from absl import flags

from bert_tf import tasks
from bert_tf.commands.flag_texts import COLUMNS_HELP, HEADER_HELP, LABEL_MAP_HELP
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from pipelines.commands.shared_flags import EncodingFlags
from pipelines.common import command_line, flag_types
from pipelines.common.errors import InputError
from pipelines.common.texts import counted


class _TaskParser(flag_types.ChoiceParser):
    """Parses kinds of tasks, each perhaps with a name of its own, as in topics=classification."""

    def __init__(self) -> None:
        super().__init__(tasks.kinds(), several=True)
        self.placeholder = "A,B,..."

    def read(self, part: str) -> str:
        super().read(part.rpartition("=")[2])
        return part


_TASK = flags.DEFINE(
    _TaskParser(),
    "task",
    None,
    "A task, NAME=TASK to give it another name, or several separated by commas, which share an "
    f"encoder. Tasks: {', '.join(tasks.kinds())}.",
    required=True,
)
_INIT = flags.DEFINE_string(
    "init",
    None,
    "Model to start from, in any format that `bert-tf convert` reads.",
    required=True,
)
_DATA = flags.DEFINE_list(
    "data",
    [],
    "Folder of the files, or one file, for each task. Not given: --train names the file.",
)
_TRAIN, _DEV, _TEST = (
    flags.DEFINE_string(name, None, f"The {name} file. Not given: the one in --data, if any.")
    for name in ("train", "dev", "test")
)
_OUTPUT = flag_types.define_path(
    "output", None, "Folder to write to. Not given: savedmodels/finetuned/TASK."
)
_CACHE = flag_types.define_path(
    "cache",
    "tfrecords/finetuning",
    "Folder for the outputs of a frozen encoder, which later runs with the same data reuse.",
)
_COLUMNS = flags.DEFINE_list("columns", [], COLUMNS_HELP)
_DEV_COLUMNS, _TEST_COLUMNS = (
    flags.DEFINE_list(
        f"{name}_columns",
        None,
        f"As --columns, for the {name} file alone. Not given: those of --columns.",
    )
    for name in ("dev", "test")
)
_HEADER = flags.DEFINE_bool("header", None, HEADER_HELP)
_ENCODING = EncodingFlags()
_LABEL_MAP = flags.DEFINE_list("label_map", [], LABEL_MAP_HELP)
_SEARCH = flags.DEFINE(
    flag_types.NumberParser(float, minimum=0),
    "search_minutes",
    None,
    "Minutes to search for the learning rate, batch size, epochs and layer decay with the best "
    "score on dev, around those given. Not given: no search.",
)
FineTuningSettings.define_flags()


def _requests() -> tuple[TaskRequest, ...]:
    entries = [entry.rpartition("=") for entry in _TASK.value]
    places = _DATA.value
    if places and len(entries) == 1:
        places = [",".join(places)]  # a comma in the path
    if places and len(places) != len(entries):
        raise InputError(
            f"--task names {counted(len(entries), 'task')}, --data "
            f"{counted(len(places), 'place')}; give one place for each task."
        )
    named = ((flag.name, flag.value) for flag in (_TRAIN, _DEV, _TEST))
    splits = tuple((name, value) for name, value in named if value)
    if splits and len(entries) > 1:
        raise InputError("--train, --dev and --test are for one task; use --data for several.")
    if not splits and not _DATA.value:
        raise InputError("no data was named; use DATA= (--data), or --train and --dev.")
    for name, *_ in entries:
        if name:
            _check_name(name)
    data: Sequence[str | None] = places or [None] * len(entries)
    layout = _layout()
    return tuple(
        TaskRequest(kind, name or kind, place, splits, **layout)
        for (name, _, kind), place in zip(entries, data, strict=True)
    )


def _layout() -> dict[str, Any]:
    """The layout of the files, as fields of a `TaskRequest`."""
    from pipelines.labelled import labels

    def pairs(flag: flags.FlagHolder) -> tuple[tuple[str, str], ...]:
        return tuple(command_line.pairs(flag.value, f"--{flag.name}").items())

    names, listed = labels.read(_LABEL_MAP.value, _ENCODING.value) if _LABEL_MAP.value else ({}, ())
    own = (("dev", _DEV_COLUMNS), ("test", _TEST_COLUMNS))
    return {
        "columns": pairs(_COLUMNS),
        "split_columns": tuple((split, pairs(flag)) for split, flag in own if flag.value),
        "header": _HEADER.value,
        "encoding": _ENCODING.value,
        "label_map": tuple(names.items()),
        "label_names": listed,
    }


def _check_name(name: str) -> None:
    from bert_tf.weights import own

    own.check_task_name(name, "--task")


def main() -> None:
    """Fine-tunes as the flags say."""
    requests = _requests()
    settings = FineTuningSettings.from_flags(tasks=requests, init=_INIT.value.rstrip("/"))
    from bert_tf.finetuning import search, sweep, task_report
    from pipelines.common import files

    name = tasks.JOINT.join(request.name for request in requests)
    output = _OUTPUT.value or f"savedmodels/finetuned/{name}"
    if _SEARCH.value is None:
        report = sweep.finetune(settings, output, _CACHE.value)
    else:
        report = search.search(settings, output, _CACHE.value, _SEARCH.value)
    if report:
        print(task_report.summary(report))
        print(f"\n{output}: {', '.join(sorted(files.names_in(output)))}")
