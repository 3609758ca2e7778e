"""Small inputs of all commands, made once for all cases."""

import dataclasses
import shutil
from pathlib import Path

from bert_tf import weights
from bert_tf.export import hub, saved_model, sources
from bert_tf.weights.formats import Format
from pipelines.common.runners import LocalRunner
from pipelines.corpus import reader
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers import learning, wordpiece_vocabulary
from tests import conftest
from tests.bert_tf import exported, labelled_data
from tests.bert_tf.experiments import small_plan

_FORM = 4  # of what is made
_DOCUMENTS = 40
_TOKENS = 160


@dataclasses.dataclass(frozen=True)
class Small:
    """The folder of the inputs, and where each of them is.

    Attributes:
      folder: of all.
    """

    folder: Path

    @property
    def corpus(self) -> str:
        """A text of documents of a small grammar."""
        return f"{self.folder}/corpus.txt"

    @property
    def vocab(self) -> str:
        """A vocabulary of that text."""
        return f"{self.folder}/vocab.txt"

    @property
    def config(self) -> str:
        """A configuration of a model for it."""
        return f"{self.folder}/model/bert_config.json"

    @property
    def examples(self) -> str:
        """Examples of pre-training."""
        return f"{self.folder}/examples"

    @property
    def texts(self) -> str:
        """Sentences with labels."""
        return f"{self.folder}/texts"

    @property
    def init(self) -> str:
        """A model whose vocabulary has the words of these sentences."""
        return f"{self.folder}/init"

    def model(self, task: str) -> str:
        """A model of random weights that has a task."""
        return exported.folders_in(f"{self.folder}/models")[task]

    @property
    def foreign(self) -> dict[Format, str]:
        """A model in the formats of others."""
        return {kind: f"{self.folder}/{kind}" for kind in (Format.TF1, Format.HUGGINGFACE)}

    @property
    def export(self) -> str:
        """An export of two tasks and a pre-trained model."""
        return f"{self.folder}/export"

    @property
    def experiments(self) -> str:
        """What experiments on that text leave before their first job."""
        return f"{self.folder}/experiments"

    @property
    def hub(self) -> str:
        """An encoder and its preprocessor."""
        return f"{self.folder}/hub"


def make(folder: Path) -> Small:
    """Makes what is not there."""
    small = Small(folder / "small")
    mark = folder / f"small.whole-{_FORM}"
    if not mark.exists():
        shutil.rmtree(small.folder, ignore_errors=True)
        small.folder.mkdir(parents=True, exist_ok=True)
        _write(small)
        mark.touch()
    return small


def _write(small: Small) -> None:
    conftest.write_documents(Path(small.corpus), conftest.make_documents(_DOCUMENTS))
    words = learning.count_words(
        reader.open_corpus(small.corpus),
        reader.ReadOptions(),
        wordpiece_vocabulary.WordSplitter(True, True),
        sample_bytes=1 << 30,
        seed=0,
    )
    wordpiece_vocabulary.learn(words, _TOKENS).write(small.vocab)
    settings = ExampleSettings(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, held_out_fraction=0.1
    )
    request = example_writer.ExampleRequest(small.corpus, small.vocab, small.examples, settings)
    example_writer.write(request, LocalRunner(1))
    texts = Path(small.texts)
    texts.mkdir(exist_ok=True)
    labelled_data.make_texts(texts, train=40, dev=16)
    labelled_data.write_init(small.init)
    exported.write_folders(small.vocab, f"{small.folder}/models")
    pretrained = weights.read(small.model("pretrained"))
    pretrained.config.save(small.config)
    for kind, place in small.foreign.items():
        weights.write(pretrained, place, kind)
    tasks = ("mood", "tags", "pretrained")
    found = sources.find([f"{name}={small.model(name)}" for name in tasks])
    saved_model.export(found, small.export)
    hub.export(sources.read(small.model("pretrained")), small.hub)
    small_plan.begin(small.corpus, f"{small.folder}/own_tasks", small.experiments)
