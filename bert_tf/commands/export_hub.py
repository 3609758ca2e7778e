r"""Exports an encoder and its preprocessor as reusable SavedModels for TF Hub.

  bert-tf export-hub --model=savedmodels/pretrained --output=savedmodels/hub

The pair follows TF Hub's common text API: hub.load and hub.KerasLayer use it without this program.
"""

from absl import flags

from pipelines.common import flag_types

_MODEL = flags.DEFINE_string(
    "model", "savedmodels/pretrained", "Folder of a pre-trained or fine-tuned model."
)
_OUTPUT = flag_types.define_path(
    "output", "savedmodels/hub", "Folder to write encoder/ and preprocess/ to."
)


def main() -> None:
    """Exports as the flags say."""
    from bert_tf.export import hub, sources

    model = _MODEL.value.rstrip("/")
    source = sources.read(model)
    encoder, preprocess = hub.export(source, _OUTPUT.value)
    print(f"{encoder}: the encoder\n{preprocess}: the preprocessor")
