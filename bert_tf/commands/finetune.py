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

import itertools
import os
from typing import Annotated, Any

from bert_tf import tasks
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from pipelines.commands.shared_flags import ExampleTable
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Parser, Path, Range, choice, listed
from pipelines.common.texts import counted

_KINDS = choice(tasks.kinds())


def _task(part: str) -> str:
    """A kind of task, perhaps with a name of its own, as in topics=classification."""
    _KINDS.parse(part.rpartition("=")[2])
    return part


_TASKS = Parser(listed(_task), _KINDS.placeholder)


def main(
    *,
    task: Annotated[tuple, _TASKS],
    init: Path,
    data: list | None = None,
    train: Path | None = None,
    dev: Path | None = None,
    test: Path | None = None,
    output: Path | None = None,
    cache: Path = "tfrecords/finetuning",
    table: ExampleTable,
    dev_columns: dict | None = None,
    test_columns: dict | None = None,
    label_map: list | None = None,
    search_minutes: Annotated[float | None, Range(minimum=0)] = None,
    settings: type[FineTuningSettings],
) -> None:
    """Fine-tunes as the flags say.

    Flags:
      task: A task, NAME=TASK to give it another name, or several separated by commas, which share
        an encoder.
      init: Model to start from, in any format that `bert-tf convert` reads.
      data: Folder of the files, or one file, for each task. Not given: --train names the file.
      train: The train file. Not given: the one in --data, if any.
      dev: The dev file. Not given: the one in --data, if any.
      test: The test file. Not given: the one in --data, if any.
      output: Folder to write to. Not given: savedmodels/finetuned/TASK.
      cache: Folder for the outputs of a frozen encoder, which later runs with the same data reuse.
      dev_columns: As --columns, for the dev file alone. Not given: those of --columns.
      test_columns: As --columns, for the test file alone. Not given: those of --columns.
      label_map: Names of labels, such as 1=World,2=Sports; or a file with a label, a tab and its
        name per line, or, if labels are numbers, with a name per line. Not given: labels keep their
        names in the files.
      search_minutes: Minutes to search for the learning rate, batch size, epochs and layer decay
        with the best score on dev, around those given. Not given: no search.
    """
    files = {"train": train, "dev": dev, "test": test}
    columns = {"dev": dev_columns, "test": test_columns}
    requests = _requests(task, data or [], files, _layout(table, columns, label_map))
    chosen = settings.from_flags(tasks=requests, init=init)
    from bert_tf.finetuning import folds, search, sweep, task_report
    from pipelines.common.files import names_in

    name = tasks.JOINT.join(request.name for request in requests)
    folder = output or f"savedmodels/finetuned/{name}"
    if chosen.folds and search_minutes is not None:
        raise InputError("--folds: scores fixed settings; search for them first, without it.")
    if search_minutes is not None:
        report = search.search(chosen, folder, cache, search_minutes)
    elif chosen.folds:
        report = folds.finetune(chosen, folder, cache)
    else:
        report = sweep.finetune(chosen, folder, cache)
    if report:
        print(task_report.summary(report))
        print(f"\n{folder}: {', '.join(sorted(names_in(folder)))}")


def _requests(
    named: tuple[str, ...], places: list[str], files: dict[str, str | None], layout: dict[str, Any]
) -> tuple[TaskRequest, ...]:
    """A request for each task; `files` and `layout` are fields of all."""
    entries = [entry.rpartition("=") for entry in named]
    if places and len(entries) == 1:
        places = [",".join(places)]  # a comma in the path
    places = list(map(os.path.expanduser, places))  # a shell leaves the ~ of --data=~/a
    if places and len(places) != len(entries):
        raise InputError(
            f"--task names {counted(len(entries), 'task')}, --data "
            f"{counted(len(places), 'place')}; give one place for each task."
        )
    splits = tuple((split, path) for split, path in files.items() if path)
    if splits and len(entries) > 1:
        raise InputError("--train, --dev and --test are for one task; use --data for several.")
    if not splits and not places:
        raise InputError("no data was named; use DATA= (--data), or --train and --dev.")
    from bert_tf.weights import own

    for name in filter(None, (name for name, *_ in entries)):
        own.check_task_name(name, "--task")
    return tuple(
        TaskRequest(kind, name or kind, place, splits, **layout)
        for (name, _, kind), place in itertools.zip_longest(entries, places)
    )


def _layout(
    table: ExampleTable, columns: dict[str, dict[str, str] | None], label_map: list[str] | None
) -> dict[str, Any]:
    """The layout of the files, as fields of a `TaskRequest`."""
    from pipelines.labelled import labels

    names, listed = labels.read(label_map, table.codec) if label_map else ({}, ())
    return {
        "columns": tuple(table.roles.items()),
        "split_columns": tuple((k, tuple(own.items())) for k, own in columns.items() if own),
        "header": table.header,
        "encoding": table.codec,
        "label_map": tuple(names.items()),
        "label_names": listed,
    }
