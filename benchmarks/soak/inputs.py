"""Files and flags of users that are not as they should be: right, or one clear line.

A case searches with one kind of file. It is read as its command reads it, to tokens or features;
what is taken must hold together: ids within the vocabulary, numbers that are numbers, answers that
stand where they are said to.
"""

import contextlib
import dataclasses
import functools
import json
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags
from hypothesis import strategies as st

from benchmarks.soak import mutations, search, small
from benchmarks.soak.outcomes import Case, Outcome, Place
from benchmarks.soak.search import RIGHT, WrongError
from benchmarks.soak.small import Small
from bert_tf import __main__
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.models import configs
from bert_tf.weights.bundle import parameter_shapes
from bert_tf.weights.formats import Format
from bert_tf.weights.huggingface import config as huggingface_config
from pipelines.common import arguments, command_line, json_files
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer
from tests.bert_tf import labelled_data

ROOM = "inputs"
_ROOT = Path(__file__).parents[2]
_BLOCK = 100  # inputs of a case
_RANGE = 1 << 16  # bytes of a corpus that are read together
_LARGEST = 1 << 24  # weights of a model whose shapes are computed
_TABLE = [b"id\ttext\tlabel\n0\ta good film\tpos\n1\tthe bad story\tneg\n2\ta nice light\tpos\n"]


@dataclasses.dataclass(frozen=True)
class _Files:
    """A kind of labelled file.

    Attributes:
      task: its kind.
      ending: of its name.
      real: contents.
    """

    task: str
    ending: str
    real: tuple[bytes, ...]


class _Kinds:
    """All kinds of inputs.

    Args:
      made: real ones.
      folder: to write to.
    """

    def __init__(self, made: Small, folder: Path):
        self._small, self._folder = made, folder
        self.tokenizer = registry.load_tokenizer(made.vocab)
        self.learned = registry.load_tokenizer(made.init)

    def corpus(self, content: bytes) -> str:
        """A text to pre-train on, in the format that it looks like."""
        path = self._write("corpus.txt", content)
        found = reader.open_corpus(str(path))
        options = reader.ReadOptions()
        for part in reader.plan_ranges(found, _RANGE):
            for section in reader.read_sections(part, options):
                _check_ids(self.tokenizer, list(section.sentences))
        return RIGHT

    def labelled(self, files: _Files, content: bytes) -> str:
        """A labelled file to fine-tune on."""
        train = self._write(f"train.{files.ending}", content)
        dev = self._write(f"dev.{files.ending}", files.real[0])
        request = TaskRequest(
            files.task, files.task, files=(("train", str(train)), ("dev", str(dev)))
        )
        settings = FineTuningSettings((request,), self._small.init, max_length=32)
        cache = self._folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        try:
            data = task_data.load(request, settings, self.learned, str(cache))
        except InputError as error:
            if not any(name in str(error) for name in (train.name, dev.name, files.task)):
                raise WrongError(f"names neither the file nor the task: {error}") from error
            raise
        _check_data(data, len(self.learned.vocabulary))
        return RIGHT

    def config(self, content: bytes) -> str:
        """A bert_config.json."""
        config = configs.load(str(self._write("bert_config.json", content)))
        shapes = parameter_shapes(config) if _weights_of(config) < _LARGEST else {}
        if any(size < 1 for shape in shapes.values() for size in shape):
            raise WrongError("has weights of no size")
        return RIGHT

    def foreign_config(self, content: bytes) -> str:
        """A config.json of Hugging Face."""
        path = str(self._write("config.json", content))
        huggingface_config.read_config(json_files.read(path, dict), path)
        return RIGHT

    def vocabulary(self, content: bytes) -> str:
        """A vocab.txt."""
        tokenizer = registry.load_tokenizer(str(self._write("vocab.txt", content)))
        _check_ids(tokenizer, ["the small layer", "中 é\u0301 \U0001f600", ""])
        return RIGHT

    def flags(self, words: Sequence[str]) -> str:
        """A command line."""
        name, *rest = words
        known = _flags_of(name)
        known.unparse_flags()
        arguments.parse(rest, known)
        return RIGHT

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path


def _check_ids(tokenizer: Tokenizer, texts: list[str]) -> None:
    if not texts:
        return
    ids = tokenizer.tokenize(texts).flat_values.numpy()
    if ids.size and not 0 <= ids.min() <= ids.max() < len(tokenizer.vocabulary):
        raise WrongError("an id is beyond the vocabulary")


def _check_data(data: task_data.TaskData, tokens: int) -> None:
    for split in (data.train, *data.dev):
        for name, column in split.features.columns.items():
            if not np.isfinite(column.values).all():
                raise WrongError(f"{name} has what is no number")
            if name == "input_word_ids" and not (column.values < tokens).all():
                raise WrongError("an id is beyond the vocabulary")
        for example in split.examples:
            if isinstance(example, SpanExample) and not all(
                example.context[answer.start :].startswith(answer.text)
                for answer in example.answers or ()
            ):
                raise WrongError("an answer does not stand where it is said to")


@functools.cache
def _flags_of(command: str) -> flags.FlagValues:
    module, _ = __main__.COMMANDS[command]
    known = flags.FlagValues()
    for name, flag in command_line.flags_of(module).items():
        known[name] = flag
    return known


def _weights_of(config: configs.EncoderConfig) -> int:
    """About how many weights a model has, without making any shape of them."""
    sizes = (value for value in config.to_dict().values() if type(value) is int and value > 0)
    return int(np.prod([float(size) for size in sizes]))


def _labelled_files(folder: Path) -> dict[str, _Files]:
    """Real files of each format, by what they are called here."""
    found = {"table of tabs": _Files("classification", "tsv", tuple(_TABLE))}
    comma = _TABLE[0].replace(b",", b";").replace(b"\t", b",")
    found["table of commas"] = _Files("classification", "csv", (comma,))
    lines = b'{"text": "a good film", "label": "pos"}\n{"text": "the bad story", "label": "neg"}\n'
    found["lines of JSON"] = _Files("classification", "jsonl", (lines,))
    numbers = b"sentence1\tsentence2\tlabel\na good film\ta nice story\t4.5\nbad\tgood\t0.5\n"
    found["table of numbers"] = _Files("regression", "tsv", (numbers,))
    for name, task, maker, ending in (
        ("SQuAD", "squad2", functools.partial(labelled_data.make_spans, null=True), "json"),
        ("CoNLL", "ner", labelled_data.make_tags, "txt"),
        ("choices", "choice", labelled_data.make_choices, "jsonl"),
    ):
        place = folder / task
        place.mkdir(parents=True, exist_ok=True)
        maker(place)
        real = (place / f"dev.{ending}").read_bytes()
        found[name] = _Files(task, ending, (_beginning(name, real),))
    return found


def _beginning(name: str, real: bytes) -> bytes:
    """A few examples of a file: small inputs are read fast, and seen through."""
    if name != "SQuAD":
        return b"\n".join(real.splitlines()[:30]) + b"\n"
    content = json_files.parse(real.decode(), name)
    content["data"][0]["paragraphs"] = content["data"][0]["paragraphs"][:8]
    return json.dumps(content).encode()


def _command_lines() -> list[list[str]]:
    """Command lines that documents show, a command and its words each."""
    found = []
    for name, (module, _) in __main__.COMMANDS.items():
        text = Path(_ROOT, *module.split(".")).with_suffix(".py").read_text("utf-8")
        for line in re.findall(rf"bert-tf {name} (.*)", text.replace("\\\n", " ")):
            words = line.split("`")[0]
            with contextlib.suppress(ValueError):  # a quote without an end
                found.append([name, *shlex.split(words)])
    return found


@st.composite
def _words(draw: st.DrawFn, real: list[list[str]]) -> list[str]:
    """A command line in which words are others, missing, or too many."""
    name, *rest = draw(st.sampled_from(real))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(rest)))
        what = draw(st.integers(0, 3))
        if what == 0 or place == len(rest):
            rest.insert(place, draw(st.text(max_size=12)))
        elif what == 1:
            rest[place] = rest[place].partition("=")[0] + "=" + draw(_VALUES)
        elif what == 2:
            del rest[place]
        else:
            rest[place] = (
                "--" + draw(st.sampled_from(sorted(_flags_of(name)))) + "=" + draw(_VALUES)
            )
    return [name, *rest]


_VALUES = st.text(max_size=8) | st.sampled_from(
    ("nan", "inf", "-1", "0", "1e999", "9" * 40, "²", "'", '"', ",", "=", " ", "a=b", "\0", "\n")
)
Trials = dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], str]]]


def _trials(kinds: _Kinds, made: Small, folder: Path) -> Trials:
    """The inputs of each kind, and how one is tried."""
    corpora = [Path(made.corpus).read_bytes()[:1500], b'{"text": "A film. A story."}\n' * 3]
    config = Path(made.config).read_bytes()
    foreign = json_files.read(f"{made.foreign[Format.HUGGINGFACE]}/config.json", dict)
    trials: Trials = {
        "corpus": (mutations.contents(corpora), kinds.corpus),
        "configuration": (
            mutations.contents([config]) | mutations.other_values([json.loads(config)]),
            kinds.config,
        ),
        "configuration of Hugging Face": (
            mutations.contents([json.dumps(foreign).encode()]) | mutations.other_values([foreign]),
            kinds.foreign_config,
        ),
        "vocabulary": (mutations.contents([Path(made.vocab).read_bytes()]), kinds.vocabulary),
        "command line": (_words(_command_lines()), kinds.flags),
    }
    for name, files in _labelled_files(folder / "real").items():
        kinds.labelled(files, files.real[0])  # which is right as it is
        found = mutations.contents(files.real)
        if files.ending == "json":
            found |= mutations.other_values([json.loads(content) for content in files.real])
        trials[name] = (found, functools.partial(kinds.labelled, files))
    return trials


def make(place: Place) -> Case:
    """Gives the cases, each of a kind of input in turn."""
    folder = place.folder / ROOM
    folder.mkdir(parents=True, exist_ok=True)
    made = small.make(place.folder)
    trials = _trials(_Kinds(made, folder), made, folder)
    names = sorted(trials)

    def case(number: int) -> Outcome:
        name = names[number % len(names)]
        strategy, trial = trials[name]
        seed = place.rng(ROOM, number).getrandbits(64)
        return search.search(name, strategy, trial, seed, _BLOCK)

    return case
