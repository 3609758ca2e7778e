"""The examples and the model of a pre-training run, checked before the first step."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.models import configs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.families import FAMILIES
from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.registry import OBJECTIVES
from bert_tf.pretraining import distillation, first_weights
from bert_tf.pretraining.settings import DistillationSettings, PretrainingSettings, RunOptions
from bert_tf.training import distribution, hardware
from bert_tf.weights import Bundle, own
from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder, example_reader
from pipelines.pretraining.data_service import DataService
from pipelines.pretraining.settings import ExampleSettings, Masking, Objective
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer

_USUAL_SIZE = "base"
_MASKING = ("masked_lm_prob", "mask_fraction", "random_fraction")


@dataclasses.dataclass(frozen=True)
class PretrainingData:
    """The examples of all phases, and their tokenizer."""

    manifests: tuple[example_folder.ExampleManifest, ...]
    training: tuple[example_reader.ExampleFiles, ...]
    held_out: example_reader.ExampleFiles | None  # of the last phase that has any
    held_out_random_fraction: float | None  # fraction of its pairs with a random second segment
    tokenizer: Tokenizer
    objective: Objective
    teacher: Bundle | None = None  # of a distillation


def open_data(settings: PretrainingSettings) -> PretrainingData:
    """Opens the examples of all phases and checks that they match.

    Raises:
      InputError: their vocabularies or objectives differ, or a file is damaged.
    """
    folders = [phase.tfrecords for phase in settings.phases]
    manifests = tuple(example_folder.read_manifest(folder) for folder in folders)
    for folder, found in zip(folders, manifests, strict=True):
        if found["vocabulary_sha256"] != manifests[0]["vocabulary_sha256"]:
            raise InputError(f"{folder}: has another vocabulary than {folders[0]}.")
        if found["tokenizer"] != manifests[0]["tokenizer"]:
            raise InputError(f"{folder}: was written with another tokenizer than {folders[0]}.")
        if found["settings"]["objective"] != manifests[0]["settings"]["objective"]:
            raise InputError(f"{folder}: was made for another objective than {folders[0]}.")
        vocabulary = example_folder.read_vocabulary(folder)
    _check_masking(folders, manifests)
    held_out, random_fraction = None, None
    for folder, found in zip(folders, manifests, strict=True):
        if found["held_out"].get("records"):
            held_out = example_reader.open_examples(folder, held_out=True)
            random_fraction = found["held_out"]["random_next_fraction"]
    tokenizer = registry.make(vocabulary, manifests[0]["tokenizer"], folders[0])
    objective = Objective(manifests[0]["settings"]["objective"])
    teacher = None
    if isinstance(settings, DistillationSettings):
        if objective is not Objective.MLM:
            raise InputError(
                f"{folders[0]}: the examples are of objective {objective}; a student learns from "
                "those of mlm (write-examples --objective=mlm --masking=dynamic)."
            )
        teacher = distillation.read_teacher(settings, tokenizer, folders[0])
    return PretrainingData(
        manifests,
        tuple(example_reader.open_examples(folder) for folder in folders),
        held_out,
        random_fraction,
        tokenizer,
        objective,
        teacher,
    )


def _check_masking(
    folders: list[str], manifests: tuple[example_folder.ExampleManifest, ...]
) -> None:
    """Raises InputError if masks are drawn in training, and phases differ in how many."""
    found: list[tuple[str, dict[str, Any]]] = [
        (folder, {**manifest["settings"]})
        for folder, manifest in zip(folders, manifests, strict=True)
        if _draws_masks(manifest["settings"])
    ]
    for (other, first), (folder, second) in itertools.combinations(found, 2):
        same_length = first["max_seq_length"] == second["max_seq_length"]
        for name in (*_MASKING, *(["max_predictions_per_seq"] if same_length else [])):
            if first.get(name) != second.get(name):
                raise InputError(
                    f"{folder}: was written with --{name}={second.get(name)}, but {other} with "
                    f"{first.get(name)}; where training draws the masks, all phases need the same "
                    "one. Write one of them again."
                )


def _draws_masks(settings: Mapping[str, object]) -> bool:
    """Whether masks of examples with these settings are drawn in training."""
    replaced = settings["objective"] == Objective.REPLACED_TOKEN
    return replaced or settings.get("masking") == Masking.DYNAMIC


def make_objective(
    settings: PretrainingSettings, data: PretrainingData, config: EncoderConfig
) -> PretrainingObjective:
    """Makes the objective with its model."""
    names, drawn, dtype = features(data), masking(data), settings.precision
    if data.teacher is None:
        objective = OBJECTIVES[data.objective]
        return objective.for_examples(config, names, drawn, dtype=dtype)
    assert isinstance(config, BertConfig)  # see `distillation.student_config`
    return distillation.make_objective(
        config, data.teacher, names, drawn, data.training[0], settings.seed, dtype
    )


def model_config(settings: PretrainingSettings, data: PretrainingData) -> EncoderConfig:
    """The model's configuration, checked against the examples.

    Raises:
      InputError: ids or positions of the examples exceed the model's embeddings, or the objective
        does not train such a model.
    """
    if data.teacher is not None:
        assert isinstance(settings, DistillationSettings)
        assert isinstance(data.teacher.config, BertConfig)  # as it is a masked LM
        config: EncoderConfig = distillation.student_config(settings, data.teacher.config)
        _check_vocabulary(config, len(data.tokenizer.vocabulary), settings)
    else:
        config = _base_config(settings, data.tokenizer)
    if settings.dropout is not None:
        config = config.with_dropout(settings.dropout)
    if settings.initializer_range is not None:
        config = config.with_initializer_range(settings.initializer_range)
    if isinstance(config, ElmoConfig):  # no weight depends on the length
        longest = max(examples.max_seq_length for examples in data.training)
        length = max(config.max_sequence_length, longest)
        config = dataclasses.replace(config, max_sequence_length=length)
    _check_sequences(config, "model", settings, data)
    if data.teacher is not None:
        _check_sequences(data.teacher.config, "teacher", settings, data)
    _check_family(config, settings.phases[0].tfrecords, data)
    return config


def _check_sequences(
    config: EncoderConfig, reader: str, settings: PretrainingSettings, data: PretrainingData
) -> None:
    """Raises InputError if a model lacks embeddings for positions or segments of the examples."""
    for phase, examples in zip(settings.phases, data.training, strict=True):
        if examples.max_seq_length > config.max_seq_length:
            raise InputError(
                f"{phase.tfrecords}: records of {examples.max_seq_length} tokens exceed the "
                f"{reader}'s {config.max_seq_length} positions. Write them shorter "
                "(--max_seq_length), or enlarge max_position_embeddings."
            )
    for phase, found in zip(settings.phases, data.manifests, strict=True):
        types = data.tokenizer.types(example_folder.segments(found))
        config.check_segments(types, phase.tfrecords)


def _check_family(config: EncoderConfig, folder: str, data: PretrainingData) -> None:
    """Raises InputError where the examples do not train models of this family."""
    if not isinstance(config, OBJECTIVES[data.objective].config_type):
        remedy = (
            f"write them with --objective={Objective.BIDIRECTIONAL_LM} for an ELMo"
            if isinstance(config, ElmoConfig)
            else "use an ELMo (--model=elmo-tiny, or another of its sizes), or write them with "
            f"--objective={Objective.MLM}"
        )
        raise InputError(
            f"{folder}: the examples are of objective {data.objective}, which does not train a "
            f"model of model_type {config.model_type!r}; {remedy}."
        )
    config.check_vocabulary(data.tokenizer.vocabulary.kind, folder)
    if data.objective is Objective.REPLACED_TOKEN and not getattr(config, "generator", None):
        raise InputError(
            f"{folder}: the examples are of objective {data.objective}, for which the model needs "
            "a generator; use an ELECTRA (--model=electra-tiny, or another of its sizes), or set "
            "generator_size in its bert_config.json."
        )
    if data.objective is not Objective.REPLACED_TOKEN and getattr(config, "generator", None):
        raise InputError(
            f"{folder}: the examples are of objective {data.objective}, but the model has a "
            f"generator, for which they must be of {Objective.REPLACED_TOKEN}. Write these, or use "
            "a model without generator_size in its bert_config.json."
        )
    family = FAMILIES.get(config.model_type)
    if family and family.values.get("causal") and OBJECTIVES[data.objective].causal is False:
        raise InputError(
            f"{folder}: the examples are of objective {data.objective}, which trains models that "
            f"read both ways, not a {config.model_type}; write them with "
            f"--objective={Objective.LEFT_TO_RIGHT}, or use a BERT."
        )
    is_denoising = data.objective is Objective.DENOISING
    if is_denoising != bool(getattr(config, "num_decoder_layers", 0)):
        what, other = "no decoder", "a model of another family"
        if is_denoising:
            what, other = "a decoder", "a BART (--model=bart-tiny, or another of its sizes)"
        raise InputError(
            f"{folder}: the examples are of objective {data.objective}, for which the model needs "
            f"{what}; use {other}, or write examples of another objective."
        )


def _base_config(settings: PretrainingSettings, tokenizer: Tokenizer) -> EncoderConfig:
    """The configuration of a size, of a file, or of the model to start from.

    Raises:
      InputError: the vocabulary of the examples is larger.
    """
    path, first, vocab_size = settings.model, settings.init, len(tokenizer.vocabulary)
    found = first_weights.read_config(first) if path is None and first else None
    if found is not None:
        config = found
    elif path is None or not path.endswith(".json"):
        named = configs.named(path or _USUAL_SIZE, vocab_size=vocab_size)
        return _for_padding(named, tokenizer.pad_id)
    else:
        config = configs.load(path)
    _check_vocabulary(config, vocab_size, settings)
    return config


def _for_padding(config: EncoderConfig, pad_id: int) -> EncoderConfig:
    """The configuration with as many positions after the padding's row, where it has one (RoBERTa).

    Positions of a BART also begin after unused rows, but their number is fixed.
    """
    if not isinstance(config, BertConfig) or config.num_decoder_layers:
        return config
    if not config.position_offset:
        return config
    rows = config.max_seq_length + pad_id + 1
    return dataclasses.replace(config, position_offset=pad_id + 1, max_position_embeddings=rows)


def _check_vocabulary(
    config: EncoderConfig, vocab_size: int, settings: PretrainingSettings
) -> None:
    """Raises InputError if the examples have ids without embeddings."""
    if config.vocab_size < vocab_size:
        raise InputError(
            f"{settings.phases[0].tfrecords}: its examples have ids up to {vocab_size - 1}, but "
            f"the model's vocab_size is {config.vocab_size}. Set vocab_size to {vocab_size}, or "
            "write the examples with the model's vocabulary."
        )


def features(data: PretrainingData) -> frozenset[str]:
    """The names of the features of all examples."""
    return frozenset().union(*(examples.names for examples in data.training))


def masking(data: PretrainingData) -> DynamicMasking:
    """The masking of examples that have no masks."""
    tokens = data.tokenizer
    every = [manifest["settings"] for manifest in data.manifests]
    settings = [found for found in every if _draws_masks(found)] or every
    usual = ExampleSettings()  # for manifests that lack a value
    return DynamicMasking(
        (tokens.pad_id, tokens.start_id, tokens.separator_id, tokens.mask_id),
        tokens.mask_id,
        len(tokens.vocabulary),
        {found["max_seq_length"]: found["max_predictions_per_seq"] for found in settings},
        settings[0].get("masked_lm_prob", usual.masked_lm_prob),
        settings[0].get("mask_fraction", usual.mask_fraction),
        settings[0].get("random_fraction", usual.random_fraction),
    )


def check_features(
    objective: PretrainingObjective, settings: PretrainingSettings, data: PretrainingData
) -> None:
    """Raises InputError unless all examples have the features that the objective needs."""
    for phase, examples in zip(settings.phases, data.training, strict=True):
        missing = objective.features - examples.names
        if missing:
            drawn = any(_draws_masks(manifest["settings"]) for manifest in data.manifests)
            remedy = "--masking=static" if drawn else f"--objective={data.objective}"
            raise InputError(
                f"{phase.tfrecords}: the examples lack {', '.join(sorted(missing))}, which "
                f"objective {data.objective} needs; write them with {remedy}."
            )


def run_identity(
    settings: PretrainingSettings, data: PretrainingData, config: EncoderConfig
) -> dict[str, Any]:
    """Everything that decides the weights; it must be the same to resume a run.

    Devices and compilation may change between two stops; they only affect rounding.
    """
    values = settings.identity()
    for name in ("phases", "model", "teacher"):  # the contents of their files are compared
        values.pop(name, None)
    if data.teacher is not None:
        values["teacher"] = own.identity(data.teacher)
    if settings.init:
        values["init"] = first_weights.checksums(settings.init)
    first = data.manifests[0]
    return {
        "settings": values,
        "config": config.to_dict(),
        "tokenizer": first["tokenizer"],
        "vocabulary_sha256": first["vocabulary_sha256"],
        "phases": [
            {
                "steps": None if settings.minutes else phase.steps,
                "batch_size": phase.batch_size,
                "examples": found["settings"],
                "inputs": [[entry.get("format"), entry["sha256"]] for entry in found["inputs"]],
            }
            for phase, found in zip(settings.phases, data.manifests, strict=True)
        ],
    }


def data_service(options: RunOptions) -> DataService | None:
    """The tf.data service that reads the examples, if there is one."""
    if options.data_service is None:
        return None
    return DataService(options.data_service, options.data_service_workers)


def check_memory(
    settings: PretrainingSettings,
    data: PretrainingData,
    config: EncoderConfig,
    strategy: tf.distribute.Strategy,
) -> None:
    """Raises InputError where a phase is known to need more memory than this machine has."""
    parts = settings.accumulation * distribution.worker_count(strategy)
    for phase, examples in zip(settings.phases, data.training, strict=True):
        sequences, length = phase.batch_size // parts, examples.max_seq_length
        hardware.check_memory(config, sequences, length, strategy, settings.rematerialize)
