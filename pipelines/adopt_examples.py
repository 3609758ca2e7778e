r"""Takes over TFRecords that another program wrote, such as google-research/bert.

Every record is read once: the count, the ids and the features are checked. Then `manifest.json`
and `vocab.txt` are put beside the files, and training takes the folder as it takes ours.

  python -m pipelines.adopt_examples --tfrecords=folder --pattern='*.tfrecord' --vocab=vocab.txt
"""

import pipelines.quiet_start  # noqa: F401  isort: skip

from typing import Any

from absl import flags

from pipelines import (
    commands,
    example_writer,
    examples,
    files,
    reader,
    text_flags,
    tokenizer,
    vocabulary,
)
from pipelines.errors import InputError

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "The folder of the files.", required=True)
_PATTERN = flags.DEFINE_string("pattern", "*.tfrecord*", "Which files of the folder.")
_VOCAB = flags.DEFINE_string("vocab", None, "The vocab.txt they were made with.", required=True)


def adopt(folder: str, pattern: str, tokens: tokenizer.BertTokenizer) -> dict[str, Any]:
    """Checks the files and writes the manifest; returns it.

    Args:
      folder: where the files are.
      pattern: a glob within the folder.
      tokens: the tokenizer that the ids are of.

    Raises:
      InputError: a file is damaged, foreign, or has ids beyond the vocabulary; or the folder has
        a manifest.
    """
    if files.gfile.exists(f"{folder}/{example_writer.MANIFEST}"):
        raise InputError(f"{folder}: has a {example_writer.MANIFEST} already.")
    found = reader.open_foreign(f"{folder}/{pattern}", len(tokens.vocabulary))
    sizes = {name: size for name, size, _ in found.features}
    settings = examples.ExampleSettings(
        objective=_objective(found.names, folder),
        max_seq_length=found.max_seq_length,
        max_predictions_per_seq=sizes.get("masked_lm_positions", 1),
    )
    vocabulary.save(tokens.vocabulary, f"{folder}/{example_writer.VOCABULARY}")
    shards = [
        {
            "file": path.rsplit("/", 1)[-1],
            "records": records,
            "bytes": files.gfile.stat(path).length,
        }
        for path, records in zip(found.paths, found.records, strict=True)
    ]
    manifest = {
        "settings": {
            "objective": settings.objective,
            "max_seq_length": settings.max_seq_length,
            "max_predictions_per_seq": settings.max_predictions_per_seq,
        },
        "tokenizer": tokens.settings,
        "vocabulary_sha256": files.sha256(f"{folder}/{example_writer.VOCABULARY}"),
        "inputs": [{"path": path, "sha256": files.sha256(path)} for path in found.paths],
        "train": {"records": found.total, "shards": shards},
        "held_out": {"shards": []},
    }
    files.write_json(f"{folder}/{example_writer.MANIFEST}", manifest)
    return manifest


def _objective(names: frozenset[str], folder: str) -> examples.Objective:
    masked = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
    if not masked & names:
        return examples.Objective.LEFT_TO_RIGHT
    if not masked <= names:
        raise InputError(f"{folder}: the records lack {', '.join(sorted(masked - names))}.")
    if "next_sentence_labels" in names:
        return examples.Objective.MLM_NSP
    return examples.Objective.MLM


def main() -> None:
    """Adopts a folder."""
    folder = _TFRECORDS.value.rstrip("/")
    tokens = tokenizer.load(_VOCAB.value, text_flags.lower_case(), text_flags.strip_accents())
    manifest = adopt(folder, _PATTERN.value, tokens)
    print(
        f"{folder}: {manifest['train']['records']:,} examples in "
        f"{len(manifest['train']['shards'])} files"
    )


if __name__ == "__main__":
    commands.run(main)
