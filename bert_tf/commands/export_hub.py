r"""Exports an encoder and its preprocessor as reusable SavedModels for TF Hub.

  bert-tf export-hub --model=savedmodels/pretrained --output=savedmodels/hub

The pair follows TF Hub's common text API: hub.load and hub.KerasLayer use it without this program.
"""

from pipelines.common.flag_types import Path


def main(*, model: Path = "savedmodels/pretrained", output: Path = "savedmodels/hub") -> None:
    """Exports as the flags say.

    Flags:
      model: Folder of a pre-trained or fine-tuned model.
      output: Folder to write encoder/ and preprocess/ to.
    """
    from bert_tf.export import hub, sources
    from pipelines.common import files

    files.check_absent(output)
    encoder, preprocess = hub.export(sources.read(model), output)
    print(f"{encoder}: the encoder\n{preprocess}: the preprocessor")
