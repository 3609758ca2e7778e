r"""Writes a page that shows what goes on inside a model, or in a run of pre-training.

  bert-tf inspect --model=savedmodels/pretrained --sentence='It [MASK] all day.'
  bert-tf inspect --model=savedmodels/finetuned/mrpc --sentence='It rained.' --second='Rain fell.'
  bert-tf inspect --model=savedmodels/pretrained --output=run.html

The page is a single file for any browser. For a model it shows tokens, attention, predictions for
masked tokens and, if the model has a task, the answer and the tokens that contribute to it; for a
run its curves, its predictions at each checkpoint, and neighbours of words.
"""

import functools
from typing import Annotated

from tqdm import tqdm

from bert_tf.inspection.settings import InspectionSettings
from pipelines.common.errors import InputError
from pipelines.common.flag_types import REPEATED, Group, Path


def main(
    *,
    model: Path = "savedmodels/pretrained",
    sentence: str | None = None,
    second: Annotated[str | None, REPEATED] = None,
    output: Path = "inspect.html",
    task: Annotated[str | None, Group.MODEL] = None,
    settings: InspectionSettings,
) -> None:
    """Writes the page that the flags describe.

    Flags:
      model: The model: any that `bert-tf convert` reads, fine-tuned or not; without --sentence, the
        folder of a run of pre-training.
      sentence: The text for the model to read; write a mask as in the vocabulary, such as [MASK].
        For a pair the first text, for question answering the question. Not given: the run is
        inspected.
      second: The second text of a pair, or the context of a question; for multiple choice, each of
        the choices. Not given: --sentence alone.
      output: Page to write.
      task: Name of the task, if the model has several. Not given: the only one.
    """
    from bert_tf.inspection import pages
    from bert_tf.inspection.pages import PageKind

    if not (sentence or "").strip() and (sentence is not None or second or task):
        raise InputError("give the model a text to read, with SENTENCE= (--sentence).")
    pages.check_output(output)
    if sentence is None:
        from bert_tf.inspection import run_page

        kind, data = PageKind.RUN, run_page.inspect(model)
    else:
        from bert_tf.inspection import model_page

        progress = functools.partial(tqdm, desc="guess", unit="batch")
        texts = [sentence, *(second or ())]
        kind = PageKind.MODEL
        data = model_page.inspect(model, texts, settings, task, progress)
    page = pages.render(kind, f"{model.rsplit('/', 1)[-1]}: {sentence or 'a run'}", data)
    pages.write(output, page)
    held = ", ".join(f"{name} {len(part) / 1024:,.0f} KiB" for name, part in data.parts.items())
    print(f"{output}: {len(page.encode()) / 1024:,.0f} KiB{f' ({held})' if held else ''}")
