r"""Looks inside a model that reads a text, or at a run of pre-training; writes a page.

  bert-tf look --model=savedmodels/pretrained --text='It [MASK] all day.' --output=look.html
  bert-tf look --model=savedmodels/finetuned/mrpc --text='It rained.' --text_b='Rain fell.'
  bert-tf look --run=savedmodels/pretrained --output=run.html

The page is one file that needs nothing else, for any browser. Of a model it shows tokens,
attention, guesses for masked tokens and, of one with a task, the answer and which tokens it comes
from; of a run its curves, what it guessed as it went on, and neighbours of words.
"""

from typing import TYPE_CHECKING, Any

from absl import flags

from bert_tf.inspection.settings import InspectionSettings
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

if TYPE_CHECKING:
    from bert_tf.inspection.look import Look

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "The model: any that `bert-tf convert` reads, fine-tuned or not. Not given: --run is "
    "looked at.",
)
_TEXT = flags.DEFINE_string(
    "text",
    None,
    "What the model is to read; a mask is written as in the vocabulary, such as [MASK]. Of a "
    "pair the first, of a question the question. Not given: --run is looked at.",
)
_TEXT_B = flag_types.define_texts(
    "text_b",
    "The second text of a pair, or the context of a question; of a choice each of the texts "
    "to choose from. Not given: --text alone.",
)
_RUN = flags.DEFINE_string(
    "run", None, "Folder of a run of pre-training. Not given: --model is looked into."
)
_OUTPUT = flag_types.define_path("output", "look.html", "Page to write.")
with flag_types.group(Group.MODEL):
    _TASK = flags.DEFINE_string(
        "task", None, "Which of several tasks of the model. Not given: the only one."
    )
InspectionSettings.define_flags()


def main() -> None:
    """Looks with the flags given."""
    texts = _checked()
    settings = InspectionSettings.from_flags()
    from bert_tf.inspection import pages
    from bert_tf.inspection.pages import Kind

    output = _OUTPUT.value
    pages.check_output(output)
    kind = Kind.RUN if _RUN.value else Kind.MODEL
    path = (_RUN.value or _MODEL.value or "").rstrip("/")
    look = _of_run(path) if kind is Kind.RUN else _of_model(path, texts, settings)
    page = pages.render(kind, f"{path.rsplit('/', 1)[-1]}: {_TEXT.value or 'a run'}", look)
    pages.write(output, page)
    held = ", ".join(f"{name} {len(part) / 1024:,.0f} KiB" for name, part in look.parts.items())
    print(f"{output}: {len(page.encode()) / 1024:,.0f} KiB{f' ({held})' if held else ''}")


def _checked() -> list[str]:
    """The texts.

    Raises:
      InputError: flags are missing, or do not go together.
    """
    if _RUN.value:
        named = {"--model": _MODEL.value, "--text": _TEXT.value, "--text_b": _TEXT_B.value}
        others = [name for name, value in {**named, "--task": _TASK.value}.items() if value]
        if others:
            raise InputError(f"--run is a page of its own; leave {' and '.join(others)} out.")
        return []
    if not _MODEL.value:
        raise InputError(
            "name a model with MODEL= (--model) and a text with SENTENCE= (--text); or a run of "
            "pre-training with --run."
        )
    texts = [_TEXT.value or "", *_TEXT_B.value]
    if not texts[0].strip():
        raise InputError("give the model a text to read, with SENTENCE= (--text).")
    return texts


def _of_model(model: str, texts: list[str], settings: InspectionSettings) -> "Look":
    from tqdm import tqdm

    from bert_tf.inspection import model_look

    def progress(batches: Any) -> Any:
        return tqdm(batches, desc="guess", unit="batch")

    return model_look.look(model, texts, settings, _TASK.value, progress)


def _of_run(folder: str) -> "Look":
    from bert_tf.inspection import run_look

    return run_look.look(folder)
