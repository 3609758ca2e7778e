"""The first weights of a pre-training run that goes on from another model."""

import dataclasses

from absl import logging

from bert_tf import weights
from bert_tf.models.base_config import EncoderConfig
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.training.checkpoints import Checkpoints, is_checkpoint
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Tokenizer

# Keys of a configuration in which the first weights and the run may differ; the last one follows
# from the examples.
_FREE = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"),
    *("sampled_softmax", "max_sequence_length", "causal"),
)


def initialize(
    model: PretrainingObjective,
    checkpoints: Checkpoints,
    tokenizer: Tokenizer,
    examples: str,
    path: str,
) -> None:
    """Takes first weights from a checkpoint folder, or from a model in any format.

    Args:
      model: to give weights to.
      checkpoints: of the run.
      tokenizer: that the examples were made with.
      examples: their folder.
      path: of the checkpoint or the model.

    Raises:
      InputError: they are damaged, of another shape, or of another vocabulary.
    """
    if is_checkpoint(path):
        checkpoints.restore_weights(path)
        return
    bundle = weights.read(path)
    if bundle.vocabulary not in (None, tokenizer.vocabulary):
        raise InputError(
            f"{path}: has another vocabulary than the examples in {examples}; write them with "
            "that of the model."
        )
    _check_same_model(model.config, bundle.config, path)
    missing = weights.assign(model, bundle.weights, path)
    if missing:
        logging.warning("%s: lacks %s, which begin anew.", path, ", ".join(missing))


def _check_same_model(ours: EncoderConfig, theirs: EncoderConfig, path: str) -> None:
    """Refuses a configuration that computes something else; dropout may differ."""
    names = ["model_type"]
    if type(theirs) is type(ours):
        names += [field.name for field in dataclasses.fields(theirs)]  # type: ignore[arg-type]
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if name not in _FREE and mine != other:
            raise InputError(
                f"{path}: {name} is {other}, that of the run {mine}; use --model with "
                "the bert_config.json of the model (bert-tf convert writes one)."
            )
