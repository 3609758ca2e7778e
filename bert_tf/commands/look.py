r"""Writes a page that shows what goes on inside a model, or in a run of pre-training.

  bert-tf look --model=savedmodels/pretrained --text='It [MASK] all day.' --output=look.html
  bert-tf look --model=savedmodels/finetuned/mrpc --text='It rained.' --text_b='Rain fell.'
  bert-tf look --run=savedmodels/pretrained --output=run.html

The page is a single file for any browser. For a model it shows tokens, attention, predictions for
masked tokens and, if the model has a task, the answer and the tokens that contribute to it; for a
run its curves, its predictions at each checkpoint, and neighbours of words.
"""

from typing import TYPE_CHECKING, Any

from absl import flags

from bert_tf.inspection.settings import InspectionSettings
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

if TYPE_CHECKING:
    from bert_tf.inspection.pages import PageData

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "The model: any that `bert-tf convert` reads, fine-tuned or not. Not given: --run is "
    "inspected.",
)
_TEXT = flags.DEFINE_string(
    "text",
    None,
    "The text for the model to read; write a mask as in the vocabulary, such as [MASK]. For a "
    "pair the first text, for question answering the question. Not given: --run is inspected.",
)
_TEXT_B = flag_types.define_texts(
    "text_b",
    "The second text of a pair, or the context of a question; for multiple choice, each of the "
    "choices. Not given: --text alone.",
)
_RUN = flags.DEFINE_string(
    "run", None, "Folder of a run of pre-training. Not given: --model is inspected."
)
_OUTPUT = flag_types.define_path("output", "look.html", "Page to write.")
with flag_types.group(Group.MODEL):
    _TASK = flags.DEFINE_string(
        "task", None, "Name of the task, if the model has several. Not given: the only one."
    )
InspectionSettings.define_flags()


def main() -> None:
    """Writes the page that the flags describe."""
    texts = _checked()
    settings = InspectionSettings.from_flags()
    from bert_tf.inspection import pages
    from bert_tf.inspection.pages import PageKind

    output = _OUTPUT.value
    pages.check_output(output)
    kind = PageKind.RUN if _RUN.value else PageKind.MODEL
    path = (_RUN.value or _MODEL.value or "").rstrip("/")
    data = _of_run(path) if kind is PageKind.RUN else _of_model(path, texts, settings)
    page = pages.render(kind, f"{path.rsplit('/', 1)[-1]}: {_TEXT.value or 'a run'}", data)
    pages.write(output, page)
    held = ", ".join(f"{name} {len(part) / 1024:,.0f} KiB" for name, part in data.parts.items())
    print(f"{output}: {len(page.encode()) / 1024:,.0f} KiB{f' ({held})' if held else ''}")


def _checked() -> list[str]:
    """The texts.

    Raises:
      InputError: flags are missing, or exclude each other.
    """
    if _RUN.value:
        named = {"--model": _MODEL.value, "--text": _TEXT.value, "--text_b": _TEXT_B.value}
        others = [name for name, value in {**named, "--task": _TASK.value}.items() if value]
        if others:
            raise InputError(f"--run has a page of its own; leave {' and '.join(others)} out.")
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


def _of_model(model: str, texts: list[str], settings: InspectionSettings) -> "PageData":
    from tqdm import tqdm

    from bert_tf.inspection import model_page

    def progress(batches: Any) -> Any:
        return tqdm(batches, desc="guess", unit="batch")

    return model_page.inspect(model, texts, settings, _TASK.value, progress)


def _of_run(folder: str) -> "PageData":
    from bert_tf.inspection import run_page

    return run_page.inspect(folder)
