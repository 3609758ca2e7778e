"""Small inputs of all commands, written once for all cases."""

import shutil
from pathlib import Path

from bert_tf import weights
from bert_tf.export import hub, saved_model, sources
from bert_tf.weights.formats import Format
from pipelines.common.runners import LocalRunner
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings
from tests import conftest
from tests.bert_tf import exported, labelled_data

_DOCUMENTS = 40
_TOKENS = 160


class SmallInputs:
    """Paths of the inputs.

    Attributes:
      corpus: text of documents of a small grammar.
      vocab: vocabulary of that text.
      examples: pre-training examples.
      texts: folder of labelled sentences.
      init: model whose vocabulary has the words of these sentences.
      models: models with random weights, by the name of their task.
      config: configuration of these models.
      foreign: a model in the formats of other programs.
      export: export of two tasks and a pre-trained model.
      hub: TF Hub pair of encoder and preprocessor.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.corpus = f"{folder}/corpus.txt"
        self.vocab = f"{folder}/vocab.txt"
        self.examples = f"{folder}/examples"
        self.texts = f"{folder}/texts"
        self.init = f"{folder}/init"
        self.models = exported.folders_in(f"{folder}/models")
        self.config = f"{folder}/model/bert_config.json"
        self.foreign = {kind: f"{folder}/{kind}" for kind in (Format.TF1, Format.HUGGINGFACE)}
        self.export = f"{folder}/export"
        self.hub = f"{folder}/hub"


def make(folder: Path) -> SmallInputs:
    """Returns the inputs below a folder, and writes them unless they are complete."""
    inputs = SmallInputs(folder / "small")
    mark = inputs.folder / "complete"
    if not mark.exists():
        shutil.rmtree(inputs.folder, ignore_errors=True)
        inputs.folder.mkdir(parents=True)
        _write(inputs)
        mark.touch()
    return inputs


def _write(inputs: SmallInputs) -> None:
    conftest.write_documents(Path(inputs.corpus), conftest.make_documents(_DOCUMENTS))
    conftest.learn_vocabulary(inputs.corpus, inputs.vocab, _TOKENS)
    settings = ExampleSettings(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, held_out_fraction=0.1
    )
    request = example_writer.ExampleRequest(inputs.corpus, inputs.vocab, inputs.examples, settings)
    example_writer.write(request, LocalRunner(1))
    texts = Path(inputs.texts)
    texts.mkdir()
    labelled_data.make_texts(texts, train=40, dev=16)
    labelled_data.write_init(inputs.init)
    exported.write_folders(inputs.vocab, f"{inputs.folder}/models")
    pretrained = weights.read(inputs.models["pretrained"])
    pretrained.config.save(inputs.config)
    for kind, path in inputs.foreign.items():
        weights.write(pretrained, path, kind)
    tasks = ("mood", "tags", "pretrained")
    found = sources.find([f"{name}={inputs.models[name]}" for name in tasks])
    saved_model.export(found, inputs.export)
    hub.export(sources.read(inputs.models["pretrained"]), inputs.hub)
