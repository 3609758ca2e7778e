"""The generator of an ELECTRA as a model of its own."""

import dataclasses

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import GENERATOR, MASKED_LM, POOLER, REPLACED_TOKEN, Bundle

_ENCODER, _HEAD = GENERATOR


def generator(model: Bundle) -> Bundle | None:
    """The generator as a masked LM, with the embeddings of the discriminator; None without one."""
    own = {k: v for k, v in model.weights.items() if k.startswith(GENERATOR)}
    if not own:
        return None
    assert isinstance(model.config, BertConfig) and model.config.generator
    others = (POOLER, REPLACED_TOKEN, "encoder/block_", "encoder/embeddings/proj", *GENERATOR)
    weights = {k: v for k, v in model.weights.items() if not k.startswith(others)}
    for name, value in own.items():
        weights[name.replace(_ENCODER, "encoder/", 1).replace(_HEAD, MASKED_LM, 1)] = value
    return dataclasses.replace(model, config=model.config.generator, weights=weights)
