"""Goes through everything once, with a model of debug size: python -m tests.smoke.

Each command is the real one; what is small is the corpus, the model and the number of steps.
"""

import json
import pathlib
import tempfile
import time

from pipelines.common import quiet_start

quiet_start.import_silently()

from tests import commands  # noqa: E402  (TensorFlow is there by now)
from tests.bert_tf import labelled_data  # noqa: E402


def main() -> None:
    """Runs all steps, and prints how long each took."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        corpus = f"{root}/corpus.txt"
        _step("make-corpus", f"--output={corpus}", "--documents=150")
        for family in ("bert", "roberta"):
            (root / family).mkdir()
            _family(root / family, corpus, family == "roberta")
    print(f"all well, {time.perf_counter() - begin:.0f} s")


def _family(root: pathlib.Path, corpus: str, roberta: bool) -> None:
    """From text to an answer, for BERT or for RoBERTa."""
    text = (f"--corpus={corpus}", "--format=sentences")
    vocab = f"{root}/vocabulary" if roberta else f"{root}/vocab.txt"
    kind = "byte_bpe" if roberta else "wordpiece"
    _step("learn-vocabulary", *text, f"--output={vocab}", f"--kind={kind}", "--vocab_size=700")
    how = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=1"]
    if roberta:
        how += ["--objective=mlm", "--sequences=full_sentences", "--masking=dynamic"]
    examples = f"{root}/examples"
    _step(
        "write-examples", *text, f"--vocab={vocab}", f"--output={examples}",
        "--held_out_fraction=0.1", "--workers=2", *how,
    )  # fmt: skip
    _step("show-examples", f"--tfrecords={examples}", "--count=1")
    model = f"{root}/pretrained"
    _step(
        "pretrain", f"--tfrecords={examples}", f"--output={model}", "--steps=30",
        f"--model={'roberta-debug' if roberta else 'debug'}", "--batch_size=16",
        "--learning_rate=1e-3", "--warmup_steps=5", "--steps_per_execution=10",
    )  # fmt: skip
    (root / "texts").mkdir()
    texts = labelled_data.make_texts(root / "texts", train=64, dev=16)
    tuned = f"{root}/tuned"
    _step(
        "finetune", "--task=mood=classification", f"--data={texts}", f"--init={model}",
        f"--output={tuned}", f"--cache={root}/cache", "--epochs=1", "--max_seq_length=32",
    )  # fmt: skip
    _step("predict", f"--model={tuned}", f"--input={texts}/test.tsv", f"--output={root}/answers")
    vectors = f"{root}/vectors.npy"
    _step("embed", f"--model={model}", f"--input={texts}/test.tsv", f"--output={vectors}")
    features = f"{root}/features"
    _step("features", f"--model={tuned}", f"--input={texts}/test.tsv", f"--output={features}")
    _step("neighbours", f"--vectors={vectors}", f"--model={model}", "--query=a good film")
    foreign = f"{root}/hugging_face"
    _step("convert", f"--input={tuned}", f"--output={foreign}", "--format=huggingface")
    _step("convert", f"--input={foreign}", f"--output={root}/back")
    export = f"{root}/export"
    _step("export", f"--tasks=mood={root}/back pretrained={model}", f"--output={export}")
    inputs = json.dumps({"text": ["a good film"]})
    answer = _step("ask", f"--model={export}", "--signature=mood", f"--inputs={inputs}")
    assert json.loads(answer)["label"][0] in ("pos", "neg"), answer
    _step("export-hub", f"--model={model}", f"--output={root}/hub")


def _step(command: str, *flags: str) -> str:
    """Runs a command that must end well; returns what it printed."""
    begin = time.perf_counter()
    said = commands.done(command, *flags).stdout
    last = (said.strip().splitlines() or [""])[-1]
    print(f"{time.perf_counter() - begin:5.1f} s  {command:17} {last[:90]}", flush=True)
    return said


if __name__ == "__main__":
    main()
