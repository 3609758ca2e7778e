"""The README.md of an export."""

import json
from collections.abc import Mapping
from typing import Any

from bert_tf import tasks
from bert_tf.models import configs
from pipelines.common.texts import counted

# What the signatures of pre-trained models return; shapes of tasks describe theirs.
_PRETRAINED = {
    "layers": "the mean over the tokens of each layer's output, without the embeddings",
    "mean_output": "the mean of the last layer over the tokens: the embedding of the text",
    "pooled_output": "the pooled first token",
    "probabilities": "the probabilities of the guesses",
    "text": "the text that the model writes: what follows, or what the source becomes",
    "tokens": "the best guesses for each mask; of `generate_ids`, the tokens of the text",
}


def render(manifest: dict[str, Any]) -> str:
    """The model card of an export, in Markdown, from its manifest."""
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    titles = dict.fromkeys(configs.of_dict(model["config"]).title for model in manifest["models"])
    lines = [
        f"# {' and '.join(titles)}, exported by bert-tf",
        "",
        f"Runs in TensorFlow Serving {manifest['oldest_serving']} and later, and wherever "
        "TensorFlow loads a SavedModel (with the ops of tensorflow-text).",
        f"{manifest['parameters']:,} parameters in {manifest['precision']}, "
        f"{counted(manifest['encoders'], 'encoder')}. Made on {manifest['date']} with {versions}.",
        "",
        "## Models",
    ]
    for model in manifest["models"]:
        lines += ["", *_model(model)]
    if manifest.get("reduced"):
        lines += ["", "## Precision", "", "Scores on dev, checked when this was exported.", ""]
        lines += [reduced(each) for each in manifest["reduced"]]
    lines += ["", "## Signatures", ""]
    lines += ["| name | takes | returns | interface |", "|---|---|---|---|"]
    for name, signature in manifest["signatures"].items():
        takes, returns = (_tensors(signature[kind]) for kind in ("inputs", "outputs"))
        interface = signature["method"].rsplit("/", 1)[-1]
        lines.append(f"| `{name}` | {takes} | {returns} | {interface} |")
    lines += ["", "| output | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in _outputs(manifest).items()]
    lines += [
        "",
        "The first axis is the batch; … is any length. Labels are in `assets.extra/labels.json`,",
        "requests (for warm-up) next to them. Texts that exceed a sequence are cut (prompts at the",
        "beginning); contexts of questions and texts to tag are computed in several windows, and",
        "texts to classify and contexts of choices too, if the task says so.",
    ]
    return "\n".join(lines) + "\n"


def _outputs(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What each output is, by name."""
    models = manifest["models"]
    shapes = [tasks.shapes()[task["shape"]] for model in models for task in model["tasks"]]
    sources = [shape.texts.get("outputs", {}) for shape in shapes]
    if any(not model["tasks"] for model in models):
        sources.append(_PRETRAINED)
    names = {name for signature in manifest["signatures"].values() for name in signature["outputs"]}
    return {
        name: "; ".join(dict.fromkeys(source[name] for source in sources if name in source))
        for name in sorted(names)
    }


def _tensors(specs: dict[str, Any]) -> str:
    """Names, types and shapes of inputs or outputs."""
    return ", ".join(
        f"`{key}` {dtype} [{', '.join('…' if size is None else str(size) for size in shape)}]"
        for key, (dtype, shape) in specs.items()
    )


def _model(model: dict[str, Any]) -> list[str]:
    size = configs.of_dict(model["config"]).size
    lines = [f"`{model['name']}` ({size}; weights {model['weights_sha256'][:12]})."]
    lines += [f"- Task `{task['name']}`: {_task(task)}." for task in model["tasks"]]
    if not model["tasks"]:
        lines.append("- Pre-trained, without a task.")
    lines += [f"- {_data(name, data)}" for name, data in model["data"].items()]
    if settings := model.get("generation"):
        lines.append(f"- Writes texts with these settings: {json.dumps(settings)}.")
    for what, scores in model["scores"].items():
        shown = {name: round(value, 4) for name, value in scores.items() if value is not None}
        if shown:
            median = ", the median of all seeds" if what == "dev_median" else ""
            lines.append(f"- Scores on dev{median}: {json.dumps(shown)}.")
    return lines


def reduced(found: Mapping[str, Any]) -> str:
    """A score of a task in a precision lower than float32, as a line."""
    return (
        f"- `{found['task']}` in {found['precision']} ({found['engine']}): "
        f"{found['metric']} {found['score']:.4f}, in float32 {found['full']:.4f}."
    )


def _data(task: str, data: dict[str, Any]) -> str:
    """The training data of a model, as described in its report."""
    sizes = ", ".join(f"{count:,} {split}" for split, count in data.get("examples", {}).items())
    source = data.get("source", "not named")
    given = f", licence {data['license']}" if "license" in data else ""
    return f"Data{f' of `{task}`' if task else ''}: {source}{given} (examples: {sizes})."


def _task(task: dict[str, Any]) -> str:
    labels = task["labels"]
    shown = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    named = f", labels {shown}" if labels else ""
    context = (
        "; trained with document context, which the signature does not have"
        if task.get("document_context")
        else ""
    )
    windows = f", up to {task['windows']} windows" if task.get("windows", 1) > 1 else ""
    length = f"up to {task['max_seq_length']} tokens a sequence"
    return f"{task['shape']}, {length}{windows}{named}{context}"
