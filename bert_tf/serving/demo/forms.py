"""What the page has to know of each signature that takes raw text."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from bert_tf import tasks
from bert_tf.serving.demo import samples
from bert_tf.serving.demo.samples import Sample
from bert_tf.tasks import Task

_MASK = "[MASK]"  # of exports from before the manifest had it
# What the labels of known data sets say, where they are numbers.
_MEANINGS = {
    "cola": ("not acceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not a paraphrase", "paraphrase"),
    "qqp": ("not a duplicate", "duplicate"),
    "wnli": ("not entailed", "entailed"),
}
_NUMBERS = ("0", "1")


@dataclasses.dataclass(frozen=True)
class SignatureForm:
    """A signature, as the page has it.

    Attributes:
      name: of the signature.
      shape: of its answer: that of the task, "tagging_words", or the name of a signature of
        pre-trained models.
      sample: texts to begin with, by the field of the form.
      inputs: their names.
      outputs: theirs; the only one comes without its name.
      labels: in the order of probabilities.
      meanings: what labels say that are numbers; none where they are words.
      bounds: the least and the greatest score, if they are known.
      longest: tokens of a sequence; None: as many as the model takes.
      mask: what stands for a mask in a text; None: nothing does.
    """

    name: str
    shape: str
    sample: Sample
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    longest: int | None = None
    mask: str | None = None


def of_manifest(manifest: Mapping[str, Any]) -> list[SignatureForm]:
    """The forms of an export, in the order of its signatures.

    Args:
      manifest: of the export.
    """
    found = {form.name: form for model in manifest["models"] for form in _of_model(model)}
    return [
        dataclasses.replace(
            found[name], inputs=tuple(signature["inputs"]), outputs=tuple(signature["outputs"])
        )
        for name, signature in manifest["signatures"].items()
        if name in found
    ]


def _of_model(model: Mapping[str, Any]) -> Iterator[SignatureForm]:
    for entry in model["tasks"]:
        yield from _of_task(tasks.load(entry))
    if not model["tasks"]:
        mask = model.get("mask_token", _MASK)
        yield SignatureForm("fill_mask", "fill_mask", samples.of_mask(mask), mask=mask)
        for name in ("embed", "embed_layers"):
            yield SignatureForm(name, name, samples.SENTENCES)


def _of_task(task: Task) -> Iterator[SignatureForm]:
    form = SignatureForm(
        task.name,
        task.shape,
        samples.of_task(task.kind, task.shape),
        labels=task.labels,
        meanings=_MEANINGS.get(task.kind, ()) if task.labels == _NUMBERS else (),
        bounds=getattr(task, "bounds", None),
        longest=task.max_length,
    )
    yield form
    if task.shape == "tagging":
        name = f"{task.name}_words"
        words = {"words": form.sample["text"]}
        yield dataclasses.replace(form, name=name, shape="tagging_words", sample=words)
