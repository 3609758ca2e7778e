"""The page of a server, to try its model by hand: one HTML text, made of an export's manifest."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf import tasks
from bert_tf.tasks.shape import Sample
from pipelines.common import html_page
from pipelines.common.html_page import PageFiles

_NUMBERS = ("0", "1")
_SENTENCES: Sample = {
    "query": "Where can I get something to eat?",
    "sentences": [
        "The kitchen is open until ten in the evening.",
        "The train to the coast leaves from platform four.",
        "There is a small restaurant behind the station.",
        "Her brother plays the violin.",
        "Rain is expected on Thursday.",
    ],
}


@dataclasses.dataclass(frozen=True)
class SignatureForm:
    """A signature that takes text, as the page shows it.

    Attributes:
      name: name of the signature.
      shape: what shows its answer, in `SHAPES` of the scripts: the name of the task shape with the
        ending of the signature's name, such as "tagging_words", or the name of the signature.
      sample: texts to start with, by field of the form; there may be more than it has fields.
      inputs: names of the inputs.
      outputs: names of the outputs. A single output comes without its name.
      labels: names of the labels, in the order of probabilities.
      meanings: names of labels that are numbers; empty for others.
      bounds: the lowest and the highest score, if known.
      longest: maximum number of tokens in a sequence; None: as many as the model takes.
      mask: text of the mask token; None if there is none.
      streams: whether the only output, a text, arrives in parts.
    """

    name: str
    shape: str
    sample: Sample
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    labels: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    longest: int | None = None
    mask: str | None = None
    streams: bool = False


def render(manifest: Mapping[str, Any], model_name: str, models: Sequence[str] = ()) -> str:
    """The page. It sends requests to `v1/models/<model_name>`, next to its own address.

    Args:
      manifest: manifest of the export that the server has.
      model_name: the server's name for the model.
      models: the names of its models, if it has several, whose pages are at `?model=<name>`.
    """
    values = {
        "model": model_name,
        "models": models,
        "about": {name: manifest[name] for name in ("parameters", "encoders", "precision", "date")},
        "signatures": [dataclasses.asdict(form) for form in forms(manifest)],
    }
    return html_page.render(
        files(), f"{model_name}: demo", "bert-tf demo", [html_page.json_element("values", values)]
    )


def files() -> PageFiles:
    """The files that the page is made of; the script of a task shape is in the shape's package."""
    shown = (shape for shape in tasks.shapes().values() if shape.has_file("demo.js"))
    scripts = (
        *("places.js", "server.js", "exchange.js", "fields.js", "answers.js", "sentences.js"),
        *(f"{package}:demo.js" for package in dict.fromkeys(shape.package for shape in shown)),
        *("masks.js", "continuation.js", "panel.js", "demo.js"),
    )
    return PageFiles(__package__, "demo.html", ("demo.css",), scripts, asks_its_server=True)


def forms(manifest: Mapping[str, Any]) -> list[SignatureForm]:
    """The forms of an export, in the order of its signatures."""
    entries = [entry for model in manifest["models"] for entry in model["tasks"]]
    trained = [tasks.load(entry) for entry in entries]
    pretrained = [model for model in manifest["models"] if not model["tasks"]]
    found = []
    for name, tensors in manifest["signatures"].items():
        owners = [task for task in trained if f"{name}_".startswith(f"{task.name}_")]
        if name == "generate" and any("generation" in m for m in manifest["models"]):
            found.append(_of_generation(name, tensors, manifest))
        elif pretrained and name in ("fill_mask", "embed", "embed_layers"):
            found.append(_of_pretrained(name, tensors, pretrained[0]))
        elif owners:
            found += _of_task(name, tensors, max(owners, key=lambda task: len(task.name)))
    return found


def _of_task(name: str, tensors: Mapping[str, Any], task: tasks.Task) -> Iterator[SignatureForm]:
    """The form of a signature, if it is the main one of a task or there is a sample for it."""
    texts, inputs = tasks.shapes()[task.shape].texts, tuple(tensors["inputs"])
    samples, meanings = texts.get("samples", {}), texts.get("meanings", {})
    sample = samples.get(task.kind, samples.get(task.shape, {}))
    if name != task.name and not sample.keys() >= set(inputs):
        return
    yield SignatureForm(
        name,
        f"{task.shape}{name.removeprefix(task.name)}",
        {key: [] if len(shape) > 1 else "" for key, (_, shape) in tensors["inputs"].items()}
        | dict(sample),
        inputs,
        tuple(tensors["outputs"]),
        labels=task.labels,
        meanings=tuple(meanings.get(task.kind, ())) if task.labels == _NUMBERS else (),
        bounds=getattr(task, "bounds", None),
        # Each further window adds three quarters of a sequence.
        longest=task.max_seq_length
        + (getattr(task, "windows", 1) - 1) * task.max_seq_length * 3 // 4,
        streams=task.generation is not None and task.generation.beams == 1,
    )


def _of_generation(
    name: str, tensors: Mapping[str, Any], manifest: Mapping[str, Any]
) -> SignatureForm:
    model = next(model for model in manifest["models"] if "generation" in model)
    shape, sample = name, {"text": model["sample"][0].rstrip()}
    if model["config"].get("num_decoder_layers"):  # it writes a text for a text
        shape = "generation"
        sample = tasks.shapes()[shape].texts["samples"][shape]
    inputs, outputs = tuple(tensors["inputs"]), tuple(tensors["outputs"])
    streams = model["generation"]["beams"] == 1
    return SignatureForm(name, shape, sample, inputs, outputs, streams=streams)


def _of_pretrained(
    name: str, tensors: Mapping[str, Any], model: Mapping[str, Any]
) -> SignatureForm:
    inputs, outputs = tuple(tensors["inputs"]), tuple(tensors["outputs"])
    if name != "fill_mask":
        return SignatureForm(name, name, _SENTENCES, inputs, outputs)
    mask = model["mask_token"]
    sample = {"text": mask.join(model["sample"])}
    return SignatureForm(name, name, sample, inputs, outputs, mask=mask)
