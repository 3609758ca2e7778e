"""Sizes and steps that fit the time that the user gives."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from bert_tf.experiments.finetuning_jobs import FineTuning, Recipe, TaskSource
from bert_tf.experiments.jobs import Job, ModelJob
from bert_tf.experiments.pretraining_jobs import Corpus, Pretraining, Vocabulary
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from bert_tf.models.encoder import BertEncoder

# From the smallest to the largest; the widest one whose pre-training is worth its name is taken.
MAIN_SIZES = (
    *(Size(2, 64), Size(2, 128), Size(2, 256), Size(4, 256)),
    *(Size(4, 512), Size(8, 512), Size(12, 768), Size(24, 1024)),
)
_CAPS = (None, 10_000, 3_000, 1_000, 300)  # training examples of a task
_ENOUGH = 3_000  # of them, which no larger model is worth giving up
_PRETRAINING_SHARE = 0.7  # of the time, at the least
# Of pre-training, at the least: with fewer, a model knows little more than what stands next to what
# (docs/guides/recipes.md).
_TOKENS_A_PARAMETER = 4
_FEWEST_STEPS = 30
SEVERAL_SEEDS = 3600  # seconds of budget from which there are three of fine-tuning
_SEVERAL_MODELS = 24 * 3600  # the same of pre-training, in the first study
_UPDATES = 400  # of fine-tuning at the least, where data is small
_EPOCHS = (3, 10)
_BATCH = 32
_PRETRAINING_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What the user brings.

    Attributes:
      corpus: to pre-train on.
      words: text whose words an ELMo knows the characters of: the tasks', too.
      vocabulary: of word pieces.
      tasks: to fine-tune for.
      seeds: of fine-tuning; none: as many as there is time for.
    """

    corpus: Corpus
    words: Corpus
    vocabulary: Vocabulary
    tasks: tuple[TaskSource, ...]
    seeds: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large everything is.

    Attributes:
      main: the size of all studies but that of sizes.
      steps: of pre-training, the same for all models.
      batch_size: sequences of a step of it.
      length: tokens of a sequence of it.
      seeds: of fine-tuning.
      pretraining_seeds: of the models of the first study; others have the first of them.
      cap: training examples of a task at the most; None: all.
      speed: what jobs cost.
    """

    main: Size
    steps: int
    batch_size: int
    length: int
    seeds: tuple[int, ...]
    cap: int | None
    speed: Speed
    pretraining_seeds: tuple[int, ...] = (1,)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Four sizes round the main one, from small to large: of other width, of other depth."""
        layers, width = self.main.layers, self.main.width
        shallow = max(1, layers // 2)
        other = Size(shallow, width // 2) if width > 64 else Size(layers, 2 * width)
        found = {other, Size(shallow, width), self.main, Size(2 * layers, width)}
        return tuple(sorted(found, key=lambda size: (size.layers * size.width**2, size.width)))

    @property
    def pretraining_rate(self) -> float:
        """The learning rate of pre-training; smaller models take larger ones."""
        return 2e-3 if self.main.width <= 128 else 1e-3 if self.main.width <= 512 else 5e-4

    @property
    def bilstm_width(self) -> int:
        """Of the BiLSTM of the feature-based approach; 768 in the paper, as wide as BERT-Base."""
        return self.main.width

    def recipe(self, task: TaskSource, head_only: bool = False, rows: int | None = None) -> Recipe:
        """How a task is fine-tuned: small data more often.

        Args:
          task: whose it is.
          head_only: whether the encoder is frozen.
          rows: training examples, where there are fewer.
        """
        count = max(1, min(rows or task.rows[0], self.cap or task.rows[0]))
        epochs = min(max(_UPDATES * _BATCH / count, _EPOCHS[0]), _EPOCHS[1])
        wide = self.main.width >= 512
        rate = 1e-3 if head_only else 5e-5 if wide else 3e-4
        length = min(self.length, max(32, 8 * round(task.tokens * 2 / 8)))  # as far as positions go
        return Recipe((rate,), round(epochs), _BATCH, length)


JobsOf = Callable[[Scale], Iterable[Job]]


def seconds(jobs: Iterable[Job], speed: Speed) -> float:
    """The time that jobs may take, one after the other."""
    return sum(job.cost(speed) for job in jobs)


def fit(
    budget: float,
    seeds: Sequence[int],
    speed: Speed,
    jobs_of: JobsOf,
    largest: Size = MAIN_SIZES[-1],
) -> Scale | None:
    """The scale whose jobs take as long as there is time.

    Args:
      budget: seconds.
      seeds: of fine-tuning; none: as many as suit the budget.
      speed: of this machine.
      jobs_of: all jobs at a scale.
      largest: the largest main size to think of.

    Returns:
      That of the largest model that sees enough text; None where none does.
    """
    for main in reversed([size for size in MAIN_SIZES if size.width <= largest.width]):
        for cap in (cap for cap in _CAPS if cap is None or cap >= _ENOUGH):
            scale = _stretched(_thought(budget, seeds, speed, main, cap), budget, jobs_of)
            if _is_worth_it(scale, budget, jobs_of) and sees_enough(scale):
                return scale
    return None


def smallest(budget: float, seeds: Sequence[int], speed: Speed, jobs_of: JobsOf) -> Scale:
    """The scale to try things on, where there is no time for models that learn; see `fit`."""
    thought = _thought(budget, seeds, speed, MAIN_SIZES[0], _CAPS[-1])
    scale = _stretched(thought, budget, jobs_of)
    return dataclasses.replace(scale, steps=max(_FEWEST_STEPS, scale.steps))


def _thought(
    budget: float, seeds: Sequence[int], speed: Speed, main: Size, cap: int | None
) -> Scale:
    """A scale without steps."""
    chosen = tuple(seeds) or ((1, 2, 3) if budget >= SEVERAL_SEEDS else (1,))
    models = (1, 2, 3) if budget >= _SEVERAL_MODELS else (1,)
    return Scale(main, 0, _PRETRAINING_BATCH, speed.length, chosen, cap, speed, models)


def _stretched(scale: Scale, budget: float, jobs_of: JobsOf) -> Scale:
    """With as many steps as there is time for."""
    jobs = list(jobs_of(scale))
    left = budget - seconds(jobs, scale.speed)
    return dataclasses.replace(scale, steps=int(left / _seconds_of_a_step(jobs, scale)))


def _is_worth_it(scale: Scale, budget: float, jobs_of: JobsOf) -> bool:
    """Whether enough of the time is for pre-training."""
    models = [job for job in jobs_of(scale) if isinstance(job, Pretraining)]
    trained = sum(scale.steps * job.step_cost(scale.speed) for job in models)
    return scale.steps >= _FEWEST_STEPS and trained >= _PRETRAINING_SHARE * budget


def sees_enough(scale: Scale) -> bool:
    """Whether the main model sees several tokens for each of its parameters."""
    config = scale.main.config(scale.speed.vocab_size)
    tokens = scale.steps * scale.batch_size * scale.length
    return tokens >= _TOKENS_A_PARAMETER * BertEncoder.unallocated(config).parameters


def _seconds_of_a_step(jobs: Iterable[Job], scale: Scale) -> float:
    """What one more step of pre-training costs, of all models together."""
    models = [job for job in jobs if isinstance(job, Pretraining)]
    return sum(job.step_cost(scale.speed) for job in models) or 1.0


def tuned(
    scale: Scale,
    task: TaskSource,
    init: ModelJob,
    *,
    rows: int | None = None,
    **options: object,
) -> FineTuning:
    """The job that fine-tunes for a task at a scale; options are fields of `FineTuning`."""
    frozen = bool(options.get("frozen"))
    limits = [limit for limit in (rows, scale.cap) if limit is not None and limit < task.rows[0]]
    return FineTuning(
        task=task,
        init=init,
        recipe=scale.recipe(task, frozen, rows),
        seeds=scale.seeds,
        train_examples=min(limits, default=None),
        **options,  # type: ignore[arg-type]  # fields of the dataclass
    )
