"""The README.md of an export."""

import json
from typing import Any


def render(manifest: dict[str, Any]) -> str:
    """The model card of an export, in Markdown, from its manifest."""
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    lines = [
        "# BERT, exported by bert-tf",
        "",
        f"Runs in TensorFlow Serving {manifest['oldest_serving']} and later, and wherever "
        "TensorFlow loads a SavedModel (with the ops of tensorflow-text).",
        f"{manifest['parameters']:,} parameters in {manifest['precision']}, "
        f"{manifest['encoders']} encoder(s). Made with {versions}.",
        "",
        "## Models",
    ]
    for model in manifest["models"]:
        lines += ["", *_model(model)]
    lines += ["", "## Signatures", "", "| name | inputs | interface |", "|---|---|---|"]
    for name, signature in manifest["signatures"].items():
        inputs = ", ".join(
            f"`{key}` {dtype} [{', '.join('…' if size is None else str(size) for size in shape)}]"
            for key, (dtype, shape) in signature["inputs"].items()
        )
        lines.append(f"| `{name}` | {inputs} | {signature['method'].rsplit('/', 1)[-1]} |")
    lines += [
        "",
        "Offsets (`start`, `starts`, ...) count UTF-8 bytes; `..._character(s)` count characters.",
        "Texts that exceed a sequence are cut (classification, regression, choices), or computed",
        "in several windows (spans, tags). Requests are in `assets.extra`, as warm-up.",
    ]
    return "\n".join(lines) + "\n"


def _model(model: dict[str, Any]) -> list[str]:
    config = model["config"]
    size = (
        f"{config['num_hidden_layers']} layers, {config['hidden_size']} wide, "
        f"{config['num_attention_heads']} heads, {config['vocab_size']:,} tokens"
    )
    lines = [f"From `{model['folder']}` ({size}; weights {model['weights_sha256'][:12]})."]
    lines += [f"- Task `{task['name']}`: {_task(task)}." for task in model["tasks"]]
    if not model["tasks"]:
        lines.append("- Pre-trained, without a task.")
    median = (model["scores"] or {}).get("median")
    if median:
        shown = {name: round(value, 4) for name, value in median.items() if value is not None}
        lines.append(f"- Scores on dev: {json.dumps(shown)}.")
    return lines


def _task(task: dict[str, Any]) -> str:
    labels = task["labels"]
    shown = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    named = f", labels {shown}" if labels else ""
    context = (
        "; trained with document context, which the signature does not have"
        if task.get("document_context")
        else ""
    )
    return f"{task['shape']}, up to {task['max_length']} tokens a sequence{named}{context}"
