"""All commands: python -m bert_tf COMMAND [flags]."""

import difflib
import runpy
import sys

# What each does, by its name; it is the module's __main__.
COMMANDS = {
    "make-corpus": ("pipelines.commands.make_corpus", "Write the built-in corpus"),
    "learn-vocabulary": ("pipelines.commands.learn_vocabulary", "Learn a vocabulary from a corpus"),
    "write-examples": (
        "pipelines.commands.write_examples",
        "Write pre-training examples as TFRecords",
    ),
    "adopt-examples": (
        "pipelines.commands.adopt_examples",
        "Take over another program's TFRecords",
    ),
    "show-examples": ("pipelines.commands.show_examples", "Print a few examples"),
    "pretrain": ("bert_tf.commands.pretrain", "Pre-train on TFRecords"),
    "finetune": ("bert_tf.commands.finetune", "Fine-tune for a task"),
    "predict": ("bert_tf.commands.predict", "Predict for the examples of a file"),
    "convert": ("bert_tf.commands.convert", "Convert a model from and to other formats"),
    "export": ("bert_tf.commands.export", "Export a SavedModel for TensorFlow Serving"),
    "export-hub": (
        "bert_tf.commands.export_hub",
        "Export a TF Hub pair of encoder and preprocessor",
    ),
    "export-portable": ("bert_tf.commands.export_portable", "Export for LiteRT and ONNX"),
    "serve": ("bert_tf.commands.serve", "Serve an export with TensorFlow Serving"),
    "ask": ("bert_tf.commands.ask", "Ask a server, or an export in this process"),
    "clean": ("bert_tf.commands.clean", "Remove what make pretrain left"),
}


def main(argv: list[str]) -> None:
    """Runs the command that is named; a wrong name is one line and exit status 2."""
    name, *rest = argv[1:] or ["--help"]
    if name in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        print("usage: python -m bert_tf COMMAND [flags]; COMMAND --help lists its flags\n")
        print("\n".join(f"  {key:{width}}  {text}" for key, (_, text) in COMMANDS.items()))
        return
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"error: there is no command {name!r}{hint} (--help lists all)", file=sys.stderr)
        sys.exit(2)
    module, _ = COMMANDS[name]
    sys.argv = [f"bert_tf {name}", *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv)
