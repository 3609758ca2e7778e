"""Loads what a test saved, with no more than one import of ours, and saves the outputs."""

import pathlib
import sys

import keras
import numpy as np

import bert_tf

folder = pathlib.Path(sys.argv[1])
assert bert_tf.BertEncoder  # the only import of ours: it makes the layers known to Keras
loaded = {path.stem: keras.saving.load_model(path) for path in sorted(folder.glob("*.keras"))}
assert "tests.bert_tf.models.user_models" not in sys.modules
inputs = dict(np.load(folder / "inputs.npz"))
for name, model in loaded.items():
    alone = len(model.inputs) == 1
    np.save(folder / f"{name}.npy", model(inputs["input_word_ids"] if alone else inputs))
