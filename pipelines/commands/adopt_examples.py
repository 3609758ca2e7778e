r"""Adopts TFRecords of another program, such as google-research/bert, for training.

Every record is read once, to check the features, the ids and the count. Then `manifest.json` and
`vocab.txt` are written next to the files, and `bert-tf pretrain` accepts the folder.

  bert-tf adopt-examples --tfrecords=folder --pattern='*.tfrecord' --vocab=vocab.txt
"""

from pipelines.commands.shared_flags import TokenizerFlags
from pipelines.common.flag_types import Path
from pipelines.common.texts import counted


def main(
    *, tfrecords: Path, vocab: str, pattern: str = "*.tfrecord*", tokenizer: TokenizerFlags
) -> None:
    """Adopts a folder.

    Flags:
      tfrecords: Folder of the files.
      vocab: The vocabulary that the files were made with, a vocab.txt.
      pattern: Glob of the files in the folder.
    """
    from pipelines.pretraining import adoption
    from pipelines.tokenizers import registry

    tokens = registry.load_tokenizer(vocab, tokenizer.chosen())
    manifest = adoption.adopt(tfrecords, pattern, tokens)
    print(
        f"{tfrecords}: {counted(manifest['train']['records'], 'example')} in "
        f"{counted(len(manifest['train']['shards']), 'file')}"
    )
