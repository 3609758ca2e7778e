"""Fine-tunes a BERT with Hugging Face transformers on PyTorch and scores it on the dev set.

The peer is the usual recipe in a plain loop: an AutoModel with a task's head, AdamW (weight decay
0.01, but not on biases and LayerNorm), a learning rate that warms up over the first 10 % of the
steps and then falls linearly to zero, the gradient norm clipped at 1.0, and dropout 0.1 as the
model's config says. The dev set is scored after each epoch.

--pad max pads every row to --max_length, as run_glue.py does. --pad longest makes batches of rows
of similar lengths, as group_by_length of the library's Trainer does but in random order, and pads
each to its longest row.

The last line of stdout is the JSON object that --out gets. Beside it, in a file that ends in
.predictions, are the last epoch's predictions for the dev set, one JSON value a line.
"""
# ruff: noqa: E402

import time

START = time.time()  # before the imports, which a user has to wait for too

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from hugging_face_tasks import IGNORED, INPUTS, TASKS, Example, Outputs, Task

MEGABATCH = 50  # batches whose rows are sorted by length together, as Trainer does


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=tuple(TASKS), required=True)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the task's files")
    parser.add_argument("--model", required=True, help="a folder with weights and tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pad", choices=("max", "longest"), default="max")
    parser.add_argument("--max_length", type=int, help="default: 384 for squad1, else 128")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=int, help="train on the first so many rows only")
    args = parser.parse_args()
    args.max_length = args.max_length or (384 if args.task == "squad1" else 128)
    return args


def length(example: Example) -> int:
    ids = example["input_ids"]
    return max(map(len, ids)) if isinstance(ids[0], list) else len(ids)


def batches(examples: list[Example], args: argparse.Namespace, epoch: int) -> list[list[int]]:
    """An epoch's batches of training rows, in random order."""
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


def padded(value: Any, width: int, fill: int) -> Any:
    """The value with its innermost lists made as long as the width."""
    if not isinstance(value, list):
        return value
    if isinstance(value[0], list):
        return [padded(row, width, fill) for row in value]
    return value + [fill] * (width - len(value))


def collate(examples: list[Example], args: argparse.Namespace) -> dict[str, torch.Tensor]:
    width = args.max_length if args.pad == "max" else max(map(length, examples))
    return {
        name: torch.tensor(
            [padded(row[name], width, IGNORED if name == "labels" else 0) for row in examples]
        )
        for name in examples[0]
    }


def optimizer_of(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW that decays all but the biases and the LayerNorms."""
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, fused=True)


def autocast(args: argparse.Namespace) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16")


def predict(model: torch.nn.Module, examples: list[Example], args: argparse.Namespace) -> Outputs:
    """Each example's logits, in order; rows of similar lengths are computed together."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda row: length(examples[row]))
    outputs: dict[int, tuple[np.ndarray, ...]] = {}
    for i in range(0, len(order), args.batch):
        rows = order[i : i + args.batch]
        batch = collate([examples[row] for row in rows], args)
        inputs = {name: batch[name] for name in INPUTS}
        with torch.inference_mode(), autocast(args):
            logits = [out.float().numpy() for out in model(**inputs).to_tuple()]
        outputs |= zip(rows, zip(*logits, strict=True), strict=True)
    return [outputs[row] for row in range(len(examples))]


def train_epoch(
    model: torch.nn.Module,
    task: Task,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    order: list[list[int]],
    args: argparse.Namespace,
) -> float:
    """Trains on the batches and returns their mean loss."""
    model.train()
    losses = []
    for rows in order:
        batch = collate([task.train[row] for row in rows], args)
        with autocast(args):
            loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    transformers.set_seed(args.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    read = TASKS[args.task]
    task = read(args, tokenizer)
    model = task.head.from_pretrained(args.model, num_labels=task.labels, dtype=torch.float32)
    optimizer = optimizer_of(model, args.lr)
    steps = args.epochs * -(-len(task.train) // args.batch)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)

    epochs, seconds_training = [], 0.0
    for epoch in range(args.epochs):
        begin = time.time()
        order = batches(task.train, args, epoch)
        loss = train_epoch(model, task, optimizer, schedule, order, args)
        seconds_training += time.time() - begin
        predicted = task.decode(predict(model, task.dev, args))
        lines = "".join(json.dumps(value) + "\n" for value in predicted)
        args.out.with_suffix(".predictions").write_text(lines, "utf-8")
        seconds_total = time.time() - START
        metrics = {name: round(float(value), 5) for name, value in task.score(predicted).items()}
        epochs.append({"epoch": epoch + 1, "loss": round(loss, 5), **metrics})
        print(f"after {seconds_total:.0f} s:", epochs[-1], file=sys.stderr, flush=True)

    main_metric = next(iter(metrics))
    result = {
        "peer": "hugging_face",
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "task": args.task,
        "seed": args.seed,
        "settings": vars(args),
        "training_examples": len(task.train),
        "steps": steps,
        "main_metric": main_metric,
        "epochs": epochs,
        "final": metrics,
        "best": max(epochs, key=lambda scores: scores[main_metric]),
        "seconds_total": round(seconds_total, 1),
        "seconds_training": round(seconds_training, 1),
    }
    line = json.dumps(result, default=str)
    args.out.write_text(line + "\n", "utf-8")
    print(line)


if __name__ == "__main__":
    main()
