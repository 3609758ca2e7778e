"""The plan: what is measured and counted before the first job, and kept for all that follow."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.experiments import jobs, own_tasks, scale, speed
from bert_tf.experiments.finetuning_jobs import TaskSource
from bert_tf.experiments.jobs import Job, Place
from bert_tf.experiments.pretraining_jobs import Corpus, Vocabulary
from bert_tf.experiments.scale import Inputs, Scale
from bert_tf.experiments.settings import BY_WEIGHT, ExperimentSettings
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from bert_tf.experiments.studies.registry import STUDIES
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings
from bert_tf.finetuning.task_data import TaskData
from bert_tf.tasks import kinds
from bert_tf.training.precision import resolve_precision
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.settings import VocabularyKind

PLAN = "plan.json"
_TASK = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*):)?(?P<kind>\w+)=(?P<path>[^?]+)(?:\?(?P<columns>.*))?"
)
_LONG = 24 * 3600  # a budget from which wider models are measured, too


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be planned.

    Attributes:
      settings: see there.
      corpus: text to pre-train on.
      vocab: the user's vocabulary; None: one is learned.
      tasks: entries as `parse_task` reads them; none: tasks are made of the corpus.
      lower_case: of a vocabulary that is learned; None: as usual.
    """

    settings: ExperimentSettings
    corpus: Corpus
    vocab: str | None = None
    tasks: tuple[str, ...] = ()
    lower_case: bool | None = None

    def identity(self) -> dict[str, Any]:
        """What must be the same for a plan to be gone on with, as JSON values."""
        return {
            "settings": self.settings.describe(),
            "corpus": dataclasses.asdict(self.corpus),
            "vocab": self.vocab,
            "tasks": list(self.tasks),
            "lower_case": self.lower_case,
        }


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is decided before the first job; all studies follow from it.

    Attributes:
      inputs: see there.
      scale: see there.
      precision: what all models are trained in, so that they can be compared.
      studies: that there is time for.
    """

    inputs: Inputs
    scale: Scale
    precision: str
    studies: tuple[str, ...]

    def jobs(self, studies: Sequence[str]) -> list[Job]:
        """All jobs of studies."""
        return [job for name in studies for job in STUDIES[name].jobs(self.inputs, self.scale)]


def parse_task(entry: str) -> TaskSource:
    """Reads a task: KIND=PATH or NAME:KIND=PATH, and columns behind a question mark.

    >>> parse_task("imdb:classification=imdb/train.tsv?text=sentence&label=label").name
    'imdb'

    Raises:
      InputError: it has another form, or no such kind.
    """
    match = _TASK.fullmatch(entry)
    if not match:
        raise InputError(
            f"--tasks={entry}: a task is KIND=PATH or NAME:KIND=PATH, such as rte=glue/RTE or "
            "reviews:classification=reviews.csv?text=review&label=stars."
        )
    kind = match["kind"]
    if kind not in kinds():
        raise InputError(f"--tasks={entry}: there is no task {kind}; use {', '.join(kinds())}.")
    pairs = [part.partition("=") for part in (match["columns"] or "").split("&") if part]
    columns = tuple((role, column) for role, _, column in pairs)
    return TaskSource(match["name"] or kind, kind, match["path"], columns=columns)


def make(request: Request, place: Place, studies: Sequence[str]) -> Plan:
    """Makes and keeps a plan: learns the vocabulary, counts, measures, and fits.

    Args:
      request: what is wanted.
      place: where.
      studies: for whose jobs there has to be time.

    Raises:
      InputError: the corpus or a task cannot be read.
    """
    sources = tuple(map(parse_task, request.tasks))
    for source in sources:
        if not files.gfile.exists(source.data):
            raise InputError(
                f"--tasks: {source.data}: no such file or folder (task {source.name})."
            )
    hasty = request.settings.seconds < scale.SEVERAL_SEEDS
    corpus, settings = request.corpus, request.settings
    if not sources:
        corpus, sources = own_tasks.make(corpus, f"{place.root}/own_tasks")
    if hasty:
        sources = _one_of_each(sources)
    vocabulary = Vocabulary(corpus, settings.vocab_size, request.vocab, request.lower_case)
    vocabulary.work(place)
    chosen = {} if request.lower_case is None else {"lower_case": request.lower_case}
    tokenizer = registry.load_tokenizer(vocabulary.path(place), chosen)
    data = [_loaded(source, tokenizer, place) for source in sources]
    tasks = tuple(_counted(source, item) for source, item in zip(sources, data, strict=True))
    words = _with_words_of(data, corpus, place)
    inputs = Inputs(corpus, words, vocabulary, tasks, settings.seeds or ())
    widths = [Size(2, 64), Size(2, 128), Size(4, 256)]
    if settings.seconds >= _LONG:
        widths += [Size(4, 512), Size(12, 768)]
    elif hasty:
        widths = widths[:2]
    chosen_precision = resolve_precision(settings.precision)
    measured = speed.measure(
        widths, len(tokenizer.vocabulary), settings.max_seq_length, chosen_precision
    )

    fitted, kept = _fitted(settings, inputs, measured, studies, widths[-1])
    plan = Plan(inputs, fitted, chosen_precision, kept)
    json_files.write(f"{place.root}/{PLAN}", dataclasses.asdict(plan))
    return plan


def _fitted(
    settings: ExperimentSettings,
    inputs: Inputs,
    measured: Speed,
    studies: Sequence[str],
    largest: Size,
) -> tuple[Scale, tuple[str, ...]]:
    """The scale, and the studies that there is time for with models that have learned something.

    Where there is none even for one, it is the smallest scale, with all of them.
    """
    seconds, seeds = settings.seconds, settings.seeds or ()

    def jobs_of(names: Sequence[str]) -> scale.JobsOf:
        return lambda thought: jobs.with_needs(
            job for name in names for job in STUDIES[name].jobs(inputs, thought)
        )

    weighty = [name for name in BY_WEIGHT if name in studies]
    for count in range(len(weighty), 0, -1):
        kept = tuple(name for name in studies if name in weighty[:count])
        fitted = scale.fit(seconds, seeds, measured, jobs_of(kept), largest)
        if fitted:
            return fitted, kept
    return scale.smallest(seconds, seeds, measured, jobs_of(studies)), tuple(studies)


def _one_of_each(sources: Sequence[TaskSource]) -> tuple[TaskSource, ...]:
    """The first task of whole texts, and the first of tokens: there is no time for more."""
    first = {source.per_token: source for source in reversed(sources)}
    return tuple(source for source in sources if source in first.values())


def _loaded(source: TaskSource, tokenizer: Tokenizer, place: Place) -> TaskData:
    """The data of a task.

    Raises:
      InputError: it cannot be read, or has no dev part and too few examples for one.
    """
    settings = FineTuningSettings(tasks=(source.request(),), init="")
    data = task_data.load(source.request(), settings, tokenizer, place.cache)
    if not data.dev:
        raise InputError(f"{source.name}: has no dev data to score on.")
    return data


def _counted(source: TaskSource, data: TaskData) -> TaskSource:
    """A task with the numbers of its examples and tokens."""
    lengths = data.train.features["input_word_ids"].lengths
    rows = (len(data.train.examples), len(data.dev[0].examples))
    return dataclasses.replace(source, rows=rows, tokens=max(1, round(float(np.mean(lengths)))))


def _with_words_of(data: Sequence[TaskData], corpus: Corpus, place: Place) -> Corpus:
    """The corpus, and the texts of tasks; where its format is not left open, the corpus alone."""
    if corpus.format != "auto":
        return corpus
    path = f"{place.root}/texts_of_tasks.txt"
    with files.write_aside(path) as partial, files.gfile.GFile(partial, "w") as file:
        for item in data:
            for split in (item.train, *item.dev):
                for example in split.examples:
                    file.write(" ".join(_texts(example)) + "\n")
            file.write("\n")
    return Corpus(f"{corpus.files},{path}")


def _texts(example: Any) -> Iterator[str]:
    """The texts of an example, whatever its shape, each in one line."""
    for field in dataclasses.fields(example):
        value = getattr(example, field.name)
        for text in value if isinstance(value, tuple | list) else (value,):
            if isinstance(text, str):
                yield " ".join(text.split())


def read(folder: str) -> Plan:
    """The plan that is kept in a folder."""
    values = json_files.read(f"{folder}/{PLAN}", dict[str, Any])
    inputs, thought = values["inputs"], values["scale"]
    corpus, words = Corpus(**inputs["corpus"]), Corpus(**inputs["words"])
    kind = VocabularyKind(inputs["vocabulary"]["tokenizer"])
    vocabulary = Vocabulary(**inputs["vocabulary"] | {"corpus": corpus, "tokenizer": kind})
    tasks = tuple(
        TaskSource(
            **task
            | {
                "files": tuple(map(tuple, task["files"])),
                "columns": tuple(map(tuple, task["columns"])),
                "rows": tuple(task["rows"]),
            }
        )
        for task in inputs["tasks"]
    )
    measured = Speed(**thought["speed"] | {"flops": tuple(map(tuple, thought["speed"]["flops"]))})
    return Plan(
        Inputs(corpus, words, vocabulary, tasks, tuple(inputs["seeds"])),
        Scale(
            **thought
            | {
                "main": Size(**thought["main"]),
                "seeds": tuple(thought["seeds"]),
                "pretraining_seeds": tuple(thought["pretraining_seeds"]),
                "speed": measured,
            }
        ),
        values["precision"],
        tuple(values["studies"]),
    )
