"""Tokens per second of greedy generation next to transformers and KerasHub, in turn.

  python -m benchmarks.generation --peer_python=.venv-peers/bin/python [--rounds=3]

The model is a GPT-2 (124 million parameters, random weights); prompts have 16 tokens, and 64 follow
each. Writes benchmarks/generation.json: the medians over the rounds, and ratios to the faster peer.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import tensorflow as tf

from benchmarks.peers import generation as peers
from bert_tf.generation.decoder import Decoder
from bert_tf.generation.search import Prompt, SingleSearch
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import LeftToRight

_FOLDER = Path(__file__).parent
_PEERS = ("transformers", "keras_hub")


def our_rates() -> dict[str, float]:
    """Tokens per second by batch size."""
    model = LeftToRight(BertConfig.named("gpt2-small"))
    settings = GenerationSettings(max_new_tokens=peers.NEW, min_new_tokens=peers.NEW)
    decoder = Decoder(model.encoder, model.token_logits)
    search = SingleSearch(decoder, settings, peers.VOCABULARY, 0, 0)

    @tf.function(autograph=False)
    def run(ids: tf.Tensor) -> tf.Tensor:
        with fused_ops.inference():
            state = search.begin(Prompt(ids, tf.ones_like(ids)))
            return search.tokens(search.advance(state, peers.NEW))

    def make(ids):  # noqa: ANN001  (as in `rates`)
        rows = tf.constant(ids)
        return lambda: run(rows).numpy()

    return dict(peers.rates(make))


def main() -> None:
    """Times everything in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer_python", help="Python with the peers")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not args.peer_python:
        print(json.dumps(our_rates()))
        return
    commands = {"ours": [sys.executable, "-m", "benchmarks.generation"]}
    script = str(_FOLDER / "peers/generation.py")
    commands |= {peer: [args.peer_python, "-P", script, peer] for peer in _PEERS}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    rows = {}
    for batch in map(str, peers.BATCHES):
        medians = {k: statistics.median(each[batch] for each in v) for k, v in found.items()}
        fastest = max(medians[peer] for peer in _PEERS)
        rows[f"batch_{batch}"] = medians | {"ratio": medians["ours"] / fastest}
    (_FOLDER / "generation.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
