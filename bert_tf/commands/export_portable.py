r"""Exports models for LiteRT and ONNX Runtime: the signatures that take token ids.

  bert-tf export-portable --tasks=mrpc,pos --output=savedmodels/portable
  bert-tf export-portable --tasks=mrpc --precision=int8 --dev=mrpc=glue/MRPC/dev.tsv
  bert-tf export-portable --tasks=mrpc --format=huggingface --output=savedmodels/web

A report next to the files gives the differences of their answers from those of the original.
"""

from typing import Annotated

from bert_tf.commands.export_flags import ExportFlags
from bert_tf.serving.plan import Precision
from pipelines.common.flag_types import Path, choice, choices

RUNTIMES = ("litert", "onnx")  # `export.portable.TARGETS`, without TensorFlow
FORMATS = (*RUNTIMES, "huggingface")  # `export.portable.HUGGING_FACE`
_PRECISION = choice((Precision.FLOAT32, Precision.INT8))


def main(
    *,
    models: ExportFlags,
    output: Path = "savedmodels/portable",
    format: Annotated[tuple, choices(FORMATS)] = RUNTIMES,
    precision: Annotated[Precision, _PRECISION] = Precision.FLOAT32,
) -> None:
    """Exports as the flags say.

    Flags:
      output: Folder to write to.
      format: Formats to write; huggingface: a folder for each model as transformers.js, fastembed
        and text-embeddings-inference read it (config.json, tokenizer.json, onnx/model.onnx).
      precision: Data type of the weights. int8: each task in int8, too, in the formats that keep
        all scores.
    """
    from bert_tf.export import model_card, portable
    from pipelines.common import files

    files.check_absent(output)
    found = models.sources(precision)
    # The folders are of ONNX.
    runtimes = dict.fromkeys("onnx" if name == portable.HUGGING_FACE else name for name in format)
    engines = [portable.TARGETS[name].engine for name in runtimes]
    check = models.score_check(found, precision, engines)
    report = portable.export(found, output, format, check)
    for name, entry in report.items():
        largest = max(entry["largest_difference"].values())
        print(
            f"{name}: {entry['bytes'] / 1e6:.1f} MB, differs by at most {largest:.2g}, "
            f"cosine {min(entry['cosine'].values()):.6f}"
        )
        if "score" in entry:
            print(model_card.reduced(entry["score"]).removeprefix("- "))
