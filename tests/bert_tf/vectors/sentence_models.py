"""Folders of sentence-transformers, and data to train them on."""

import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from bert_tf import weights
from bert_tf.weights.formats import Format
from tests.bert_tf import labelled_data

DENSE = ("Transformer", "Pooling", "Dense")
PROMPTED = {
    "prompts": {"query": "query: ", "passage": "naïve: ", "none": None},
    "default_prompt_name": "passage",
}


def write_dense(folder, act="activation.Tanh", bias=True, width=12):
    rng = np.random.default_rng(5)
    arrays = {"linear.weight": rng.normal(size=(width, 32)), "linear.bias": rng.normal(size=width)}
    if not bias:
        del arrays["linear.bias"]
    folder.mkdir(exist_ok=True)
    values = {"in_features": 32, "out_features": width, "bias": bias}
    values |= {"activation_function": f"torch.nn.modules.{act}"}
    (folder / "config.json").write_text(json.dumps(values))
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    return arrays


def change(path, **values):
    path = pathlib.Path(path)
    found = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(found | values))


def write_pairs(folder):
    rows = [[text, text.upper()] for text in ("one", "two", "three", "four")]
    labelled_data.write_rows(folder / "train.tsv", rows, ["anchor", "positive"])
    labelled_data.write_rows(folder / "dev.tsv", rows, ["anchor", "positive"])
    return str(folder)


@pytest.fixture
def sentence_model(folders, tmp_path):
    """Writes a folder of sentence-transformers with other values in its files."""

    def written(
        pooling="mean_tokens",
        modules=("Transformer", "Pooling"),
        length=None,
        new=False,
        others=None,
    ):
        folder = tmp_path / f"{pooling}{len(modules)}{length}{len(str(others))}"
        weights.write(weights.read(folders["pretrained"]), str(folder), Format.HUGGINGFACE)
        paths = {"Transformer": "", "Pooling": "1_Pooling"}
        entries = [
            {
                "name": str(i),
                "path": paths.get(name, name),
                "type": f"sentence_transformers.models.{name}",
            }
            for i, name in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(entries))
        (folder / "1_Pooling").mkdir()
        modes = {f"pooling_mode_{name}": name == pooling for name in ("cls_token", pooling)}
        modes |= {"word_embedding_dimension": 32}
        if new:  # the files of version 6
            modes = {"embedding_dimension": 32, "pooling_mode": pooling}
            tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
            tokenizer |= {"model_max_length": length}
            (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        elif length:
            values = json.dumps({"max_seq_length": length})
            (folder / "sentence_bert_config.json").write_text(values)
        (folder / "1_Pooling/config.json").write_text(json.dumps(modes))
        if "Dense" in modules:
            write_dense(folder / "Dense")
        values = {"prompts": {"query": "query: "}, "default_prompt_name": None, **(others or {})}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(values))
        return str(folder)

    return written
