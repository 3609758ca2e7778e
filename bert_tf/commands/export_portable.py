r"""Exports models for LiteRT and ONNX Runtime: the signatures that take token ids.

  bert-tf export-portable --tasks=mrpc,pos --output=savedmodels/portable

A report next to the files gives the differences of their answers from those of the original.
"""

from absl import flags

from bert_tf.commands.flag_texts import RUNTIMES, TASKS_HELP
from pipelines.common import flag_types

_TASKS = flags.DEFINE_string("tasks", "", TASKS_HELP)
_OUTPUT = flag_types.define_path("output", "savedmodels/portable", "Folder to write to.")
_FORMATS = flags.DEFINE(
    flag_types.ChoiceParser(RUNTIMES, several=True),
    "format",
    RUNTIMES,
    "Formats to write: LiteRT in float32, LiteRT in int8, and ONNX in float32.",
)


def main() -> None:
    """Exports as the flags say."""
    from bert_tf.export import portable, sources
    from pipelines.common import path_lists

    formats = [portable.Runtime(name) for name in _FORMATS.value]
    report = portable.export(sources.find(path_lists.entries(_TASKS.value)), _OUTPUT.value, formats)
    for name, entry in report.items():
        largest = max(entry["largest_difference"].values())
        print(
            f"{name}: {entry['bytes'] / 1e6:.1f} MB, differs by at most {largest:.2g}, "
            f"cosine {min(entry['cosine'].values()):.6f}"
        )
