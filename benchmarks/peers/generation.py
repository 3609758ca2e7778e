"""Tokens per second of greedy generation by a GPT-2 of transformers or KerasHub, on the CPU.

The last line of stdout is one JSON object: tokens per second by batch size.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping

import numpy as np

VOCABULARY, POSITIONS, LAYERS, WIDTH, HEADS = 50257, 1024, 12, 768, 12
PROMPT, NEW, BATCHES, RUNS = 16, 64, (1, 8), 5


def prompts(batch: int) -> np.ndarray:
    """Random prompts, int32 [batch, PROMPT]."""
    return np.random.default_rng(0).integers(0, VOCABULARY - 1, (batch, PROMPT)).astype(np.int32)


def rates(make: Callable[[np.ndarray], Callable[[], object]]) -> Mapping[str, float]:
    """The best of some runs for each batch size; `make` returns what is timed."""
    found = {}
    for batch in BATCHES:
        run = make(prompts(batch))
        run()
        seconds = []
        for _ in range(RUNS):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        found[str(batch)] = batch * NEW / min(seconds)
    return found


def transformers_rates() -> Mapping[str, float]:
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    config = transformers.GenerationConfig(
        max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, eos_token_id=0, pad_token_id=0
    )

    def make(ids: np.ndarray) -> Callable[[], object]:
        rows = torch.tensor(ids).long()
        mask = torch.ones_like(rows)
        return lambda: model.generate(rows, attention_mask=mask, generation_config=config)

    return rates(make)


def keras_hub_rates() -> Mapping[str, float]:
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras_hub

    backbone = keras_hub.models.GPT2Backbone(
        VOCABULARY, LAYERS, HEADS, WIDTH, 4 * WIDTH, max_sequence_length=POSITIONS
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    model.compile(sampler="greedy")

    def make(ids: np.ndarray) -> Callable[[], object]:
        rows = np.pad(ids, ((0, 0), (0, NEW)))
        mask = np.pad(np.ones_like(ids), ((0, 0), (0, NEW)))
        inputs = {"token_ids": rows, "padding_mask": mask}
        return lambda: model.generate(inputs, stop_token_ids=None)

    return rates(make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=("transformers", "keras_hub"))
    peer = parser.parse_args().peer
    found = transformers_rates() if peer == "transformers" else keras_hub_rates()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
