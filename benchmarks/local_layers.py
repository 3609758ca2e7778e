"""Time and memory of a local and a global layer of ModernBERT by the length of a text, as JSON.

The attention of the base size (768 wide, 12 heads), forward and backward in float32, one text at a
time on one core, in CPU time. Memory is what the first step adds to that of the process (Linux).
"""

import argparse
import json
import statistics
import sys
import time

import tensorflow as tf

from benchmarks.processes import json_of
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder

_LAYERS = {"local": 1, "global": 3}
# Longer texts take ten gigabytes in a global layer.
_LENGTHS = {"local": (1024, 2048, 4096, 8192), "global": (1024, 2048)}
_RUNS = 5


def measure(kind: str, length: int) -> dict[str, float]:
    """Returns the median CPU seconds of a step, and the peak memory of this process in MiB."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    config = BertConfig.named("modernbert-base", vocab_size=8, num_hidden_layers=4)
    block = BertEncoder(config).blocks[_LAYERS[kind]]
    x, bias = tf.random.normal([length, config.hidden_size]), tf.zeros([1, 1, 1, length])

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(block.attention(x, bias)[0])
        return tf.reduce_sum(tape.gradient(total, x))

    step.get_concrete_function(x)
    before = _status("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak begins anew
    step(x).numpy()
    peak = (_status("VmHWM") - before) / 1024
    seconds = []
    for _ in range(_RUNS):
        start = time.process_time()
        step(x).numpy()
        seconds.append(time.process_time() - start)
    return {"seconds": statistics.median(seconds), "mebibytes": peak}


def _status(name: str) -> int:
    """Returns a figure of this process in KiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def main() -> None:
    """Measures each kind of layer at each length, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=_LAYERS)
    parser.add_argument("--length", type=int)
    args = parser.parse_args()
    if args.kind:
        print(json.dumps(measure(args.kind, args.length)))
        return
    script = [sys.executable, "-m", "benchmarks.local_layers"]
    for kind, lengths in _LENGTHS.items():
        rows = [json_of([*script, f"--kind={kind}", f"--length={n}"]) for n in lengths]
        found = {
            n: {"ms": round(1000 * row["seconds"], 1), "MiB": round(row["mebibytes"])}
            for n, row in zip(lengths, rows, strict=True)
        }
        print(json.dumps({kind: found}))


if __name__ == "__main__":
    main()
