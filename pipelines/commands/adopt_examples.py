r"""Takes over TFRecords that another program wrote, such as google-research/bert.

Every record is read once: the count, the ids and the features are checked. Then `manifest.json`
and `vocab.txt` are put beside the files, and training takes the folder as it takes ours.

  bert-tf adopt-examples --tfrecords=folder --pattern='*.tfrecord' --vocab=vocab.txt
"""

from absl import flags

from pipelines.commands.text_flags import TextFlags
from pipelines.common.texts import counted

_TFRECORDS = flags.DEFINE_string("tfrecords", None, "The folder of the files.", required=True)
_VOCAB = flags.DEFINE_string(
    "vocab", None, "The vocabulary that they were made with, a vocab.txt.", required=True
)
_PATTERN = flags.DEFINE_string(
    "pattern", "*.tfrecord*", "Which files of the folder to take, a glob."
)
_TEXT = TextFlags()


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
