"""Pre-training runs of a very small model, as commands."""

from tests import commands
from tests.tiny import tiny_config

MODEL = tiny_config(120)
# Examples that a small model reads soon, some of them held out.
SHORT = ("--max_seq_length=32", "--max_predictions_per_seq=5", "--held_out_fraction=0.1")


def command(tfrecords, model, output, *extra):
    """The words of the command; no SavedModel, which takes as long as the run, unless asked for."""
    return [
        "pretrain", f"--tfrecords={tfrecords}", f"--model={model}",
        f"--output={output}", "--steps=60", "--batch_size=32", "--learning_rate=2e-3",
        "--warmup_steps=10", "--save_every=10", "--log_every=5", "--precision=float32",
        "--nosaved_model", *extra,
    ]  # fmt: skip


def run(*arguments):
    return commands.run(*command(*arguments))


def done(*arguments):
    """Runs the command, which must end well."""
    return commands.done(*command(*arguments))


def write_examples(corpus, vocab, output, *extra):
    commands.done(
        "write-examples", f"--corpus={corpus}", f"--vocab={vocab}", f"--output={output}",
        "--dupe_factor=1", "--workers=1", *extra,
    )  # fmt: skip
