"""The generator of an ELECTRA as a model of its own."""

import dataclasses

from bert_tf.models.config import BertConfig
from bert_tf.weights.bundle import GENERATOR, MASKED_LM, POOLER, REPLACED_TOKEN, Bundle

_ENCODER, _HEAD = GENERATOR


def split(model: Bundle) -> tuple[Bundle, Bundle | None]:
    """The discriminator without its generator, and the generator as a masked LM.

    The generator has the embeddings of the discriminator; None if there is no generator.
    """
    weights = {k: v for k, v in model.weights.items() if not k.startswith(GENERATOR)}
    alone = dataclasses.replace(model, weights=weights)
    if len(weights) == len(model.weights):
        return alone, None
    assert isinstance(model.config, BertConfig) and model.config.generator
    shared = {
        k: v
        for k, v in weights.items()
        if not k.startswith((POOLER, REPLACED_TOKEN, "encoder/block_", "encoder/embeddings/proj"))
    }
    own = {
        k.replace(_ENCODER, "encoder/", 1).replace(_HEAD, MASKED_LM, 1): v
        for k, v in model.weights.items()
        if k.startswith(GENERATOR)
    }
    config = dataclasses.replace(model.config.generator)
    return alone, dataclasses.replace(model, config=config, weights=shared | own)
