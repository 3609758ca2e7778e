"""Computes what fits on a device: the memory of a training step, from the model and XLA's plan.

Variables, gradients and the optimizer's moments follow from the number of weights. What forward and
backward pass keep between them is read from the buffer plan that XLA makes when it compiles the
step (`--xla_dump_to`), which allocates nothing. Plans are made for few layers and two batch sizes;
they grow by the same bytes with each layer and each sequence, which one more plan confirms.

XLA here plans for a CPU and in float32. There it computes bfloat16 by float32 copies, so its plan
says nothing of other devices: what bfloat16 takes is estimated, as half of what float32 keeps and 2
more bytes a weight. Nothing of this is measured on a GPU.

  python -m benchmarks.fits --results=benchmarks/fits.json
"""

import argparse
import glob
import itertools
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import json_of

SIZES, LENGTHS, DEVICES = ("base", "large"), (128, 512), (8, 12, 16, 24, 40, 80)
_VOCABULARY = 30522
_LAYERS, _BATCHES = (2, 4), (8, 16)  # of the plans that the others follow from
_CHECKED = ("base", 128, 6, 24)  # size, length, layers and batch of the plan that confirms them
_PREDICTIONS_A_TOKEN = 0.15
_RESERVED = 0.1  # of a device: TensorFlow, libraries, fragments
_VARIABLES = 12  # bytes a weight, all the time: itself and two moments, float32
_GRADIENT = 4  # bytes a weight, while a step is computed; twice while they are clipped
_BFLOAT16_COPY = 2  # bytes a weight


def temporaries(size: str, length: int, layers: int, batch: int, rematerialize: bool) -> int:
    """Bytes that XLA plans for what is neither an argument nor a result of the compiled step."""
    with tempfile.TemporaryDirectory() as dump:
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={dump} --xla_dump_hlo_as_text"
        _compile(size, length, layers, batch, rematerialize)
        (path,) = glob.glob(f"{dump}/*plain_gradients*buffer-assignment.txt")
        text = Path(path).read_text("utf-8")
    return sum(map(int, re.findall(r"^allocation \d+: size (\d+), preallocated-temp", text, re.M)))


def _compile(size: str, length: int, layers: int, batch: int, rematerialize: bool) -> None:
    """Compiles forward and backward pass of the pre-training step; nothing is run."""
    import dataclasses

    import tensorflow as tf

    from bert_tf.models import configs
    from bert_tf.models.config import BertConfig
    from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
    from bert_tf.training.adamw import AdamW
    from bert_tf.training.settings import Compilation
    from bert_tf.training.step import TrainingStep

    config = configs.named(size, vocab_size=_VOCABULARY)
    assert isinstance(config, BertConfig)
    model = MaskedLMNextSentence(dataclasses.replace(config, num_hidden_layers=layers))
    step = TrainingStep(
        model,
        AdamW(1e-4),  # not built: its moments are counted by their bytes
        tf.distribute.get_strategy(),
        compilation=Compilation.STEP,
        rematerialize=rematerialize,
    )
    predictions = round(_PREDICTIONS_A_TOKEN * length)
    features = {
        **dict.fromkeys(("input_word_ids", "input_mask", "input_type_ids"), (length,)),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids"), (predictions,)),
        "next_sentence_labels": (),
    }
    examples = {name: tf.zeros((batch, *shape), tf.int32) for name, shape in features.items()}
    examples["masked_lm_weights"] = tf.ones((batch, predictions))
    # The compiled part of the step alone: the update follows it, when activations are gone.
    function = step._gradients.experimental_get_compiler_ir(
        examples, model.totals(examples), tf.constant(0)
    )
    function(stage="optimized_hlo")


def _planned(*shape: Any, rematerialize: bool) -> int:
    """`temporaries` in a process of its own, which XLA reads its flags once in."""
    command = [sys.executable, "-m", "benchmarks.fits", "--plan", *map(str, shape)]
    return json_of([*command, *(["--rematerialize"] if rematerialize else [])])["bytes"]


class Growth:
    """Bytes of temporaries for any number of layers and sequences.

    Args:
      planned: bytes by layers and batch, for each of _LAYERS and _BATCHES.
    """

    def __init__(self, planned: dict[tuple[int, int], int]):
        (few, many), (small, large) = _LAYERS, _BATCHES
        by_layer = {b: (planned[many, b] - planned[few, b]) / (many - few) for b in _BATCHES}
        rest = {b: planned[few, b] - few * by_layer[b] for b in _BATCHES}
        self.a_layer_and_sequence = (by_layer[large] - by_layer[small]) / (large - small)
        self.a_layer = by_layer[small] - small * self.a_layer_and_sequence
        self.a_sequence = (rest[large] - rest[small]) / (large - small)
        self.fixed = rest[small] - small * self.a_sequence

    def of(self, layers: int, batch: int) -> float:
        """Bytes for so many layers and sequences.

        What does not grow with the batch may be negative: room that is meant for the results
        serves as temporaries before they are computed.
        """
        return self.fixed + layers * self.a_layer + batch * self.of_sequence(layers)

    def of_sequence(self, layers: int) -> float:
        """Bytes that a further sequence takes."""
        return self.a_sequence + layers * self.a_layer_and_sequence


def most_sequences(
    gigabytes: float, weights: int, layers: int, growth: Growth, bfloat16: bool
) -> int:
    """How many sequences of a step a device holds at once; 0: not one.

    Args:
      gigabytes: of the device, 2^30 bytes each.
      weights: of the model.
      layers: of it.
      growth: of the temporaries, in float32.
      bfloat16: whether activations are.
    """
    room = gigabytes * 2**30 * (1 - _RESERVED) - _VARIABLES * weights
    if room < 2 * _GRADIENT * weights:  # of the update, gradients and clipped ones
        return 0
    room -= _GRADIENT * weights + growth.of(layers, 0)
    if bfloat16:
        room -= _BFLOAT16_COPY * weights
    sequence = growth.of_sequence(layers) * (0.5 if bfloat16 else 1)
    return max(0, int(room // sequence))


def _weights(size: str) -> tuple[int, int]:
    """Weights and layers of a size, pre-training heads included."""
    from bert_tf.models import configs, encoders

    config = configs.named(size, vocab_size=_VOCABULARY)
    width = config.hidden_size
    masked_lm = width * (width + 1) + 2 * width + _VOCABULARY  # its output is the word embeddings
    next_sentence = 2 * (width + 1)
    parameters = encoders.unallocated(config).parameters
    return parameters + masked_lm + next_sentence, config.num_hidden_layers


def compute(rematerialize: bool) -> list[dict[str, Any]]:
    """Plans, and what follows from them: a row for each size, length and precision."""
    rows = []
    for size, length in itertools.product(SIZES, LENGTHS):
        planned = {
            (layers, batch): _planned(size, length, layers, batch, rematerialize=rematerialize)
            for layers, batch in itertools.product(_LAYERS, _BATCHES)
        }
        growth = Growth(planned)
        weights, layers = _weights(size)
        found = {
            "size": size,
            "length": length,
            "rematerialize": rematerialize,
            "weights": weights,
            "fixed_bytes": round(growth.of(layers, 0)),
            "bytes_a_sequence": round(growth.of_sequence(layers)),
        }
        if (size, length) == _CHECKED[:2]:
            direct = _planned(*_CHECKED, rematerialize=rematerialize)
            found["planned_to_computed"] = direct / growth.of(*_CHECKED[2:])
        for precision in ("float32", "bfloat16"):
            most = {
                f"{gigabytes} GB": most_sequences(
                    gigabytes, weights, layers, growth, precision == "bfloat16"
                )
                for gigabytes in DEVICES
            }
            rows.append(found | {"precision": precision, "most_sequences": most})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [f"| | {' | '.join(f'{gigabytes} GB' for gigabytes in DEVICES)} |"]
    lines.append("|---" * (1 + len(DEVICES)) + "|")
    for found in rows:
        name = f"{found['size'].capitalize()}, {found['length']}, {found['precision']}"
        name += ", `--rematerialize`" if found["rematerialize"] else ""
        most = (f"{count:,}" if count else "–" for count in found["most_sequences"].values())
        lines.append(f"| {name} | {' | '.join(most)} |")
    return "\n".join(lines)


def main() -> None:
    """Makes all plans, or with --plan a single one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", default="benchmarks/fits.json")
    parser.add_argument("--plan", nargs=4, metavar=("SIZE", "LENGTH", "LAYERS", "BATCH"))
    parser.add_argument("--rematerialize", action="store_true", help="with --plan")
    args = parser.parse_args()
    if args.plan:
        size, *numbers = args.plan
        length, layers, batch = map(int, numbers)
        planned = temporaries(size, length, layers, batch, args.rematerialize)
        print(json.dumps({"bytes": planned}))
        return
    rows = [*compute(rematerialize=False), *compute(rematerialize=True)]
    Path(args.results).write_text(json.dumps(rows, indent=2) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
