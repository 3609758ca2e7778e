r"""Exports models for LiteRT and ONNX Runtime: the signatures that take token ids.

bert-tf export-portable --tasks=mrpc,pos --output=savedmodels/portable
"""

from absl import flags

from bert_tf.commands.names import RUNTIMES
from pipelines.common import command_line

_TASKS = flags.DEFINE_string("tasks", "", "As for the command export.")
_OUTPUT = command_line.define_path("output", "savedmodels/portable", "Folder to write to.")
_FORMATS = flags.DEFINE_multi_enum("format", list(RUNTIMES), list(RUNTIMES), "Which formats; all.")


def main() -> None:
    """Exports with the flags given."""
    from bert_tf.export import portable, sources

    formats = [portable.Runtime(name) for name in _FORMATS.value]
    report = portable.export(sources.find(sources.entries_of(_TASKS.value)), _OUTPUT.value, formats)
    for name, entry in report.items():
        largest = max(entry["largest_difference"].values())
        print(
            f"{name}: {entry['bytes'] / 1e6:.1f} MB, differs by {largest:.2g} at most, "
            f"cosine {min(entry['cosine'].values()):.6f}"
        )
