"""Makes the plan: counts the tasks' examples, measures a few training steps, and fits the scale.

Pre-training takes 70 % of the budget. From the measured time of a step follow the number of steps
and, as a model must see several tokens for each of its weights, the size and the studies.
"""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf import tasks as task_kinds
from bert_tf.experiments import own_tasks
from bert_tf.experiments import plan as plans
from bert_tf.experiments.jobs import (
    FineTuningJob,
    PretrainingJob,
    VocabularyJob,
    perform,
    with_needs,
)
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask, ModelSize
from bert_tf.experiments.settings import ExperimentSettings
from bert_tf.experiments.studies import BY_IMPORTANCE, jobs_of
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.heads import MaskedLMHead
from bert_tf.pretraining.settings import RunOptions
from bert_tf.training import hardware
from pipelines.common import files, path_lists
from pipelines.common.errors import InputError
from pipelines.labelled.schema import text_of
from pipelines.pretraining.settings import Objective
from pipelines.tokenizers import registry

PRETRAINING = 0.7  # fraction of the budget
_TASK = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*):)?(?P<kind>\w+)=(?P<path>[^?]+)(?:\?(?P<columns>.*))?"
)
_SIZES = (
    *(ModelSize(2, 64), ModelSize(2, 128), ModelSize(2, 256), ModelSize(4, 256)),
    *(ModelSize(4, 512), ModelSize(8, 512), ModelSize(12, 768), ModelSize(24, 1024)),
)
_CAPS = (None, 30_000, 10_000, 3_000, 1_000, 300)  # training examples of a task
_MIN_STEPS = 30
_MEASURED_STEPS = 50
_TUNING_COST = 0.7  # of a token of pre-training, where the head over the vocabulary is dear


class Preset(NamedTuple):
    """What follows from the budget alone."""

    seconds: float  # of the budget, at least
    seeds: tuple[int, ...]  # of fine-tuning
    model_seeds: tuple[int, ...]  # of pre-training, in the first study
    all_tasks: bool  # or one of whole texts and one of tokens


PRESETS = (
    Preset(24 * 3600, (1, 2, 3), (1, 2, 3), True),
    Preset(3600, (1, 2, 3), (1,), True),
    Preset(0, (1,), (1,), False),
)


def make(settings: ExperimentSettings, folder: str, studies: Sequence[str]) -> ExperimentPlan:
    """Makes a plan and writes it to a folder.

    Args:
      settings: the user's settings.
      folder: of the experiments.
      studies: the studies that the budget is for.

    Raises:
      InputError: the corpus or a task cannot be read.
    """
    preset = next(each for each in PRESETS if settings.seconds >= each.seconds)
    tasks = _user_tasks(path_lists.entries(settings.tasks))
    corpus, corpus_format = settings.corpus or "", "auto"
    if not tasks:
        corpus, tasks = own_tasks.make(corpus, corpus_format, f"{folder}/own_tasks")
        corpus_format = "sentences"
    if not preset.all_tasks:
        first = {task.per_token: task for task in reversed(tasks)}
        tasks = tuple(task for task in tasks if task in first.values())
    plan = ExperimentPlan(
        folder=folder,
        settings=settings,
        studies=tuple(studies),
        corpus=corpus,
        corpus_format=corpus_format,
        word_corpus=corpus,
        tasks=tasks,
        precision=hardware.resolve_precision(settings.precision),
        size=_SIZES[0],
        model_seeds=preset.model_seeds,
        seeds=settings.seeds or preset.seeds,
    )
    plan = _with_data(plan)
    plan = fit(plan, settings.seconds, functools.partial(_measure, plan))
    left_out = tuple(name for name in studies if name not in plan.studies)
    plan = dataclasses.replace(plan, left_out=left_out)
    files.remove_tree(f"{folder}/measurement")
    plans.write(plan)
    return plan


def _user_tasks(entries: Sequence[str]) -> tuple[ExperimentTask, ...]:
    """Reads and checks the tasks that the user names."""
    tasks = tuple(map(parse_task, entries))
    names = [task.name for task in tasks]
    for task in tasks:
        if not files.gfile.exists(task.request.data):
            raise InputError(
                f"--tasks: {task.request.data}: no such file or folder (task {task.name})."
            )
        if names.count(task.name) > 1:
            raise InputError(f"--tasks: two tasks are named {task.name}; use NAME:KIND=PATH.")
    return tasks


def parse_task(entry: str) -> ExperimentTask:
    """Reads a task: KIND=PATH or NAME:KIND=PATH, with columns after a question mark.

    >>> parse_task("imdb:classification=imdb/train.tsv?text=sentence&label=label").name
    'imdb'

    Raises:
      InputError: it has another form, or a kind that is unknown or has no head.
    """
    match = _TASK.fullmatch(entry)
    if not match:
        raise InputError(
            f"--tasks={entry}: a task is KIND=PATH or NAME:KIND=PATH, such as rte=glue/RTE or "
            "reviews:classification=reviews.csv?text=review&label=stars."
        )
    kind = match["kind"]
    if kind not in task_kinds.kinds():
        raise InputError(
            f"--tasks={entry}: unknown task {kind}; use {', '.join(task_kinds.kinds())}."
        )
    if not task_kinds.make(kind).own_head:
        raise InputError(f"--tasks={entry}: the studies compare heads, and {kind} has none.")
    pairs = [part.partition("=") for part in (match["columns"] or "").split("&") if part]
    columns = tuple((role, column) for role, _, column in pairs)
    return ExperimentTask(TaskRequest(kind, match["name"] or kind, match["path"], columns=columns))


def _with_data(plan: ExperimentPlan) -> ExperimentPlan:
    """The plan with the sizes of the tasks' data, and with their texts in the word corpus.

    Raises:
      InputError: a task cannot be read, or has no dev part and too few examples for one.
    """
    perform(VocabularyJob(), plan)
    vocabulary = VocabularyJob().path(plan)
    tokenizer = registry.load_tokenizer(vocabulary)
    tasks, texts = [], []
    for task in plan.tasks:
        settings = FineTuningSettings(tasks=(task.request,), init="")
        data = task_data.load(task.request, settings, tokenizer)
        if not data.dev:
            raise InputError(f"{task.name}: has no dev data to score on.")
        train, dev = data.train.examples, data.dev[0].examples
        tokens = max(1, round(float(np.mean(data.train.features["input_word_ids"].lengths))))
        tasks.append(ExperimentTask(task.request, len(train), len(dev), tokens))
        texts += [" ".join(text_of(example).split()) for example in (*train, *dev)]
    plan = dataclasses.replace(plan, tasks=tuple(tasks))
    if plan.settings.vocab:
        own = dataclasses.replace(plan.settings, vocab_size=len(tokenizer.vocabulary))
        plan = dataclasses.replace(plan, settings=own)
    if plan.corpus_format != "auto":  # which the texts of tasks do not have
        return plan
    path = f"{plan.folder}/texts_of_tasks.txt"
    files.write_text(path, "\n".join(texts) + "\n")
    return dataclasses.replace(plan, word_corpus=f"{plan.corpus},{path}")


class StepTime(NamedTuple):
    """Measured seconds of a pre-training step of a size, by objective."""

    size: ModelSize
    seconds: Mapping[Objective, float]

    def of(self, job: PretrainingJob, plan: ExperimentPlan) -> float:
        """Seconds of a step of a job; for another size scaled by floating-point operations."""
        return _flops(job.size, plan) / _flops(self.size, plan) * self.seconds[job.objective]


def _flops(size: ModelSize, plan: ExperimentPlan) -> float:
    config = size.config(plan.settings.vocab_size)
    head = MaskedLMHead(config, name="masked_lm")
    encoder = BertEncoder.unallocated(config)
    return hardware.training_flops([encoder], head, plan.length, plan.length // 6)


def _measure(plan: ExperimentPlan, size: ModelSize) -> StepTime:
    """Trains a model of a size for a few steps, with each objective of the studies."""
    plan = dataclasses.replace(plan, steps=_MEASURED_STEPS)
    jobs = (job for job in jobs_of(plan, plan.studies) if isinstance(job, PretrainingJob))
    seconds = {}
    for objective in {job.objective: None for job in jobs}:
        job = PretrainingJob(size, objective)
        for need in with_needs(job.needs):
            if need.outcome(plan) is None:
                perform(need, plan)
        output = f"{plan.folder}/measurement/{size}-{objective}"
        report = job.train(plan, output, RunOptions(log_every=_MEASURED_STEPS // 5))
        seconds[objective] = plan.batch_size / report["sequences_per_second"]
    return StepTime(size, seconds)


def fit(
    plan: ExperimentPlan, seconds: float, measure: Callable[[ModelSize], StepTime]
) -> ExperimentPlan:
    """The plan with as many studies, and then with as large a model, as learn enough in time.

    Where not even one study does, all of them are planned at the smallest scale, for a trial.

    Args:
      plan: with the data and the studies that are asked for.
      seconds: the budget.
      measure: measures a size; sizes are measured in ascending order until one is too large.
    """
    measure = functools.cache(measure)
    smallest = _scaled(plan, seconds, measure(_SIZES[0]))
    ranked = [name for name in BY_IMPORTANCE if name in plan.studies and jobs_of(plan, [name])]
    for count in range(len(ranked), 0, -1):
        kept = tuple(name for name in plan.studies if name in ranked[:count])
        plan = dataclasses.replace(plan, studies=kept)
        found = (_scaled(plan, seconds, measure(size)) for size in _SIZES)
        enough = list(itertools.takewhile(lambda each: each.sees_enough, found))
        if enough:
            return enough[-1]
    return smallest


def _scaled(plan: ExperimentPlan, seconds: float, time: StepTime) -> ExperimentPlan:
    """The plan at the measured size, with the steps and examples that there is time for."""
    plan = dataclasses.replace(plan, size=time.size)
    jobs = jobs_of(plan, plan.studies)
    models = [job for job in jobs if isinstance(job, PretrainingJob)]
    if not models:
        raise InputError(
            f"--only={','.join(plan.studies)}: needs two --tasks of the same form, which there are "
            "not; name them, or use a --budget of 1h, which has more tasks."
        )
    step = sum(time.of(job, plan) for job in models)
    plan = dataclasses.replace(
        plan,
        steps=max(_MIN_STEPS, math.ceil(PRETRAINING * seconds / step)),
        weights=BertEncoder.unallocated(plan.size.config(plan.settings.vocab_size)).parameters,
    )
    token = _TUNING_COST * time.seconds[Objective.MLM_NSP] / (plan.batch_size * plan.length)
    for cap in _CAPS:
        plan = dataclasses.replace(plan, max_examples=cap)
        if token * _tuning_tokens(plan) <= (1 - PRETRAINING) * seconds:
            break
    return plan


def _tuning_tokens(plan: ExperimentPlan) -> int:
    """Tokens that all fine-tuning jobs read, padding included."""
    total = 0
    for job in jobs_of(plan, plan.studies):
        if isinstance(job, FineTuningJob):
            recipe = plan.recipe(job.task, job.examples, plan.size.width)
            examples = job.examples * recipe["epochs"] + job.task.dev_examples
            total += recipe["max_length"] * examples
    return total * len(plan.seeds)
