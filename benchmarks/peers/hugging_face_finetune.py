"""Fine-tunes a BERT for a task of GLUE with Hugging Face transformers on PyTorch, and scores it.

The peer is the usual recipe in a plain loop: an AutoModel with a classifier, AdamW (weight decay
0.01, but not on biases and LayerNorm), linear warm-up over the first 10 % of the steps and then
linear decay to zero, the gradient norm clipped at 1, and the dropout of the model's configuration.
The dev set is scored after each epoch.

--pad=max pads every row to 128 tokens, like run_glue.py. --pad=longest pads batches of rows of
similar lengths, like group_by_length of the library's Trainer, but in random order.

The last line of stdout is the JSON object that is also written to --out.
"""
# ruff: noqa: E402

import time

START = time.time()  # before the imports, which are part of the time of a run

import argparse
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import sklearn.metrics
import torch
import transformers

TASKS = {  # header, columns of the text, column of the label
    "cola": (False, [3], 1),
    "sst2": (True, [0], 1),
    "mrpc": (True, [3, 4], 0),
    "stsb": (True, [7, 8], 9),
    "rte": (True, [1, 2], 3),
}
LENGTH = 128
MEGABATCH = 50  # batches with rows that are sorted by length together, like in Trainer
Example = dict[str, Any]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=tuple(TASKS), required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the files of the task")
    parser.add_argument("--model", required=True, help="folder with weights and tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pad", choices=("max", "longest"), default="max")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    return parser.parse_args()


def read(args: argparse.Namespace, tokenizer: Callable) -> tuple[list[Example], list[Example], int]:
    """Examples of train and dev, and the number of labels; one label means regression."""
    header, texts, label = TASKS[args.task]

    def rows_of(split: str) -> list[list[str]]:
        # Quotation marks are text in these files, and a tab always ends a field.
        lines = (args.data / f"{split}.tsv").read_text("utf-8-sig").rstrip("\n").split("\n")
        return [line.split("\t") for line in lines[int(header) :]]

    train = rows_of("train")
    names = [] if args.task == "stsb" else sorted({row[label] for row in train})

    def encode(rows: list[list[str]]) -> list[Example]:
        texts_of = [[row[column] for row in rows] for column in texts]
        columns = dict(tokenizer(*texts_of, truncation=True, max_length=LENGTH))
        columns["labels"] = [
            names.index(row[label]) if names else float(row[label]) for row in rows
        ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    return encode(train), encode(rows_of("dev")), len(names) or 1


def length(example: Example) -> int:
    return len(example["input_ids"])


def batches(examples: list[Example], args: argparse.Namespace, epoch: int) -> list[list[int]]:
    """The batches of an epoch, as numbers of training rows in random order."""
    shuffle = random.Random(f"{args.seed} {epoch}")
    order = shuffle.sample(range(len(examples)), len(examples))
    if args.pad == "max":
        return [order[i : i + args.batch] for i in range(0, len(order), args.batch)]
    batched = []
    for i in range(0, len(order), MEGABATCH * args.batch):
        near = sorted(order[i : i + MEGABATCH * args.batch], key=lambda row: length(examples[row]))
        batched += [near[j : j + args.batch] for j in range(0, len(near), args.batch)]
    shuffle.shuffle(batched)
    return batched


def collate(examples: list[Example], args: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Tensors of examples, with lists padded to one width."""
    width = LENGTH if args.pad == "max" else max(map(length, examples))

    def padded(value: Any) -> Any:
        return value + [0] * (width - len(value)) if isinstance(value, list) else value

    return {name: torch.tensor([padded(row[name]) for row in examples]) for name in examples[0]}


def optimizer_of(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW with weight decay, except for biases and LayerNorms."""
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, fused=True)


def autocast(args: argparse.Namespace) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16")


def score(
    model: torch.nn.Module, examples: list[Example], args: argparse.Namespace
) -> dict[str, float]:
    """The main metric of the task; rows of similar lengths are computed together."""
    model.eval()
    ordered = sorted(examples, key=length)
    gold, predicted = [], []
    for i in range(0, len(ordered), args.batch):
        batch = collate(ordered[i : i + args.batch], args)
        gold += batch.pop("labels").tolist()
        with torch.inference_mode(), autocast(args):
            logits = model(**batch).logits.float()
        predicted += (logits[:, 0] if args.task == "stsb" else logits.argmax(-1)).tolist()
    if args.task == "stsb":
        return {"pearson": scipy.stats.pearsonr(gold, predicted)[0]}
    if args.task == "cola":
        return {"matthews": sklearn.metrics.matthews_corrcoef(gold, predicted)}
    return {"accuracy": sklearn.metrics.accuracy_score(gold, predicted)}


def main() -> None:
    args = parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.set_seed(args.seed)
    train, dev, labels = read(args, transformers.AutoTokenizer.from_pretrained(args.model))
    load = transformers.AutoModelForSequenceClassification.from_pretrained
    model = load(args.model, num_labels=labels, dtype=torch.float32)
    optimizer = optimizer_of(model, args.lr)
    steps = args.epochs * -(-len(train) // args.batch)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    epochs = []
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for rows in batches(train, args, epoch):
            batch = collate([train[row] for row in rows], args)
            with autocast(args):
                loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        metrics = {name: round(float(value), 5) for name, value in score(model, dev, args).items()}
        seconds = round(time.time() - START, 1)
        epochs.append({"epoch": epoch + 1, "loss": round(float(np.mean(losses)), 5), **metrics})
        print(f"after {seconds} s:", epochs[-1], file=sys.stderr, flush=True)
    (metric,) = metrics
    result = {
        "peer": "hugging_face",
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "settings": vars(args),
        "epochs": epochs,
        "best": max(epochs, key=lambda scores: scores[metric]),
        "seconds_total": seconds,
    }
    line = json.dumps(result, default=str)
    args.out.write_text(line + "\n", "utf-8")
    print(line)


if __name__ == "__main__":
    main()
