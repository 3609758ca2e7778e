"""Runs a training step of a deep model and prints the bytes of memory that it took; run by a test.

With --plan the step is compiled and not run: printed are the bytes that XLA plans for temporaries.
"""

import argparse
import glob
import os
import re
import resource
import tempfile
from pathlib import Path

import tensorflow as tf

from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training.optimizers import OptimizerName, make_optimizer
from bert_tf.training.settings import Compilation
from bert_tf.training.step import TrainingStep
from tests.bert_tf.helpers import make_batch
from tests.tiny import tiny_config

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--rows", type=int, default=16)
parser.add_argument("--xla", default="off")
parser.add_argument("--rematerialize", action="store_true")
parser.add_argument("--plan", action="store_true")
args = parser.parse_args()
dump = tempfile.TemporaryDirectory()
os.environ["XLA_FLAGS"] = f"--xla_dump_to={dump.name} --xla_dump_hlo_as_text" if args.plan else ""

config = tiny_config(
    100,
    hidden_size=args.hidden,
    num_hidden_layers=args.layers,
    intermediate_size=4 * args.hidden,
    max_position_embeddings=args.length,
)
model = MaskedLMNextSentence(config)
optimizer = make_optimizer(OptimizerName.ADAMW, 1e-3)
optimizer.build(model.trainable_variables)
step = TrainingStep(
    model,
    optimizer,
    tf.distribute.get_strategy(),
    compilation=Compilation(args.xla),
    rematerialize=args.rematerialize,
)
batch = make_batch(args.rows, args.length, config=config)
if args.plan:
    inputs = (batch, model.totals(batch), tf.constant(5))
    step._gradients.experimental_get_compiler_ir(*inputs)(stage="optimized_hlo")
    (path,) = glob.glob(f"{dump.name}/*plain_gradients*buffer-assignment.txt")
    sizes = re.findall(
        r"^allocation \d+: size (\d+), preallocated-temp", Path(path).read_text(), re.M
    )
    print(sum(map(int, sizes)))
else:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(iter([batch]), 0, 1, tf.constant(5))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
