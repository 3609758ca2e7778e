"""Jobs of the experiments: ordinary runs with the settings of the plan, each in its own folder.

The functions behind the user's commands do the work, and resume it where it was stopped.
"""

import abc
import dataclasses
import re
import time
from collections.abc import Iterable
from typing import Any, ClassVar, NotRequired, TypedDict

import keras

from bert_tf import weights
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask, ModelSize
from bert_tf.finetuning import sweep
from bert_tf.finetuning.settings import FineTuningSettings, Selection
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.head_config import HeadConfig
from bert_tf.pretraining import first_weights, run
from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.training.settings import OptimizerName
from bert_tf.weights import Bundle
from pipelines.common import files, json_files
from pipelines.corpus import reader
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import learning, registry
from pipelines.tokenizers.settings import LearningSettings, VocabularyKind

SCORE = "score"  # the metric of fine-tuning by which models are compared
MASKS = (0.8, 0.1)  # fractions of masked tokens: replaced by the mask, by a random token
KEPT = (0.1, 0.2, 0.5)  # fractions of the steps; the study of steps uses their checkpoints
_OUTCOME = "outcome.json"
_WORDS = 60_000  # of an ELMo's vocabulary; other words are unknown to it
_HELD_OUT = 0.03  # fraction of the documents
_COPIES = 5  # of each document, with different masks
_MASKED = 0.16  # fraction of a sequence that has room for masked tokens
# The recipe of short runs (docs/guides/recipes.md).
_WARMUP = 0.05  # fraction of the steps
_RECIPE: dict[str, Any] = {
    "optimizer": OptimizerName.MUON,
    "decay_fraction": 0.3,
    "beta_2": 0.98,
    "dropout": 0.0,
    "initializer_range": 0.05,
}
_TUNING_DROPOUT = 0.1  # as in the paper, although pre-training has none


class JobOutcome(TypedDict):
    """The result of a job.

    Attributes:
      seconds: the time it took.
      scores: metrics by seed; under "" for jobs without seeds.
      diverged: error messages of runs that diverged, by seed; a divergence is a result.
    """

    seconds: NotRequired[float]
    scores: dict[str, dict[str, float]]
    diverged: NotRequired[dict[str, str]]


@dataclasses.dataclass(frozen=True)
class Job(abc.ABC):
    """A run; in one plan, its kind and label identify it."""

    kind: ClassVar[str]

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """A short description, unique among the jobs of its kind."""

    @property
    def needs(self) -> tuple["Job", ...]:
        """The jobs that must be done before."""
        return ()

    @abc.abstractmethod
    def work(self, plan: ExperimentPlan) -> JobOutcome:
        """Does the work, or resumes it.

        Raises:
          InputError: it cannot be done.
          TrainingDivergedError: training diverged.
        """

    @property
    def name(self) -> str:
        """Kind and label."""
        return f"{self.kind} {self.label}"

    def folder(self, plan: ExperimentPlan) -> str:
        """The folder of the job."""
        words = re.sub(r"[^\w.]+", "-", self.name).strip("-")
        return f"{plan.folder}/runs/{words}"

    def outcome(self, plan: ExperimentPlan) -> JobOutcome | None:
        """The outcome; None if the job is not done."""
        path = f"{self.folder(plan)}/{_OUTCOME}"
        if not files.gfile.exists(path):
            return None
        return json_files.read(path, JobOutcome, finite=False)


def perform(job: Job, plan: ExperimentPlan) -> JobOutcome:
    """Does a job and writes its outcome.

    Raises:
      InputError: it cannot be done.
    """
    keras.utils.clear_session()  # of the previous job in this process
    begin = time.perf_counter()
    try:
        outcome = job.work(plan)
    except TrainingDivergedError as error:
        seeds = map(str, plan.seeds if isinstance(job, FineTuningJob) else [""])
        outcome = {"scores": {}, "diverged": dict.fromkeys(seeds, str(error))}
    outcome.setdefault("seconds", time.perf_counter() - begin)
    json_files.write(f"{job.folder(plan)}/{_OUTCOME}", outcome)
    return outcome


def with_needs(jobs: Iterable[Job]) -> list[Job]:
    """Jobs and everything they need, each once, in an order in which they can be done."""
    found: dict[str, Job] = {}
    for job in jobs:
        for each in (*with_needs(job.needs), job):
            found.setdefault(each.name, each)
    return list(found.values())


@dataclasses.dataclass(frozen=True)
class VocabularyJob(Job):
    """Learns a vocabulary: of words for an ELMo, else of word pieces unless the user has one."""

    kind: ClassVar[str] = "vocabulary"

    words: bool = False

    @property
    def tokenizer(self) -> VocabularyKind:
        """The kind of vocabulary."""
        return VocabularyKind.WORD if self.words else VocabularyKind.WORDPIECE

    @property
    def label(self) -> str:
        return str(self.tokenizer)

    def path(self, plan: ExperimentPlan) -> str:
        """The path of the vocabulary."""
        file = registry.KINDS[self.tokenizer].vocabulary.files[0]
        return (not self.words and plan.settings.vocab) or f"{self.folder(plan)}/{file}"

    def work(self, plan: ExperimentPlan) -> JobOutcome:
        settings = plan.settings
        if self.words or settings.vocab is None:
            size = _WORDS if self.words else settings.vocab_size
            text = plan.word_corpus if self.words else plan.corpus
            learning.learn(
                reader.open_corpus(text, plan.corpus_format),
                reader.ReadOptions(),
                LearningSettings(kind=self.tokenizer, vocab_size=size),
                {},
                self.path(plan),
            )
        return {"scores": {}}


@dataclasses.dataclass(frozen=True)
class ExamplesJob(Job):
    """Writes examples for pre-training."""

    kind: ClassVar[str] = "examples"

    objective: Objective
    masks: tuple[float, float] = MASKS

    @property
    def label(self) -> str:
        mask, random = self.masks
        other = "" if self.masks == MASKS else f", {mask:.0%} mask, {random:.0%} random"
        return f"{self.objective}{other}"

    @property
    def vocabulary(self) -> VocabularyJob:
        """The job of its vocabulary."""
        return VocabularyJob(words=self.objective is Objective.BIDIRECTIONAL_LM)

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.vocabulary,)

    def path(self, plan: ExperimentPlan) -> str:
        """The folder of the examples."""
        return f"{self.folder(plan)}/examples"

    def work(self, plan: ExperimentPlan) -> JobOutcome:
        settings = ExampleSettings(
            objective=self.objective,
            max_seq_length=plan.length,
            max_predictions_per_seq=max(1, round(_MASKED * plan.length)),
            dupe_factor=_COPIES,
            held_out_fraction=_HELD_OUT,
            mask_fraction=self.masks[0],
            random_fraction=self.masks[1],
        )
        request = example_writer.ExampleRequest(
            input=plan.corpus,
            vocab=self.vocabulary.path(plan),
            output=self.path(plan),
            settings=settings,
            file_format=plan.corpus_format,
        )
        example_writer.write(request)
        return {"scores": {}}


@dataclasses.dataclass(frozen=True)
class ModelJob(Job):
    """A job that leaves a model."""

    def model(self, plan: ExperimentPlan) -> str:
        """The path of the model."""
        return f"{self.folder(plan)}/model"


@dataclasses.dataclass(frozen=True)
class PretrainingJob(ModelJob):
    """Pre-trains a model; its scores are those of held-out examples."""

    kind: ClassVar[str] = "pretrain"

    size: ModelSize
    objective: Objective
    masks: tuple[float, float] = MASKS
    seed: int = 1

    @property
    def examples(self) -> ExamplesJob:
        """The job of its examples."""
        return ExamplesJob(self.objective, self.masks)

    @property
    def label(self) -> str:
        seed = "" if self.seed == 1 else f", seed {self.seed}"
        return f"{self.size} {self.examples.label}{seed}"

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.examples,)

    @property
    def is_elmo(self) -> bool:
        """Whether the model is an ELMo rather than a BERT."""
        return self.objective is Objective.BIDIRECTIONAL_LM

    def work(self, plan: ExperimentPlan) -> JobOutcome:
        # The study of steps needs checkpoints of the main model and of the left-to-right one.
        main = PretrainingJob(plan.size, Objective.MLM_NSP)
        kept = self in (main, dataclasses.replace(main, objective=Objective.LEFT_TO_RIGHT))
        report = self.train(plan, self.model(plan), RunOptions(keep_at=KEPT if kept else None))
        numbers = {k: v for k, v in report.items() if isinstance(v, int | float)}
        return {"seconds": report["seconds"], "scores": {"": numbers}}

    def train(self, plan: ExperimentPlan, output: str, options: RunOptions) -> dict[str, Any]:
        """Trains for the steps of the plan in a folder and returns the report of the run."""
        examples = self.examples.path(plan)
        vocabulary = registry.find(examples)
        assert vocabulary is not None  # the examples are complete
        make_config = {
            Objective.LEFT_TO_RIGHT: self.size.gpt_config,
            Objective.BIDIRECTIONAL_LM: self.size.elmo_config,
        }.get(self.objective, self.size.config)
        config = f"{self.folder(plan)}/bert_config.json"
        files.gfile.makedirs(self.folder(plan))
        make_config(len(vocabulary)).save(config)
        settings = PretrainingSettings(
            phases=(Phase(examples, plan.steps, plan.batch_size),),
            model=config,
            learning_rates=(self.size.learning_rate,),
            warmup_steps=(round(_WARMUP * plan.steps),),
            sinusoidal_positions=not self.is_elmo,
            seed=self.seed,
            precision=plan.precision,
            **_RECIPE,
        )
        options = dataclasses.replace(options, save_every=500, saved_model=False, tensorboard=False)
        return run.pretrain(settings, output, options)


@dataclasses.dataclass(frozen=True)
class UntrainedJob(ModelJob):
    """Writes the first weights of pre-training, which show what fine-tuning alone achieves."""

    kind: ClassVar[str] = "untrained"

    size: ModelSize
    seed: int = 1

    @property
    def label(self) -> str:
        return str(self.size) if self.seed == 1 else f"{self.size}, seed {self.seed}"

    @property
    def needs(self) -> tuple[Job, ...]:
        return (VocabularyJob(),)

    def work(self, plan: ExperimentPlan) -> JobOutcome:
        path = VocabularyJob().path(plan)
        tokenizer = registry.load_tokenizer(path)
        config = self.size.config(len(tokenizer.vocabulary))
        config = config.with_initializer_range(_RECIPE["initializer_range"])
        keras.utils.set_random_seed(self.seed)
        encoder = BertEncoder(config, name="encoder")
        positions = encoder.position_embeddings
        rows, width = positions.shape
        positions.assign(first_weights.sinusoids(rows, width, config.initializer_range))
        bundle = Bundle(config, encoder.arrays(), tokenizer.vocabulary, tokenizer.settings)
        if not files.gfile.exists(self.model(plan)):
            weights.write(bundle, self.model(plan))
        return {"scores": {}}


@dataclasses.dataclass(frozen=True)
class FineTuningJob(ModelJob):
    """Fine-tunes a model, once for each seed; its scores are those on dev."""

    kind: ClassVar[str] = "finetune"

    task: ExperimentTask
    init: ModelJob
    examples: int  # for training
    fraction: float | None = None  # of the pre-training steps after which the model is taken
    head: HeadConfig = HeadConfig()
    frozen: bool = False

    @property
    def width(self) -> int:
        """The width of the model."""
        if isinstance(self.init, FineTuningJob):
            return self.init.width
        assert isinstance(self.init, PretrainingJob | UntrainedJob)
        return self.init.size.width

    @property
    def label(self) -> str:
        parts = [self.task.name, "from", self.init.name]
        if self.fraction is not None:
            parts.append(f"at {self.fraction:.0%}")
        if self.frozen:
            parts.append("frozen")
        if not self.head.is_plain:
            lstm = f" bilstm {self.head.bilstm_layers}" if self.head.bilstm_layers else ""
            parts.append(f"{self.head.layers}{lstm}")
        if self.examples < self.task.train_examples:
            parts.append(f"{self.examples} examples")
        return " ".join(parts)

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.init,)

    def work(self, plan: ExperimentPlan) -> JobOutcome:
        init = self.init.model(plan)
        if self.fraction is not None:
            (step,) = RunOptions(keep_at=(self.fraction,)).kept_steps(plan.steps)
            init = f"{init}/checkpoints/checkpoint-{step:08d}"
        settings = FineTuningSettings(
            tasks=(self.task.request,),
            init=init,
            seeds=plan.seeds,
            head_layers=self.head.layers,
            bilstm_layers=self.head.bilstm_layers,
            bilstm_width=self.head.bilstm_width,
            freeze="all" if self.frozen else None,
            train_examples=self.examples if self.examples < self.task.train_examples else None,
            precision=plan.precision,
            dropout=_TUNING_DROPOUT,
            # What is scored on dev must not be selected by it.
            selection=Selection.LAST,
            evaluations=0,
            **plan.recipe(self.task, self.examples, self.width, self.frozen),
        )
        cache = f"{plan.folder}/cache"
        report = sweep.finetune(settings, self.model(plan), cache, tensorboard=False)
        runs = {str(each["seed"]): each for each in report["grid"]}
        return {
            "seconds": report["seconds"],
            "scores": {
                seed: {SCORE: each["score"], **each["metrics"]}
                for seed, each in runs.items()
                if not each["diverged"]
            },
            "diverged": {k: each["diverged"] for k, each in runs.items() if each["diverged"]},
        }
