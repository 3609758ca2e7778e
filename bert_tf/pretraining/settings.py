"""Settings of pre-training."""

import dataclasses
from typing import Annotated, Self

from bert_tf.training.settings import MAX_STEPS, TrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Group, Name, Path, Range
from pipelines.common.settings import Settings
from pipelines.common.texts import counted

# Settings of embeddings that do not begin at random.
FIRST_EMBEDDINGS = ("sinusoidal_positions", "pmi_embeddings")


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase of training on one set of examples."""

    tfrecords: str  # folder of the examples
    steps: int
    batch_size: int  # of all devices and accumulation parts together


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(TrainingSettings):
    """Everything that decides the weights, except the examples.

    Flags:
      model: A size: tiny, mini, small, medium, base, large (or debug, for tests), with the prefix
        roberta-, mpnet-, modernbert-, nomic_bert-, distilbert-, albert-, electra-, bart-,
        openai-gpt-, gpt2- (up to xl), or elmo- (up to base); or the path of a bert_config.json. Not
        given: that of the model in --init, else base.
      learning_rates: Peak learning rate, which falls linearly to 0 until the last step. One for
        each phase, such as 6e-3,4e-3, makes each phase a cycle of its own, with its own
        --warmup_steps.
      decay_fraction: Fraction of the steps, at the end, in which the learning rate falls; before,
        it stays at its peak. Not given: it falls from the end of the warm-up; with --minutes, 0.3.
      warmup_steps: Steps in which the learning rate rises linearly from 0 to its peak; 0: none. One
        number, or one for each --learning_rate.
      minutes: Minutes of training instead of --steps, which follow from the speed; evaluations and
        the export are not included. Not given: --steps decide.
      beta_2: Decay rate of the moving average of squared gradients, Adam's beta 2; lower it for
        short runs.
      initializer_range: Standard deviation of the initial weights; small models need larger ones.
        Not given: that of the model's configuration (0.02).
      sinusoidal_positions: Initialize the position embeddings with sinusoids, so that the model
        need not first learn which positions are close; they are trained as usual.
      pmi_embeddings: Initialize the word embeddings with factors of the pointwise mutual
        information of neighbours, counted in the examples of the first phase; they are trained
        as usual.
      init: Weights to start from: a folder in checkpoints/ of a run, or any model that `bert-tf
        convert` reads. Not given: random weights.
      seed: Seed of the initial weights, the order of the examples and dropout.
    """

    phases: tuple[Phase, ...]
    model: Annotated[str | None, Group.MODEL] = None
    learning_rates: Annotated[tuple[float, ...], Range(above=0), Name("learning_rate")] = (1e-4,)
    decay_fraction: Annotated[float | None, Range(above=0, maximum=1)] = None
    warmup_steps: Annotated[tuple[int, ...], Range(minimum=0, below=MAX_STEPS)] = (10_000,)
    minutes: Annotated[float | None, Range(above=0)] = None
    beta_2: Annotated[float, Range(minimum=0, below=1)] = 0.999
    initializer_range: Annotated[float | None, Range(above=0), Group.MODEL] = None
    sinusoidal_positions: Annotated[bool, Group.MODEL] = False
    pmi_embeddings: Annotated[bool, Group.MODEL] = False
    init: Annotated[Path | None, Group.MODEL] = None
    seed: Annotated[int, Range(minimum=0, below=1 << 31)] = 12345

    def check(self) -> None:
        """Raises InputError where a value is invalid."""
        super().check()
        if self.total_steps >= MAX_STEPS:
            raise InputError(f"--steps={self.total_steps}: it must be below {MAX_STEPS:,}.")
        for name in FIRST_EMBEDDINGS:
            if getattr(self, name) and self.init:
                raise InputError(f"--{name} has no effect with --init.")
        if len(self.phases) > 1 and self.minutes is not None:
            raise InputError(
                f"--minutes is for one phase, and --tfrecords names {len(self.phases)}; give the "
                "--steps of each instead."
            )
        self._check_cycles()

    def _check_cycles(self) -> None:
        """Raises InputError unless there is one cycle, or one for each phase."""
        found = [len(self.learning_rates), len(self.warmup_steps)]
        if found not in ([1, 1], [len(self.phases)] * 2):
            raise InputError(
                f"--learning_rate has {counted(found[0], 'rate')} and --warmup_steps {found[1]}; "
                f"give one of each, or one for each of {counted(len(self.phases), 'phase')}."
            )
        if found == [1, 1]:
            return
        if self.decay_fraction is not None:
            raise InputError("--decay_fraction requires a single --learning_rate.")
        for phase, warmup in zip(self.phases, self.warmup_steps, strict=True):
            if warmup >= phase.steps:
                raise InputError(
                    f"--warmup_steps={warmup}: it must be below the {phase.steps} steps of its "
                    "phase."
                )

    def timed(self) -> Self:
        """The same without an end, if training is limited by minutes."""
        if self.minutes is None:
            return self
        (phase,) = self.phases
        endless = dataclasses.replace(phase, steps=MAX_STEPS)
        return dataclasses.replace(self, phases=(endless,))

    @property
    def total_steps(self) -> int:
        """Steps of all phases; MAX_STEPS with minutes."""
        return sum(phase.steps for phase in self.phases)


@dataclasses.dataclass(frozen=True)
class DistillationSettings(PretrainingSettings):
    """Everything that decides the weights of a student, except the examples.

    Flags:
      model: Number of layers of the student, which is like the teacher otherwise; or the name of a
        size, or the path of a bert_config.json, as for pretrain. Not given: half the layers.
      teacher_layers: Layer of the teacher, from 0, that each layer of the student starts from. Not
        given: evenly spread, such as 0,2,4,7,9,11 of 12.
    """

    teacher: Path = ""  # a masked LM in any format
    model: Annotated[str | None, Group.MODEL, Name("student")] = None
    teacher_layers: Annotated[tuple[int, ...] | None, Range(minimum=0), Group.MODEL] = None

    def check(self) -> None:
        """Raises InputError where a value is invalid."""
        super().check()
        for name in ("init", *FIRST_EMBEDDINGS):
            if getattr(self, name):
                raise InputError(f"--{name}: a student starts from its teacher.")


@dataclasses.dataclass(frozen=True)
class RunOptions(Settings):
    """Options of a run that do not influence the weights.

    Flags:
      save_every: Steps between checkpoints; evaluations make one, too. The newest three are kept.
      keep_at: Fractions of the steps, such as 0.1,0.5, after which the checkpoint is kept
        permanently. Not given: none is.
      log_every: Steps between points of the curves, in history.jsonl and TensorBoard.
      evaluate_every: Steps between evaluations on the held-out examples; 0: at the end only.
      saved_model: Write a SavedModel at the end; `bert-tf export` can later.
      data_service: Dispatcher of a tf.data service, grpc://host:port. Its workers read and parse
        the examples; the result is the same. Not given: each machine reads its own examples.
      data_service_workers: Workers of --data_service that read at the same time.
    """

    group = Group.SAVING

    save_every: Count = 1000
    keep_at: Annotated[tuple[float, ...] | None, Range(above=0, maximum=1)] = None
    log_every: Count = 20
    evaluate_every: Annotated[int, Range(minimum=0)] = 0
    saved_model: bool = True
    tensorboard: bool = True  # summaries in the run's folder

    data_service: Annotated[str | None, Group.MACHINE] = None
    data_service_workers: Annotated[Count, Group.MACHINE] = 1

    def pace(self) -> list[object]:
        """Values that all workers of a run must share, as JSON values."""
        return [self.save_every, self.keep_at, self.log_every, self.evaluate_every]

    def kept_steps(self, total_steps: int) -> frozenset[int]:
        """The steps whose checkpoints are kept permanently."""
        return frozenset(max(1, round(fraction * total_steps)) for fraction in self.keep_at or ())
