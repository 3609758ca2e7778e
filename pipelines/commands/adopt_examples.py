r"""Adopts TFRecords of another program, such as google-research/bert, for training.

Every record is read once, to check the features, the ids and the count. Then `manifest.json` and
`vocab.txt` are written next to the files, and `bert-tf pretrain` accepts the folder.

  bert-tf adopt-examples --tfrecords=folder --pattern='*.tfrecord' --vocab=vocab.txt
"""

from absl import flags

from pipelines.commands.shared_flags import TokenizerFlags
from pipelines.common.texts import counted

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "Folder of the files.", required=True)
_VOCAB = flags.DEFINE_string(
    "vocab", None, "The vocabulary that the files were made with, a vocab.txt.", required=True
)
_PATTERN = flags.DEFINE_string("pattern", "*.tfrecord*", "Glob of the files in the folder.")
_TEXT = TokenizerFlags()


def main() -> None:
    """Adopts a folder."""
    from pipelines.pretraining import adoption
    from pipelines.tokenizers import registry

    folder = _TFRECORDS.value.rstrip("/")
    tokens = registry.load_tokenizer(_VOCAB.value, _TEXT.chosen())
    manifest = adoption.adopt(folder, _PATTERN.value, tokens)
    print(
        f"{folder}: {counted(manifest['train']['records'], 'example')} in "
        f"{counted(len(manifest['train']['shards']), 'file')}"
    )
