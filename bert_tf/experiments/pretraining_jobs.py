"""Jobs that make models: vocabulary, examples, pre-training, and weights that nothing trained."""

import dataclasses
import time
from typing import ClassVar

import keras

from bert_tf import weights
from bert_tf.experiments.jobs import Job, ModelJob, Outcome, Place
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.pretraining import run
from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.training.settings import OptimizerName
from bert_tf.weights import Bundle
from pipelines.common import files
from pipelines.corpus import reader
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import learning, registry
from pipelines.tokenizers.settings import LearningSettings, VocabularyKind

# The recipe of short runs (docs/guides/recipes.md).
_WARMUP_SHARE = 0.05
_DECAY_FRACTION = 0.3
_BETA_2 = 0.98
_DEVIATION = 0.05  # of first weights
_HELD_OUT = 0.03  # share of the documents


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text to train on: files or globs, and their format; checksums are compared by the steps."""

    files: str
    format: str = "auto"


@dataclasses.dataclass(frozen=True)
class Vocabulary(Job):
    """Learns a vocabulary, unless the user has one."""

    kind: ClassVar[str] = "vocabulary"

    corpus: Corpus
    size: int
    own: str | None = None  # the user's: a file or a folder
    lower_case: bool | None = None
    tokenizer: VocabularyKind = VocabularyKind.WORDPIECE

    @property
    def label(self) -> str:
        """Its size."""
        return f"{self.tokenizer} {self.size} tokens" if self.own is None else "given"

    def cost(self, speed: Speed) -> float:
        """Counting words, mostly."""
        return 5.0

    def path(self, place: Place) -> str:
        """Where it is."""
        return (
            self.own or f"{place.folder(self)}/{registry.KINDS[self.tokenizer].vocabulary.files[0]}"
        )

    def work(self, place: Place) -> Outcome:
        """Learns it."""
        begin = time.perf_counter()
        if self.own is None:
            corpus = reader.open_corpus(self.corpus.files, self.corpus.format)
            chosen = {} if self.lower_case is None else {"lower_case": self.lower_case}
            settings = LearningSettings(kind=self.tokenizer, vocab_size=self.size)
            learning.learn(corpus, reader.ReadOptions(), settings, chosen, self.path(place))
        return {"seconds": time.perf_counter() - begin, "scores": {}}


@dataclasses.dataclass(frozen=True)
class Examples(Job):
    """Writes examples for pre-training."""

    kind: ClassVar[str] = "examples"

    corpus: Corpus
    vocabulary: Vocabulary
    objective: Objective
    length: int
    mask_share: float = 0.8
    random_share: float = 0.1
    copies: int = 5  # of each document, with other masks

    @property
    def label(self) -> str:
        """Objective, and shares of the masks where they are not the paper's."""
        shares = (self.mask_share, self.random_share)
        masks = "" if shares == (0.8, 0.1) else f", {shares[0]:.0%} mask, {shares[1]:.0%} random"
        return f"{self.objective}{masks}"

    def cost(self, speed: Speed) -> float:
        """Tokenizing and writing."""
        return 10.0

    def folder(self, place: Place) -> str:
        """Where they are."""
        return f"{place.folder(self)}/examples"

    def work(self, place: Place) -> Outcome:
        """Writes them."""
        begin = time.perf_counter()
        settings = ExampleSettings(
            objective=self.objective,
            max_seq_length=self.length,
            max_predictions_per_seq=max(1, round(0.16 * self.length)),
            dupe_factor=self.copies,
            held_out_fraction=_HELD_OUT,
            mask_share=self.mask_share,
            random_share=self.random_share,
        )
        lower = self.vocabulary.lower_case
        request = example_writer.ExampleRequest(
            input=self.corpus.files,
            vocab=self.vocabulary.path(place),
            output=self.folder(place),
            settings=settings,
            file_format=self.corpus.format,
            tokenizer=() if lower is None else (("lower_case", lower),),
        )
        example_writer.write(request)
        return {"seconds": time.perf_counter() - begin, "scores": {}}


@dataclasses.dataclass(frozen=True)
class Pretraining(ModelJob):
    """Pre-trains a model."""

    kind: ClassVar[str] = "pretrain"

    examples: Examples
    size: Size
    steps: int
    batch_size: int
    learning_rate: float
    keep_at: tuple[float, ...] = ()
    seed: int = 1

    @property
    def label(self) -> str:
        """Size and objective."""
        return f"{self.size} {self.examples.label}"

    def cost(self, speed: Speed) -> float:
        """Its steps, and what each run has besides."""
        return speed.overhead + self.steps * self.step_cost(speed)

    def step_cost(self, speed: Speed) -> float:
        """The seconds of a step."""
        tokens = self.batch_size * self.examples.length
        if self.examples.objective is Objective.BIDIRECTIONAL_LM:
            return tokens * speed.elmo_seconds(self.size)
        return tokens * speed.token_seconds(self.size)

    def _config(self, vocab_size: int) -> EncoderConfig:
        """The configuration: of an ELMo, where words are predicted from both sides apart."""
        elmo = self.examples.objective is Objective.BIDIRECTIONAL_LM
        return self.size.elmo_config(vocab_size) if elmo else self.size.config(vocab_size)

    def checkpoint(self, place: Place, share: float | None = None) -> str:
        """The model at the end, or after a share of the steps."""
        folder = f"{place.folder(self)}/model"
        if share is None or share == 1:
            return folder
        (step,) = RunOptions(keep_at=(share,)).kept_steps(self.steps)
        return f"{folder}/checkpoints/checkpoint-{step:08d}"

    def work(self, place: Place) -> Outcome:
        """Trains it; the scores are those of held-out examples."""
        examples = self.examples.folder(place)
        vocabulary = registry.find(examples)
        assert vocabulary is not None  # the examples are there
        config = f"{place.folder(self)}/bert_config.json"
        files.gfile.makedirs(place.folder(self))
        self._config(len(vocabulary)).save(config)
        settings = PretrainingSettings(
            phases=(Phase(examples, self.steps, self.batch_size),),
            model=config,
            learning_rate=self.learning_rate,
            warmup_steps=round(_WARMUP_SHARE * self.steps),
            decay_fraction=_DECAY_FRACTION,
            optimizer=OptimizerName.MUON,
            beta_2=_BETA_2,
            dropout=0.0,
            initializer_range=_DEVIATION,
            sinusoidal_positions=self.examples.objective is not Objective.BIDIRECTIONAL_LM,
            seed=self.seed,
            precision=place.precision,
        )
        options = RunOptions(
            tensorboard=False, saved_model=False, keep_at=self.keep_at or None, save_every=500
        )
        try:
            report = run.pretrain(settings, self.checkpoint(place), options)
        except TrainingDivergedError as error:
            return {"seconds": 0.0, "scores": {}, "diverged": {"": str(error)}}
        numbers = {k: v for k, v in report.items() if isinstance(v, int | float)}
        return {"seconds": report["seconds"], "scores": {"": numbers}}


@dataclasses.dataclass(frozen=True)
class Untrained(ModelJob):
    """A model of random weights, for what comes of the task alone."""

    kind: ClassVar[str] = "untrained"

    vocabulary: Vocabulary
    size: Size
    seed: int = 1

    @property
    def label(self) -> str:
        """Its size."""
        return str(self.size)

    def cost(self, speed: Speed) -> float:
        """Next to nothing."""
        return 1.0

    def checkpoint(self, place: Place, share: float | None = None) -> str:
        """The model."""
        return f"{place.folder(self)}/model"

    def work(self, place: Place) -> Outcome:
        """Draws the weights."""
        begin = time.perf_counter()
        lower = self.vocabulary.lower_case
        chosen = {} if lower is None else {"lower_case": lower}
        tokenizer = registry.load_tokenizer(self.vocabulary.path(place), chosen)
        config = self.size.config(len(tokenizer.vocabulary))
        keras.utils.set_random_seed(self.seed)
        arrays = BertEncoder(config, name="encoder").arrays()
        bundle = Bundle(config, arrays, tokenizer.vocabulary, tokenizer.settings)
        folder = self.checkpoint(place)
        if not files.gfile.exists(folder):
            weights.write(bundle, folder)
        return {"seconds": time.perf_counter() - begin, "scores": {}}
