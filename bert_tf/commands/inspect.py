r"""Writes a page that shows what goes on inside a model, or in a run of pre-training.

  bert-tf inspect --model=savedmodels/pretrained --sentence='It [MASK] all day.'
  bert-tf inspect --model=savedmodels/finetuned/mrpc --sentence='It rained.' --second='Rain fell.'
  bert-tf inspect --model=savedmodels/pretrained --output=run.html

The page is a single file for any browser. For a model it shows tokens, attention, predictions for
masked tokens and, if the model has a task, the answer and the tokens that contribute to it; for a
run its curves, its predictions at each checkpoint, and neighbours of words.
"""

import functools

from absl import flags
from tqdm import tqdm

from bert_tf.inspection.settings import InspectionSettings
from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_MODEL = flags.DEFINE_string(
    "model",
    "savedmodels/pretrained",
    "The model: any that `bert-tf convert` reads, fine-tuned or not; without --sentence, the "
    "folder of a run of pre-training.",
)
_SENTENCE = flags.DEFINE_string(
    "sentence",
    None,
    "The text for the model to read; write a mask as in the vocabulary, such as [MASK]. For a "
    "pair the first text, for question answering the question. Not given: the run is inspected.",
)
_SECOND = flag_types.define_texts(
    "second",
    "The second text of a pair, or the context of a question; for multiple choice, each of the "
    "choices. Not given: --sentence alone.",
)
_OUTPUT = flag_types.define_path("output", "inspect.html", "Page to write.")
with flag_types.group(Group.MODEL):
    _TASK = flags.DEFINE_string(
        "task", None, "Name of the task, if the model has several. Not given: the only one."
    )
InspectionSettings.define_flags()


def main() -> None:
    """Writes the page that the flags describe.

    Raises:
      InputError: the sentence is missing or empty, or the model cannot be inspected.
    """
    from bert_tf.inspection import pages
    from bert_tf.inspection.pages import PageKind

    settings, output = InspectionSettings.from_flags(), _OUTPUT.value
    path, sentence = _MODEL.value.rstrip("/"), _SENTENCE.value
    if not (sentence or "").strip() and (sentence is not None or _SECOND.value or _TASK.value):
        raise InputError("give the model a text to read, with SENTENCE= (--sentence).")
    pages.check_output(output)
    if sentence is None:
        from bert_tf.inspection import run_page

        kind, data = PageKind.RUN, run_page.inspect(path)
    else:
        from bert_tf.inspection import model_page

        progress = functools.partial(tqdm, desc="guess", unit="batch")
        texts = [sentence, *_SECOND.value]
        kind, data = (
            PageKind.MODEL,
            model_page.inspect(path, texts, settings, _TASK.value, progress),
        )
    page = pages.render(kind, f"{path.rsplit('/', 1)[-1]}: {sentence or 'a run'}", data)
    pages.write(output, page)
    held = ", ".join(f"{name} {len(part) / 1024:,.0f} KiB" for name, part in data.parts.items())
    print(f"{output}: {len(page.encode()) / 1024:,.0f} KiB{f' ({held})' if held else ''}")
