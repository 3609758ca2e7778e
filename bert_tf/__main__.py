"""All commands: bert-tf COMMAND [flags], or python -m bert_tf COMMAND [flags]."""

import os
import sys

import bert_tf
from pipelines.common import command_line, flag_help, flag_types, stopping

# The module of each command, and its summary.
COMMANDS = {
    "make-corpus": ("pipelines.commands.make_corpus", "Write the built-in corpus"),
    "make-labelled": ("pipelines.commands.make_labelled", "Write the built-in labelled texts"),
    "learn-vocabulary": ("pipelines.commands.learn_vocabulary", "Learn a vocabulary from a corpus"),
    "write-examples": ("pipelines.commands.write_examples", "Write pre-training examples"),
    "adopt-examples": ("pipelines.commands.adopt_examples", "Adopt TFRecords of other programs"),
    "show-examples": ("pipelines.commands.show_examples", "Print a few examples"),
    "pretrain": ("bert_tf.commands.pretrain", "Pre-train on examples"),
    "distill": ("bert_tf.commands.distill", "Distil a model into a smaller one"),
    "finetune": ("bert_tf.commands.finetune", "Fine-tune for a task"),
    "train-embeddings": ("bert_tf.commands.finetune", "Fine-tune embeddings of texts"),
    "experiments": ("bert_tf.commands.experiments", "Repeat the studies of the paper"),
    "predict": ("bert_tf.commands.predict", "Predict for the examples of a file"),
    "generate": ("bert_tf.commands.generate", "Continue a text with a language model"),
    "perplexity": ("bert_tf.commands.perplexity", "Score a text file with a language model"),
    "embed": ("bert_tf.commands.embed", "Write vectors of texts"),
    "features": ("bert_tf.commands.features", "Write features of tokens, words or texts"),
    "neighbours": ("bert_tf.commands.neighbours", "Find the nearest neighbours of texts"),
    "mine-negatives": (
        "bert_tf.commands.mine_negatives",
        "Find similar texts that do not belong together",
    ),
    "inspect": ("bert_tf.commands.inspect", "Inspect a model or a run on a page"),
    "extend-vocabulary": (
        "bert_tf.commands.extend_vocabulary",
        "Add words of a field to a model's vocabulary",
    ),
    "convert": ("bert_tf.commands.convert", "Convert a model from and to other formats"),
    "export": ("bert_tf.commands.export", "Export a SavedModel for TensorFlow Serving"),
    "export-hub": ("bert_tf.commands.export_hub", "Export encoder and preprocessor for TF Hub"),
    "export-portable": ("bert_tf.commands.export_portable", "Export for LiteRT and ONNX"),
    "serve": ("bert_tf.commands.serve", "Serve an export over gRPC and REST"),
    "demo": ("bert_tf.commands.demo", "Show a model on a page in a browser"),
    "ask": ("bert_tf.commands.ask", "Send a request to a server or an export"),
    "clean": ("bert_tf.commands.clean", "Remove pre-training runs, and caches"),
}

# Flags that a command gives to its module.
PRESETS = {"train-embeddings": {"task": "embedding"}}


def main() -> None:
    """Runs a command; an unknown name is one line and exit status 2."""
    stopping.end_at_once()
    program, *arguments = sys.argv
    program = os.path.basename(program)
    program = "python -m bert_tf" if program == "__main__.py" else program
    name, *rest = arguments or ["--help"]
    if name in ("--help", "-h", "help"):
        flag_help.show(_usage(program))
        return
    if name == "--version":
        print(f"bert-tf {bert_tf.__version__}")
        return
    if name not in COMMANDS:
        hint = flag_types.did_you_mean(name, COMMANDS)
        print(f"error: unknown command {name}{hint} (--help lists all)", file=sys.stderr)
        sys.exit(command_line.BAD_INPUT)
    others = {
        command: module for command, (module, _) in COMMANDS.items() if command not in PRESETS
    }
    module, presets = COMMANDS[name][0], PRESETS.get(name, {})
    command_line.run(f"{program} {name}", module, rest, others, presets)


def _usage(program: str) -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    about = f"usage: {program} COMMAND [--flag=value ...]; COMMAND --help lists its flags"
    version = f"       {program} --version"
    return "\n".join([about, version, "", *lines])


if __name__ == "__main__":
    main()
