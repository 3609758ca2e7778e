"""Small labelled data that has something to learn, and fine-tuning with it, for tests."""

import json
import os
import random
import re

import numpy as np

from bert_tf import weights
from bert_tf.finetuning import sweep
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.models.config import BertConfig
from bert_tf.weights import Bundle, bundle
from bert_tf.weights.formats import Format
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.tiny import tiny_config

GOOD = ["good", "fine", "great", "nice"]
BAD = ["bad", "poor", "awful", "sad"]
OTHER = [
    "the",
    "film",
    "is",
    "a",
    "very",
    "story",
    "with",
    "music",
    "and",
    "light",
    "##s",
    "who",
    "?",
]
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER)
CONFIG = tiny_config(len(TOKENS), initializer_range=0.1)
BART = BertConfig.named(
    "bart-debug", vocab_size=len(TOKENS), hidden_size=32, intermediate_size=64,
    num_attention_heads=2, max_position_embeddings=128,
)  # fmt: skip


def write_init(folder, config=CONFIG):
    """A folder of a small model of random weights."""
    rng = np.random.default_rng(0)
    values = {
        name: np.ones(shape, "f4")
        if name.endswith("gamma")
        else (0.1 * rng.standard_normal(shape)).astype("f4")
        for name, shape in bundle.parameter_shapes(config).items()
    }
    weights.write(Bundle(config, values, WordPieceVocabulary(TOKENS)), folder, Format.BERT_TF)
    return folder


def sentence(rng, word, most=12):
    words = rng.choices(OTHER[:10], k=rng.randint(2, most))
    words.insert(rng.randint(0, len(words)), word)
    return " ".join(words)


def write_rows(path, rows, header):
    path.write_text("\n".join("\t".join(row) for row in [header, *rows]) + "\n")


def make_texts(folder, train=192, dev=64):
    """Sentences with a good or a bad word, some with a test file."""
    rng = random.Random(0)
    for split, count in (("train", train), ("dev", dev), ("test", 10)):
        rows = []
        for index in range(count):
            label = rng.choice(["pos", "neg"])
            rows.append(
                [
                    f"{split}{index}",
                    sentence(rng, rng.choice(GOOD if label == "pos" else BAD)),
                    label,
                ]
            )
        write_rows(folder / f"{split}.tsv", rows, ["id", "text", "label"])
    return str(folder)


def make_pairs(folder, regression=False):
    """Whether the second text is good or bad, whatever the first is."""
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 64)):
        rows = []
        for _ in range(count):
            first, second = rng.choice([GOOD, BAD]), rng.choice([GOOD, BAD])
            label = ("4.5" if second is GOOD else "0.5") if regression else str(int(second is GOOD))
            rows.append([*(sentence(rng, rng.choice(w), 5) for w in (first, second)), label])
        write_rows(folder / f"{split}.tsv", rows, ["sentence1", "sentence2", "label"])
    return str(folder)


def make_tags(folder):
    rng = random.Random(0)
    for split, count in (("train", 192), ("dev", 48), ("test", 20)):
        lines = []
        for _ in range(count):
            words = rng.choices([*GOOD, *BAD, *OTHER[:8], "lights"], k=rng.randint(2, 12))
            tags = ["B-POS" if w in GOOD else "B-NEG" if w in BAD else "O" for w in words]
            lines += [f"{word} {tag}" for word, tag in zip(words, tags, strict=True)] + [""]
        (folder / f"{split}.txt").write_text("\n".join(lines))
    return str(folder)


FIRST = "Ada Grace Alan Emmy Kurt Noam Rosa Ivan Mina Yuki Lars Ines".split()
LAST = "Lovelace Hopper Turing Noether Gödel Chomsky Parks Petrov Sato Berg Silva Okafor".split()
FIRMS = ["Acme", "Globex", "Initech", "Umbrella", "Hooli", "Stark Industries", "Wayne Enterprises"]
PLACES = [
    "London",
    "Paris",
    "Berlin",
    "New York",
    "San Francisco",
    "Osaka",
    "Rio de Janeiro",
    "Oslo",
]
NEWS = (
    "{PER} met {PER} in {LOC} on Monday.",
    "{ORG} opened an office in {LOC}, said {PER}.",
    "Yesterday {PER} left {ORG} after ten years.",
    "😀 {PER} is happy: {ORG} moves to {LOC}!",
    "The trains from {LOC} to {LOC} were late again.",
    "Nothing happened today, as everybody had expected.",
)


def make_annotations(path, count, seed=0):
    """A Label Studio export of news with people, firms and places; places count UTF-16 units."""
    rng = random.Random(seed)
    draw = {
        "PER": lambda: f"{rng.choice(FIRST)} {rng.choice(LAST)}",
        "ORG": lambda: rng.choice(FIRMS),
        "LOC": lambda: rng.choice(PLACES),
    }
    rows = []
    for number in range(count):
        text, result = "", []
        for part in re.split(r"\{(\w+)\}", rng.choice(NEWS)):
            if part not in draw:
                text += part
                continue
            name, start = draw[part](), len(text.encode("utf-16-le")) // 2
            text += name
            value = {"start": start, "end": start + len(name), "text": name, "labels": [part]}
            about = {"from_name": "label", "to_name": "text", "type": "labels"}
            result.append({**about, "value": value})
        work = [{"was_cancelled": False, "result": result}] if number % 50 else []
        rows.append({"id": number + 1, "data": {"text": text}, "annotations": work})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)
    return str(path)


def make_spans(folder, null=False):
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 48)):
        rows = []
        for index in range(count):
            has = not null or rng.random() < 0.5
            context = sentence(rng, "great" if has else "story", 30)
            answers = [{"text": "great", "answer_start": context.index("great")}] if has else []
            entry = {"id": f"{split}{index}", "question": "who is great?", "answers": answers}
            rows.append({"context": context, "qas": [entry | {"is_impossible": not has}]})
        content = {"version": "1", "data": [{"title": "t", "paragraphs": rows}]}
        (folder / f"{split}.json").write_text(json.dumps(content))
    return str(folder)


def make_choices(folder):
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 48)):
        lines = []
        for _ in range(count):
            number = rng.choice([2, 3, 4])
            label = rng.randrange(number)
            texts = [
                sentence(rng, rng.choice(GOOD if i == label else BAD), 4) for i in range(number)
            ]
            lines.append(json.dumps({"context": "who is good ?", "choices": texts, "label": label}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def make_answers(folder):
    """Sentences, and the good or bad word of each."""
    rng = random.Random(0)
    for split, count in (("train", 64), ("dev", 8)):
        words = [rng.choice(GOOD + BAD) for _ in range(count)]
        rows = [[sentence(rng, word, 5), word] for word in words]
        write_rows(folder / f"{split}.tsv", rows, ["source", "target"])
    return str(folder)


def settings_of(init, kind, data, **changes):
    values = {
        "epochs": 6.0, "batch_size": 16, "learning_rates": (2e-3,), "max_seq_length": 40,
        "precision": "float32", "dropout": 0.0,
    }  # fmt: skip
    request = TaskRequest(kind, kind, data)
    return FineTuningSettings((request,), init, **(values | changes))


def tune(tmp_path, init, kind, make, **changes):
    data = tmp_path / "data"
    data.mkdir()
    settings = settings_of(init, kind, make(data), **changes)
    output = f"{tmp_path}/out"
    return sweep.finetune(settings, output, f"{tmp_path}/cache", tensorboard=False), output


def files_of(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith(("predictions", "n")))


def command(init, data, output, *extra):
    return [
        "finetune", "--task=classification", f"--data={data}",
        f"--init={init}", f"--output={output}", f"--cache={data}/cache", "--epochs=8",
        "--batch_size=16", "--learning_rate=1e-3", "--max_seq_length=40", "--precision=float32", *extra,
    ]  # fmt: skip
