"""A small ELMo, and what it computes, written out in NumPy."""

import numpy as np

from bert_tf.models.elmo import ElmoEncoder
from bert_tf.models.elmo_config import ElmoConfig
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS, WordVocabulary

WORDS = ("The", "the", "model", "reads", "it", ".", "naïve", "一", "x" * 60)
VOCABULARY = WordVocabulary((*SPECIAL_TOKENS, *WORDS))
CONFIG = ElmoConfig(
    vocab_size=len(VOCABULARY) + 2,
    character_size=3,
    filters=((1, 4), (2, 5), (3, 3)),
    num_highway_layers=2,
    num_hidden_layers=3,
    cell_size=7,
    projection_size=4,
    cell_clip=0.6,
    projection_clip=0.4,
)
IDS = np.array([[2, 5, 7, 8, 9, 3], [2, 11, 13, 3, 0, 0], [2, 3, 0, 0, 0, 0]], np.int32)
MASK = (IDS > 0).astype(np.int32)
BATCH = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": np.zeros_like(IDS)}


def make_encoder(config=CONFIG, seed=0, **kwargs):
    """An encoder of random weights that knows the vocabulary."""
    encoder = ElmoEncoder(config, name="encoder", **kwargs)
    randomize(encoder, seed)
    encoder.set_vocabulary(VOCABULARY)
    return encoder


def randomize(model, seed=0):
    """Gives all trained variables random values."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.4, variable.shape))


def spelled(word):
    """The 50 characters of a word, from the description of the original."""
    marks = {"<S>": [256], "</S>": [257]}
    inner = marks.get(word, list(word.encode())[:48])
    row = [258, *inner, 259]
    return [0] * 50 if word == "<PAD>" else [1 + c for c in row + [260] * (50 - len(row))]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _dense(x, layer):
    return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def word_vectors(encoder):
    """Of all words of the vocabulary, float64 [words, projection_size]."""
    part = encoder.embeddings
    rows = np.concatenate([np.zeros((1, part.config.character_size)), part.table.numpy()])
    x = rows[[spelled(word) for word in VOCABULARY.tokens]]
    found = []
    for convolution in part.convolutions:
        kernel = convolution.kernel.numpy().astype(np.float64)
        width = len(kernel)
        windows = [x[:, at : at + width] for at in range(50 - width + 1)]
        products = [np.einsum("nwc,wcf->nf", window, kernel) for window in windows]
        found.append(np.max(products, 0) + convolution.bias.numpy())
    x = np.maximum(np.concatenate(found, -1), 0)
    for highway in part.highways:
        gate = _sigmoid(_dense(x, highway.gate))
        x = gate * np.maximum(_dense(x, highway.transform), 0) + (1 - gate) * x
    return _dense(x, part.projection)


def _lstm(x, layer):
    """One direction of one sequence [length, projection_size], read in the order given."""
    config = CONFIG
    kernel, bias = layer.kernel.numpy().astype(np.float64), layer.bias.numpy()
    output, cell = np.zeros(config.projection_size), np.zeros(config.cell_size)
    outputs = []
    for inputs in x:
        i, j, f, o = np.split(np.concatenate([inputs, output]) @ kernel + bias, 4)
        cell = _sigmoid(f + 1) * cell + _sigmoid(i) * np.tanh(j)
        cell = np.clip(cell, -config.cell_clip, config.cell_clip)
        output = (_sigmoid(o) * np.tanh(cell)) @ layer.projection_kernel.numpy()
        output = np.clip(output, -config.projection_clip, config.projection_clip)
        outputs.append(output)
    return np.array(outputs)


def layers_of(encoder, ids):
    """All layers of one sequence without padding, the words' first: a list of [length, width]."""
    words = word_vectors(encoder)[ids]
    forward, backward = words, words[::-1]
    found = [np.concatenate([words, words], -1)]
    for index, block in enumerate(encoder.blocks):
        rest = (forward, backward) if index else (0.0, 0.0)
        forward = _lstm(forward, block.forward) + rest[0]
        backward = _lstm(backward, block.backward) + rest[1]
        found.append(np.concatenate([forward, backward[::-1]], -1))
    return found
