r"""Exports models for LiteRT and ONNX Runtime: the signatures that take token ids.

  bert-tf export-portable --tasks=mrpc,pos --output=savedmodels/portable
  bert-tf export-portable --tasks=mrpc --precision=int8 --dev=mrpc=glue/MRPC/dev.tsv

A report next to the files gives the differences of their answers from those of the original.
"""

from absl import flags

from bert_tf.commands.flag_texts import DEV_HELP, MAX_LOSS_HELP, RUNTIMES, TASKS_HELP
from bert_tf.serving.plan import Precision
from pipelines.common import flag_types
from pipelines.common.errors import InputError

_TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
_OUTPUT = flag_types.define_path("output", "savedmodels/portable", "Folder to write to.")
_FORMATS = flags.DEFINE(
    flag_types.ChoiceParser(RUNTIMES, several=True), "format", RUNTIMES, "Formats to write."
)
_PRECISION = flags.DEFINE(
    flag_types.ChoiceParser((Precision.FLOAT32, Precision.INT8)),
    "precision",
    "float32",
    "Data type of the weights. int8: each task in int8, too, in the formats that keep all scores.",
)
_DEV = flags.DEFINE_string("dev", "", DEV_HELP)
_MAX_LOSS = flags.DEFINE(
    flag_types.NumberParser(float, minimum=0), "max_loss", 0.005, MAX_LOSS_HELP
)


def main() -> None:
    """Exports as the flags say."""
    from bert_tf.export import model_card, portable, sources
    from pipelines.common import path_lists

    precision, check = Precision(_PRECISION.value), None
    if _DEV.value and precision is Precision.FLOAT32:
        raise InputError("--dev: is for a lower --precision, which is scored on it; leave it out.")
    formats = [portable.Runtime(name) for name in _FORMATS.value]
    found = sources.find(path_lists.entries(_TASKS.value))
    if precision is Precision.INT8:
        from bert_tf.serving.reduced_precision import ScoreCheck

        engines = [portable.ENGINES[runtime] for runtime in formats]
        check = ScoreCheck.from_flags(found, precision, _DEV.value, _MAX_LOSS.value, engines)
    report = portable.export(found, _OUTPUT.value, formats, check)
    for name, entry in report.items():
        largest = max(entry["largest_difference"].values())
        print(
            f"{name}: {entry['bytes'] / 1e6:.1f} MB, differs by at most {largest:.2g}, "
            f"cosine {min(entry['cosine'].values()):.6f}"
        )
        if "score" in entry:
            print(model_card.reduced(entry["score"]).removeprefix("- "))
