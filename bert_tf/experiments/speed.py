"""How fast this machine trains, measured before the plan is made."""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from bert_tf.experiments.size import Size
from bert_tf.models import encoders
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.head_config import HeadConfig
from bert_tf.models.heads import MaskedLMHead
from bert_tf.models.layers import BiLstm
from bert_tf.objectives.base import ExampleTraits
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.training import distribution, throughput
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.session import Session
from bert_tf.training.settings import TrainingSettings

_BATCH = 32
_PREDICTED = 0.16  # share of the tokens
_COMPILING = 2  # calls that are not timed
_GROUP_SECONDS = 1.0  # calls that are timed together take about as long
_LARGEST_GROUP = 20  # calls
_SECONDS = 5.0  # to measure for, at the least
_GROUPS = 3  # to measure, at the least


@dataclasses.dataclass(frozen=True)
class Speed:
    """What jobs cost on this machine.

    Attributes:
      flops: floating-point operations a second of training, by the width of the encoder, as they
        were measured; of other widths those of the nearest one.
      lstm_flops: the same of a BiLSTM as wide as the first of these encoders.
      vocab_size: tokens of the vocabulary.
      length: tokens of a sequence of pre-training.
      overhead: seconds that a job has besides.
      run_overhead: seconds that each run of fine-tuning has besides.
    """

    flops: tuple[tuple[int, float], ...]
    lstm_flops: float
    vocab_size: int
    length: int
    overhead: float = 5.0
    run_overhead: float = 1.0

    def token_seconds(self, size: Size) -> float:
        """Seconds of training for each token, of a size."""
        return _token_flops(size, self.vocab_size, self.length) / self._rate(size)

    def elmo_seconds(self, size: Size) -> float:
        """The same of an ELMo of a size, its softmax over words included."""
        config = size.elmo_config(self.vocab_size)
        softmax = 4 * config.projection_size * config.predicted_words
        flops = encoders.unallocated(config).flops(self.length) / self.length + softmax
        return 3 * flops / self._lstm_rate(size)

    def lstm_seconds(self, size: Size, head: HeadConfig) -> float:
        """The same of a head's BiLSTM alone."""
        width = size.width * len(head.indices(size.layers))
        bilstm = BiLstm(width, head.bilstm_width, head.bilstm_layers)
        return 3 * bilstm.flops(1) / self._lstm_rate(size)

    def _lstm_rate(self, size: Size) -> float:
        """What was measured of one width, as much faster with others as encoders are."""
        (_, rate), *_ = self.flops
        return self.lstm_flops * self._rate(size) / rate

    def _rate(self, size: Size) -> float:
        return min(self.flops, key=lambda item: abs(item[0] - size.width))[1]


@functools.cache
def _token_flops(size: Size, vocab_size: int, length: int) -> float:
    config = size.config(vocab_size)
    head = MaskedLMHead(config, name="masked_lm")
    encoder = BertEncoder.unallocated(config)
    predicted = round(_PREDICTED * length)
    return throughput.training_flops(encoder, head, length, predicted) / length


def measure(sizes: list[Size], vocab_size: int, length: int, precision: str) -> Speed:
    """Trains a few steps of each size.

    Args:
      sizes: of different widths.
      vocab_size: tokens of the vocabulary.
      length: tokens of a sequence.
      precision: float32 or mixed_bfloat16.
    """
    found = []
    begin = time.perf_counter()
    for size in sizes:
        seconds = _step_seconds(size, vocab_size, length, precision) / (_BATCH * length)
        found.append((size.width, _token_flops(size, vocab_size, length) / seconds))
        keras.utils.clear_session()
    # What is not measuring is compiling; a job compiles for training and for evaluation.
    around = (time.perf_counter() - begin) / len(sizes) - _SECONDS
    lstm_flops = _lstm_flops(sizes[0].width, length)
    return Speed(tuple(found), lstm_flops, vocab_size, length, overhead=max(2.0, 2 * around))


def _lstm_flops(width: int, length: int) -> float:
    """Floating-point operations a second of training a BiLSTM."""
    layer = BiLstm(width, width)
    layer.build()
    x, mask = tf.ones([_BATCH, length, width]), tf.ones([_BATCH, length], tf.int32)

    @tf.function(autograph=False)
    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, mask))
        return tape.gradient(loss, [variable.value for variable in layer.trainable_variables])

    def call() -> Callable[[], Any]:
        found = gradients()
        return lambda: found[0].numpy()

    return 3 * _BATCH * layer.flops(length) / _seconds_per_call(call)


def _step_seconds(size: Size, vocab_size: int, length: int, precision: str) -> float:
    """Seconds of a step of masked LM on _BATCH sequences of random tokens."""
    settings = TrainingSettings(precision=precision)
    strategy = distribution.make_strategy(settings.strategy)
    most = round(_PREDICTED * length)
    traits = ExampleTraits(frozenset(), (0, 1, 2), 3, vocab_size, 0.15, 0.8, 0.1, {length: most})
    config = size.config(vocab_size)
    session = Session(
        strategy,
        settings,
        WarmupLinearDecay(1e-4, 1, 1000),
        lambda: MaskedLM.for_examples(config, traits, dtype=precision),
    )
    step = session.make_step(session.model)
    ones = tf.ones([_BATCH, length], tf.int32)
    ids = tf.random.stateless_uniform([_BATCH, length], [0, 1], 4, vocab_size, tf.int32)
    batch = {"input_word_ids": ids, "input_mask": ones, "input_type_ids": 0 * ones}
    data = tf.data.Dataset.from_tensors(batch).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))

    def call() -> Callable[[], Any]:
        counts = step(batches, 0, 1, tf.constant(1))
        return lambda: tf.nest.map_structure(lambda value: value.numpy(), counts)

    return _seconds_per_call(call)


def _seconds_per_call(call: Callable[[], Callable[[], Any]]) -> float:
    """Measures a call that may go on in the background when it returns.

    Args:
      call: begins a call; what it returns waits for its end.

    Returns:
      The median of several groups of calls.
    """
    for _ in range(_COMPILING):
        call()()
    begin = time.perf_counter()
    call()()
    alone = time.perf_counter() - begin
    size = min(max(1, round(_GROUP_SECONDS / max(alone, 1e-6))), _LARGEST_GROUP)
    found: list[float] = []
    while len(found) < _GROUPS or sum(found) < _SECONDS:
        begin = time.perf_counter()
        for _ in range(size):
            wait = call()
        wait()
        found.append(time.perf_counter() - begin)
    return statistics.median(found) / size
