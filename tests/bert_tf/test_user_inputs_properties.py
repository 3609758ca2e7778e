"""Files and flags of users, random or mutated: each is read, or refused in one clear line.

Values that are read must be consistent: ids are below the size of the vocabulary, numbers are
finite, and an answer stands at its place in the context.
"""

import functools
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf import __main__
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.models import configs
from bert_tf.weights.bundle import parameter_shapes
from bert_tf.weights.huggingface import config as huggingface_config
from pipelines.common import arguments, command_line, json_files
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import registry
from tests import strategies
from tests.bert_tf import labelled_data
from tests.tiny import tiny_config

_ROOT = Path(__file__).parents[2]
_MAX_WEIGHTS = 1 << 24  # of a model for which all shapes are computed


def _read_or_refused(read, *names):
    """The result of `read`; None if it raises an InputError of one line that has one of `names`."""
    try:
        return read()
    except InputError as error:
        text = str(error)
        assert len(text.splitlines()) == 1 and len(text) >= 10, text
        assert not names or any(name in text for name in names), text
        return None


def _check_ids(tokenizer, texts):
    ids = tokenizer.tokenize(texts).flat_values.numpy() if texts else np.empty(0, int)
    assert not ids.size or 0 <= ids.min() <= ids.max() < len(tokenizer.vocabulary)


_SENTENCES = b"The small model reads every layer. It masks.\nA deep kernel.\n\nThe next document.\n"
_JSON_LINES = b'{"text": "A film. A story."}\n' * 3


@given(content=strategies.file_contents([_SENTENCES, _JSON_LINES]))
def test_corpora(tmp_path_factory, vocab_path, content):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_bytes(content)
    tokenizer = registry.load_tokenizer(vocab_path)

    def read():
        corpus = reader.open_corpus(str(path))
        for part in reader.plan_ranges(corpus, 1 << 16):
            for section in reader.read_sections(part, reader.ReadOptions()):
                _check_ids(tokenizer, list(section.sentences))

    _read_or_refused(read)


@given(data=st.data())
def test_vocabularies(tmp_path_factory, vocab_path, data):
    real = Path(vocab_path).read_bytes()
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_bytes(data.draw(strategies.file_contents([real])))
    texts = ["the small layer", "中 é\u0301 \U0001f600", ""]
    _read_or_refused(lambda: _check_ids(registry.load_tokenizer(str(path)), texts))


_CONFIG = tiny_config(100)


@given(
    content=strategies.file_contents([json.dumps(_CONFIG.to_dict()).encode()])
    | strategies.mutated_json([_CONFIG.to_dict()])
)
def test_configurations(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    path.write_bytes(content)
    config = _read_or_refused(lambda: configs.load(str(path)))
    if config is None:
        return
    sizes = [float(v) for v in config.to_dict().values() if type(v) is int and v > 0]
    if np.prod(sizes) < _MAX_WEIGHTS:
        assert all(size > 0 for shape in parameter_shapes(config).values() for size in shape)


_FOREIGN_CONFIG = {
    "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 100,
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "hidden_act": "gelu_new", "layer_norm_eps": 1e-12, "pad_token_id": 0,
    "id2label": {"0": "bad", "1": "good"}, "is_decoder": False, "position_embedding_type": "absolute",
}  # fmt: skip


@given(
    content=strategies.file_contents([json.dumps(_FOREIGN_CONFIG).encode()])
    | strategies.mutated_json([_FOREIGN_CONFIG])
)
def test_configurations_of_hugging_face(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_bytes(content)
    _read_or_refused(
        lambda: huggingface_config.read_config(json_files.read(str(path), dict), str(path))
    )


_ROWS = b"id\ttext\tlabel\n0\ta good film\tpos\n1\tthe bad story\tneg\n2\ta nice light\tpos\n"
_LABELLED_LINES = b"""{"text": "a good film", "label": "pos"}
{"text": "the bad story", "label": "neg"}
"""
_NUMBERS = b"sentence1\tsentence2\tlabel\na good film\ta nice story\t4.5\nbad\tgood\t0.5\n"
# Task, suffix of the file name, and the file or a function that writes one.
_LABELLED = {
    "tsv": ("classification", "tsv", _ROWS),
    "csv": ("classification", "csv", _ROWS.replace(b"\t", b",")),
    "json_lines": ("classification", "jsonl", _LABELLED_LINES),
    "numbers": ("regression", "tsv", _NUMBERS),
    "squad": ("squad2", "json", functools.partial(labelled_data.make_spans, null=True)),
    "conll": ("ner", "txt", labelled_data.make_tags),
    "choices": ("choice", "jsonl", labelled_data.make_choices),
}


def _real(folder, suffix, make):
    """A valid labelled file of few examples."""
    if isinstance(make, bytes):
        return make
    make(folder)
    content = (folder / f"dev.{suffix}").read_text()
    if suffix != "json":
        return "\n".join(content.splitlines()[:30]).encode() + b"\n"
    value = json.loads(content)
    value["data"][0]["paragraphs"] = value["data"][0]["paragraphs"][:8]
    return json.dumps(value).encode()


@pytest.mark.more_cases
@pytest.mark.parametrize("kind", _LABELLED)
@given(data=st.data())
def test_labelled_files(tmp_path_factory, init, kind, data):
    task, suffix, make = _LABELLED[kind]
    folder = tmp_path_factory.mktemp(kind)
    real = _real(folder, suffix, make)
    contents = strategies.file_contents([real])
    if suffix == "json":
        contents |= strategies.mutated_json([json.loads(real)])
    train, dev = folder / f"train.{suffix}", folder / f"dev.{suffix}"
    train.write_bytes(data.draw(contents))
    dev.write_bytes(real)
    request = TaskRequest(task, task, files=(("train", str(train)), ("dev", str(dev))))
    settings = FineTuningSettings((request,), init, max_seq_length=32)
    tokenizer = registry.load_tokenizer(init)
    loaded = _read_or_refused(
        lambda: task_data.load(request, settings, tokenizer), *(train.name, dev.name, task)
    )
    if loaded is not None:
        _check_data(loaded, len(tokenizer.vocabulary))


def _check_data(loaded, tokens):
    for split in (loaded.train, *loaded.dev):
        columns = split.features.columns
        assert all(np.isfinite(column.values).all() for column in columns.values())
        assert (columns["input_word_ids"].values < tokens).all()
        for example in split.examples:
            answers = isinstance(example, SpanExample) and example.answers
            for answer in answers or ():
                assert example.context[answer.start :].startswith(answer.text)


@functools.cache
def _flags_of(command):
    module, _ = __main__.COMMANDS[command]
    return command_line.flags_of(module)


def _command_lines():
    """Commands with their flags, as the docstrings of the commands show them."""
    found = []
    for name, (module, _) in __main__.COMMANDS.items():
        text = Path(_ROOT, *module.split(".")).with_suffix(".py").read_text("utf-8")
        for line in re.findall(rf"bert-tf {name} ([^`\n]*)", text.replace("\\\n", " ")):
            if line.count("'") % 2 == line.count('"') % 2 == 0:
                found.append((name, shlex.split(line)))
    return found


_VALUES = st.text(max_size=8) | st.sampled_from(
    ("nan", "inf", "-1", "0", "1e999", "9" * 40, "²", "'", '"', ",", "=", " ", "a=b", "\0", "\n")
)


@st.composite
def _mutated_command_lines(draw):
    """A command line with up to three words changed, removed or added."""
    name, words = draw(st.sampled_from(_command_lines()))
    words = list(words)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(words)))
        change = draw(st.sampled_from(("insert", "value", "remove", "flag")))
        if change == "insert" or place == len(words):
            words.insert(place, draw(st.text(max_size=12)))
        elif change == "value":
            words[place] = f"{words[place].partition('=')[0]}={draw(_VALUES)}"
        elif change == "remove":
            del words[place]
        else:
            words[place] = f"--{draw(st.sampled_from(sorted(_flags_of(name))))}={draw(_VALUES)}"
    return name, words


@given(_mutated_command_lines())
def test_command_lines(line):
    name, words = line
    known = _flags_of(name)
    for flag in known.values():
        flag.unparse()
    _read_or_refused(lambda: arguments.parse(words, known))
