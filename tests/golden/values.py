"""Golden values: what a user computes, as digests and numbers that no refactoring may change.

`python -m tests.golden.values OUT.json` writes them for the code at hand. Exact values are the same
on every machine. Numbers of trained and evaluated models are compared within a tolerance, because
kernels of other processors add in another order; digests of trained weights mean something on the
processor that is named beside them only.
"""

import dataclasses
import functools
import glob
import hashlib
import json
import pathlib
import platform
import sys
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import weights
from bert_tf.export import module, saved_model, sources
from bert_tf.pretraining import run
from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from bert_tf.weights import tf_checkpoint
from bert_tf.weights.formats import Format
from pipelines.common.runners import LocalRunner
from pipelines.corpus import reader as corpora
from pipelines.corpus.reader import ReadOptions
from pipelines.pretraining import example_writer
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import learning, registry, wordpiece
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.bert_tf import exported, labelled_data
from tests.golden import corpus
from tests.tiny import tiny_config

Values = dict[str, Any]
_STEPS = 20
# Of BERT; those of other families have tests of their own.
_OBJECTIVES = (Objective.MLM_NSP, Objective.MLM, Objective.LEFT_TO_RIGHT)
_RUN = RunOptions(save_every=_STEPS, log_every=1, tensorboard=False, saved_model=False)


# Tasks of an export; those of newer shapes have values of their own.
_EXPORTED = ("tags", "mood", "same", "score", "qa", "qa1", "pick", "pretrained")


def main(path: str) -> None:
    """Computes all values and writes them as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        values = compute(pathlib.Path(folder))
    pathlib.Path(path).write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")


def compute(folder: pathlib.Path) -> dict[str, Values]:
    """All golden values.

    Args:
      folder: for what is made on the way.

    Returns:
      `exact`: the same everywhere; `numbers`: lists of floats, within a tolerance; `machine`: the
      processor, and digests and scores (which jump) that hold on it only.
    """
    paths = corpus.write(folder)
    vocab = _learn(paths, folder)
    exact = {"vocabulary": WordPieceVocabulary.load(vocab).sha256, **_tokens(vocab)}
    exact |= _examples(paths, vocab, folder)
    curves, digests = _pretraining(folder)
    models = folder / "models"
    exported.write_folders(vocab, str(models))
    exact |= _converted(models, folder) | _exported_variables(models, folder)
    more_curves, scores = _finetuning(folder)
    return {
        "exact": exact,
        "numbers": curves | more_curves | _answers(models),
        "machine": {"processor": processor(), **digests, **scores},
    }


def processor() -> str:
    """The processor, and which of its instructions TensorFlow may choose between."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {key.strip(): value.strip() for key, value in found.items()}
    flags = " ".join(sorted(found.get("flags", "").split()))
    return f"{found.get('model name', platform.machine())} {_digest(flags)[:8]}"


def _digest(*parts: str | bytes | np.ndarray) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _learn(paths: tuple[str, str], folder: pathlib.Path) -> str:
    found = corpora.open_corpus(" ".join(paths))
    words = learning.count_words(
        found,
        ReadOptions(),
        functools.partial(wordpiece.split_words, lower_case=True, strip_accents=False),
        sample_bytes=1 << 30,
        seed=0,
    )
    path = str(folder / "vocab.txt")
    WordPieceVocabulary.learn(words, 300).write(path)
    return path


def _tokens(vocab: str) -> Values:
    """Ids and offsets of tricky texts, with each of the tokenizer's settings."""
    found: Values = {}
    for lower_case in (True, False):
        for strip_accents in (True, False):
            tokens = WordPieceTokenizer(
                WordPieceVocabulary.load(vocab), lower_case=lower_case, strip_accents=strip_accents
            )
            ids, starts, ends = tokens.tokenize_with_offsets(corpus.TRICKY)
            name = f"tokens/{lower_case=},{strip_accents=}"
            found[name] = _digest(*(json.dumps(x.to_list()) for x in (ids, starts, ends)))
            found[f"{name}/alone"] = _digest(json.dumps(tokens.tokenize(corpus.TRICKY).to_list()))
    default = registry.load_tokenizer(vocab)
    found["tokens/default"] = default.tokenize(corpus.TRICKY).to_list()
    return found


def _examples(paths: tuple[str, str], vocab: str, folder: pathlib.Path) -> Values:
    """Digests of TFRecords by objective, with and without whole-word masking, and of manifests."""
    settings = ExampleSettings(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2, held_out_fraction=0.1
    )
    found: Values = {}
    for objective in _OBJECTIVES:
        masked = objective != Objective.LEFT_TO_RIGHT
        for whole_word in (False, True) if masked else (False,):
            output = str(folder / f"examples-{objective}-{whole_word}")
            changed = dataclasses.replace(settings, objective=objective, whole_word_mask=whole_word)
            request = example_writer.ExampleRequest(
                " ".join(paths), vocab, output, changed, tokenizer=(("strip_accents", False),)
            )
            manifest = dict(example_writer.write(request, LocalRunner(1)))
            del manifest["versions"]
            for entry in manifest["inputs"]:
                entry["path"] = pathlib.Path(entry["path"]).name
                del entry["modified"]
            name = f"examples/{objective},{whole_word=}"
            found[f"{name}/manifest"] = manifest
            for path in sorted(glob.glob(f"{output}/*.tfrecord")):
                content = pathlib.Path(path).read_bytes()
                found[f"{name}/{pathlib.Path(path).name}"] = _digest(content)
    return found


def _pretraining(folder: pathlib.Path) -> tuple[Values, Values]:
    """Curves of short runs of each objective, and digests of the weights that they end with."""
    config = str(folder / "bert_config.json")
    tiny_config(300, max_position_embeddings=32).save(config)
    curves, digests = {}, {}
    for objective in _OBJECTIVES:
        output = str(folder / f"run-{objective}")
        settings = PretrainingSettings(
            (Phase(str(folder / f"examples-{objective}-False"), _STEPS, 16),),
            model=config,
            learning_rates=(1e-3,),
            warmup_steps=(5,),
            accumulation=2,
            precision="float32",
        )
        report = run.pretrain(settings, output, _RUN)
        lines = pathlib.Path(output, "history.jsonl").read_text().splitlines()
        curves[f"pretraining/{objective}/loss"] = [json.loads(line)["loss"] for line in lines]
        curves[f"pretraining/{objective}/held_out"] = [report["loss"]]
        part = "next_token" if objective is Objective.LEFT_TO_RIGHT else "masked_lm"
        for name in ("weights_sha256", f"{part}_accuracy"):
            digests[f"pretraining/{objective}/{name}"] = report[name]
    return curves, digests


def _converted(models: pathlib.Path, folder: pathlib.Path) -> Values:
    """Folders of foreign formats: the bytes of their files, and of the tensors of checkpoints."""
    found: Values = {}
    for name in ("pretrained", "mood", "qa", "tags", "pick", "score"):
        place = exported.folders_in(str(models))[name]
        bundle = weights.read(place)
        bundle = bundle.only(name) if bundle.tasks else bundle
        found[f"converted/{name}/read"] = bundle.sha256()
        for kind in (Format.TF1, Format.HUGGINGFACE):
            output = folder / f"{kind}-{name}"
            if kind is Format.TF1 and bundle.config.hidden_act != "gelu":
                continue
            weights.write(bundle, str(output), kind)
            found[f"converted/{name}/{kind}/back"] = weights.read(str(output)).sha256()
            for path in sorted(output.iterdir()):
                if ".ckpt" not in path.name:
                    key = f"converted/{name}/{kind}/{path.name}"
                    found[key] = _digest(path.read_bytes())
            if kind is Format.TF1:
                arrays = tf_checkpoint.read(f"{output}/bert_model.ckpt", lambda _: True)
                parts = (part for key in sorted(arrays) for part in (key, arrays[key]))
                found[f"converted/{name}/{kind}/tensors"] = _digest(*parts)
    return found


def _exported_variables(models: pathlib.Path, folder: pathlib.Path) -> Values:
    """The bytes of all variables of an export, whatever their order."""
    places = exported.folders_in(str(models))
    entries = [f"{name}={places[name]}" for name in _EXPORTED]
    path = saved_model.export(sources.find(entries), str(folder / "export"))
    reader = tf.train.load_checkpoint(f"{path}/variables/variables")
    found = []
    for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        if isinstance(value, np.ndarray) and value.dtype == np.float32:
            found.append(_digest(value))
    return {"export/variables": _digest(*sorted(found))}


def _answers(models: pathlib.Path) -> Values:
    """The float outputs of each signature for a few texts."""
    found: Values = {}
    for name, place in exported.folders_in(str(models)).items():
        exports = module.Assembly(sources.find([f"{name}={place}"]), "float32")
        for signature in exports.signatures:
            inputs = {
                key: tf.constant(value, signature.inputs[key].dtype)
                for key, value in signature.sample.items()
            }
            for key, value in exports.functions()[signature.name](**inputs).items():
                if value.dtype == tf.float32:
                    flat = value.numpy().ravel()
                    found[f"answers/{signature.name}/{key}"] = flat[:64].tolist()
    return found


def _finetuning(folder: pathlib.Path) -> tuple[Values, Values]:
    """Curves and scores of short runs of each shape of task."""
    inits = {
        config.model_type: labelled_data.write_init(str(folder / config.model_type), config)
        for config in (labelled_data.CONFIG, labelled_data.BART)
    }
    makers = {
        "classification": labelled_data.make_texts,
        "regression": lambda data: labelled_data.make_pairs(data, regression=True),
        "ner": labelled_data.make_tags,
        "squad2": lambda data: labelled_data.make_spans(data, null=True),
        "choice": labelled_data.make_choices,
        "generation": labelled_data.make_answers,
    }
    curves, scores = {}, {}
    for kind, make in makers.items():
        place = folder / f"finetune-{kind}"
        place.mkdir()
        report, output = labelled_data.tune(
            place, inits["bart" if kind == "generation" else "bert"], kind, make,
            epochs=1.0, dropout=0.1, keep_runs=True,
        )  # fmt: skip
        lines = next(pathlib.Path(output).glob("runs/*/history.jsonl")).read_text().splitlines()
        curves[f"finetuning/{kind}/loss"] = [json.loads(line)["loss"] for line in lines]
        scores[f"finetuning/{kind}/scores"] = report["metrics"]["median"]
        bundle = weights.read(output)
        heads = [value for name, value in bundle.weights.items() if name.startswith("heads/")]
        if heads:
            means = [float(np.abs(value).mean()) for value in heads]
            curves[f"finetuning/{kind}/head"] = means
    return curves, scores


if __name__ == "__main__":
    main(sys.argv[1])
