"""Small models of every shape of task, with random weights, for the tests of exports."""

import dataclasses

import numpy as np
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf import tasks, weights
from bert_tf.tasks.model import HeadShape
from bert_tf.weights import formats
from bert_tf.weights.bundle import Bundle, parameter_shapes
from pipelines.labelled.schema import (
    ChoiceExample,
    EmbeddingExample,
    MultiLabelExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.tiny import tiny_config

MAX_LENGTH = 32
TEXTS = [
    "The small model reads every layer of the token.",
    "A deep kernel",
    "short",
    "The random head masks every shard of the record. " * 8,
    "Zürich 中国 naïve, the  vector\tstores ☃ every step!",
    "",
    "unbelievably-hyphenated words: don't, e.g. the bias (whole).",
]


def make_tasks() -> dict[str, tasks.Task]:
    """A trained task of each shape, by name."""
    made = {
        "mood": tasks.make("classification", "mood"),
        "same": tasks.make("pair", "same"),
        "score": tasks.make("regression", "score"),
        "qa": tasks.make("squad2", "qa"),
        "qa1": tasks.make("squad1", "qa1"),
        "tags": tasks.make("tagging", "tags"),
        "pick": tasks.make("choice", "pick"),
        "topics": tasks.make("multilabel", "topics"),
        "vector": tasks.make("embedding", "vector"),
    }
    labels = {
        "mood": ("bad", "good", "so-so"),
        "same": ("no", "yes"),
        "tags": ("A", "B", "C", "O"),
        "topics": ("art", "sport", "work"),
    }
    changed = {}
    for name, task in made.items():
        changes = {"max_seq_length": MAX_LENGTH, "labels": labels.get(name, ())}
        if name == "score":
            changes["pair"] = True
        if name.startswith("qa"):
            changes |= {"stride": 9, "max_question": 8, "n_best": 5, "max_answer": 6}
        changed[name] = dataclasses.replace(task, **changes)
    return changed


PRETRAINING = ("masked_lm", "next_sentence")  # weights of pre-training alone


def random_bundle(
    config, vocabulary, found=(), seed=0, deviation=0.25, without=PRETRAINING
) -> Bundle:
    """Random weights of an encoder and tasks; names that begin with `without` are left out."""
    rng = np.random.default_rng(seed)
    heads = [HeadShape.of(task) for task in found if task.own_head]
    arrays = {
        name: rng.normal(float(name.endswith("gamma")), deviation, shape).astype(np.float32)
        for name, shape in parameter_shapes(config, heads).items()
        if not name.startswith(without)
    }
    described = tuple(task.describe() for task in found)
    return Bundle(config, arrays, vocabulary, vocabulary.resolve({}), described)


def make_bundle(vocab_path: str, found: list[tasks.Task], seed: int, pretrained=False) -> Bundle:
    """Random weights for some tasks on one encoder."""
    tokens = WordPieceVocabulary.load(vocab_path)
    config = tiny_config(
        len(tokens),
        num_attention_heads=4,
        max_position_embeddings=48,
        hidden_act="gelu" if seed % 2 else "gelu_erf",
    )
    return random_bundle(config, tokens, found, seed, without=() if pretrained else PRETRAINING)


# The folder of each task: two share an encoder.
GROUPS = {"joint": ("tags", "mood")} | {
    name: (name,) for name in ("same", "score", "qa", "qa1", "pick", "topics", "vector")
}


def folders_in(folder: str) -> dict[str, str]:
    """The folders that `write_folders` writes, by the names of tasks."""
    found = {name: f"{folder}/{group}" for group, names in GROUPS.items() for name in names}
    return found | {"pretrained": f"{folder}/pretrained"}


def write_folders(vocab_path: str, folder: str) -> None:
    """Writes one folder for tags and mood together, one for each other task, one pre-trained."""
    made = make_tasks()
    for seed, (group, names) in enumerate(GROUPS.items()):
        bundle = make_bundle(vocab_path, [made[name] for name in names], seed)
        weights.write(bundle, f"{folder}/{group}", formats.Format.BERT_TF)
    bundle = make_bundle(vocab_path, [], 99, pretrained=True)
    weights.write(bundle, f"{folder}/pretrained", formats.Format.BERT_TF)


def make_examples(name: str) -> list:
    """Examples of a task, among them long and strange ones."""
    several = [text or "x" for text in TEXTS]
    if name == "mood":
        return [TextExample(str(i), "here", text) for i, text in enumerate(several)]
    if name == "topics":
        return [MultiLabelExample(str(i), "here", text) for i, text in enumerate(several)]
    if name == "vector":
        return [EmbeddingExample(str(i), "here", (text,), None) for i, text in enumerate(several)]
    if name in ("same", "score"):
        pairs = zip(several, reversed(several), strict=True)
        return [TextExample(str(i), "here", a, b) for i, (a, b) in enumerate(pairs)]
    if name.startswith("qa"):
        contexts = [*several, "The layer trains every mask of the large bias. " * 30]
        return [
            SpanExample(str(i), "here", f"What {text[:40]}?", text)
            for i, text in enumerate(contexts)
        ]
    if name == "tags":
        return [
            WordsExample(str(i), "here", (*text.split(), "\u200b"))
            for i, text in enumerate(several)
        ]
    return [
        ChoiceExample(str(i), "here", text, ("one", "the layer", "every shard")[: 1 + i % 3])
        for i, text in enumerate(several)
    ]


def read_proto(path: str) -> saved_model_pb2.SavedModel:
    """The graph and the signatures as an export stores them."""
    proto = saved_model_pb2.SavedModel()
    with open(f"{path}/saved_model.pb", "rb") as file:
        proto.ParseFromString(file.read())
    return proto
