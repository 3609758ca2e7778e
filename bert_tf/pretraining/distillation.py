"""The teacher of a distillation, and the student that follows from it."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import weights
from bert_tf.models import configs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.objectives import frequency_masking
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.distillation import Distillation
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.frequency_masking import FrequencyMasking
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.pretraining.first_weights import check_tokenizer
from bert_tf.pretraining.settings import DistillationSettings
from bert_tf.weights import Bundle
from bert_tf.weights.bundle import MASKED_LM, POOLER
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from pipelines.tokenizers.base import Tokenizer

_COUNTED = 50_000  # examples in which tokens are counted
_BATCH = 512


def read_teacher(settings: DistillationSettings, tokenizer: Tokenizer, examples: str) -> Bundle:
    """Reads the teacher.

    Raises:
      InputError: it is no masked LM, or has another tokenizer than the examples.
    """
    teacher = weights.read(settings.teacher)
    if not teacher.has(MASKED_LM) or teacher.config.causal:
        raise InputError(
            f"{settings.teacher}: predicts no masked tokens, so it cannot teach it; use a "
            "pre-trained model with its masked LM head."
        )
    stated = teacher.stated_tokenizer()
    check_tokenizer(*stated, tokenizer, settings.teacher, examples)
    return teacher


def student_config(settings: DistillationSettings, teacher: BertConfig) -> BertConfig:
    """The configuration of the student.

    A number of layers, or None for half of them, is the teacher with fewer layers; that of a BERT
    becomes a DistilBERT.
    """
    student = settings.model
    if student is not None and not student.isdecimal():
        if not student.endswith(".json"):
            found = configs.named(student, vocab_size=teacher.vocab_size)
        else:
            found = configs.load(student)
        if not isinstance(found, BertConfig):
            raise InputError(f"--student={student}: must be a Transformer, not an ELMo.")
        return found
    layers = int(student) if student else max(1, teacher.num_hidden_layers // 2)
    changes: dict[str, Any] = {"num_hidden_layers": layers}
    if teacher.model_type == "bert":
        values = FAMILIES["distilbert"].values
        changes |= {k: v for k, v in values.items() if k != "hidden_act"}
    return dataclasses.replace(teacher, **changes)


def layer_map(chosen: Sequence[int] | None, student: int, teacher: int) -> list[int]:
    """The layer of the teacher that each layer of the student starts from, numbers from 0.

    Without a choice they are spread evenly, first and last included: 0, 2, 4, 7, 9, 11 of 12 for
    6, as in DistilBERT.

    Raises:
      InputError: there are not as many as layers of the student, or one does not exist.
    """
    if chosen is None:
        return np.rint(np.linspace(0, teacher - 1, student)).astype(int).tolist()
    if len(chosen) != student or max(chosen) >= teacher:
        raise InputError(
            f"--teacher_layers={','.join(map(str, chosen))}: give {student} numbers, one for each "
            f"layer of the student, from 0 to {teacher - 1}."
        )
    return list(chosen)


def first_weights(
    chosen_layers: Sequence[int] | None, student: EncoderConfig, teacher: Bundle
) -> dict[str, np.ndarray]:
    """The teacher's weights that a student starts from: those of equal shapes, by `layer_map`."""
    theirs = teacher.config
    assert isinstance(theirs, BertConfig)
    shapes = weights.bundle.parameter_shapes(student)
    pairs = layer_map(chosen_layers, student.num_hidden_layers, theirs.num_hidden_layers)
    if theirs.shared_layers:
        pairs = [0] * len(pairs)

    def source(name: str) -> str:
        return re.sub(r"block_(\d+)", lambda match: f"block_{pairs[int(match[1])]}", name)

    found = {
        name: teacher.weights[source(name)]
        for name, shape in shapes.items()
        if (name.startswith(("encoder/", MASKED_LM)) and not name.startswith(POOLER))
        and (value := teacher.weights.get(source(name))) is not None
        and value.shape == shape
    }
    logging.info(
        "%d of %d weights of the student are the teacher's, of layers %s.",
        len(found),
        len(shapes),
        ", ".join(map(str, pairs)),
    )
    return found


def make_objective(
    config: BertConfig,
    teacher: Bundle,
    features: frozenset[str],
    masking: DynamicMasking,
    examples: example_reader.ExampleFiles,
    seed: int,
    dtype: str,
) -> PretrainingObjective:
    """The objective; examples without masks get masks that prefer rare tokens."""
    assert isinstance(teacher.config, BertConfig)  # as it is a masked LM
    taught = MaskedLM(teacher.config, dtype=dtype)
    missing = weights.assign(taught, teacher.weights, teacher.place)
    assert not [name for name in missing if not name.startswith(POOLER)]  # read complete
    if "masked_lm_positions" in features:
        logging.info("the examples have masks, so tokens are not masked by their frequency.")
        return Distillation(config, None, taught, dtype=dtype)
    batches = example_reader.training_batches(examples, _BATCH, seed).take(_COUNTED // _BATCH)
    arrays = ({k: v.numpy() for k, v in batch.items()} for batch in batches)
    counts = frequency_masking.count(arrays, config.vocab_size)
    values = {field.name: getattr(masking, field.name) for field in dataclasses.fields(masking)}
    weighted = FrequencyMasking(**values, rates=frequency_masking.rates(counts))
    return Distillation(config, weighted, taught, dtype=dtype)
