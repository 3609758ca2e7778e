"""Pre-trains Hugging Face's BERT on PyTorch until it has the quality of ours, and takes the time.

The peer is `transformers.BertForPreTraining` of 2 layers, 128 wide, on the examples of
`benchmarks.quality`. Its defaults are those of `TrainingArguments`: AdamW at 5e-5 falling linearly,
no weight decay, batches of 8, dropout 0.1, float32. Our recipe is that of recipes/builtin.flags:
`torch.optim.Muon` for hidden matrices and AdamW for the rest, batches of 16, no dropout, first
weights of 0.05, the rate at its peak until the last 30 % of the time.

The last line of stdout is one JSON object.
"""

import os

import torch
import transformers
from learning import Arrays, arguments, batches, examples, rate_at, report_seconds

_RATE, _WARMUP = 1.4e-3, 200
_EVALUATED = 256  # sequences at a time


def inputs_of(arrays: Arrays) -> dict[str, torch.Tensor]:
    """What the model takes; -100 for what is not to be guessed."""
    tensors = {name: torch.from_numpy(array).long() for name, array in arrays.items()}
    labels = torch.full_like(tensors["input_word_ids"], -100)
    asked = torch.where(tensors["masked_lm_weights"] > 0, tensors["masked_lm_ids"], -100)
    # Slots that are not asked for point to position 0, which never is.
    labels.scatter_(1, tensors["masked_lm_positions"], asked)
    labels[:, 0] = -100
    return {
        "input_ids": tensors["input_word_ids"],
        "attention_mask": tensors["input_mask"],
        "token_type_ids": tensors["input_type_ids"],
        "labels": labels,
        "next_sentence_label": tensors["next_sentence_labels"].reshape(-1),
    }


def optimizers_of(model: torch.nn.Module, ours: bool) -> list[tuple[torch.optim.Optimizer, float]]:
    """The optimizers with their peak rates."""
    if not ours:
        return [(torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0), 5e-5)]
    hidden: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, weights in model.named_parameters():
        is_hidden = weights.ndim == 2 and ("layer." in name or "dense" in name)
        (hidden if is_hidden else rest).append(weights)
    muon = torch.optim.Muon(
        hidden, lr=2 * _RATE, weight_decay=0.005, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW(rest, lr=_RATE, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    return [(muon, 2 * _RATE), (adamw, _RATE)]


def main() -> None:
    """Trains and prints the seconds."""
    args = arguments(__doc__.splitlines()[0])
    ours = args.recipe == "ours"
    torch.manual_seed(args.seed)
    torch.set_num_threads(os.cpu_count() or 1)
    config = transformers.BertConfig(
        vocab_size=8192,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        attn_implementation="sdpa",
        **(
            {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
            | {"initializer_range": 0.05}
            if ours
            else {}
        ),
    )
    model = transformers.BertForPreTraining(config).train()
    optimizers = optimizers_of(model, ours)
    training, held_out = examples(args.examples)
    source = batches(training, 16 if ours else 8)
    done = 0

    def step(share: float) -> None:
        nonlocal done
        done += 1
        for optimizer, peak in optimizers:
            rate = rate_at(share, peak) if ours else peak * (1 - share)
            optimizer.param_groups[0]["lr"] = rate * (min(1.0, done / _WARMUP) if ours else 1.0)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16"):
            loss = model(**inputs_of(next(source))).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    @torch.no_grad()
    def accuracy() -> float:
        model.eval()
        right = asked = 0
        for first in range(0, len(held_out["input_word_ids"]), _EVALUATED):
            part = {k: array[first : first + _EVALUATED] for k, array in held_out.items()}
            inputs = inputs_of(part)
            labels = inputs["labels"]
            guesses = model(**inputs).prediction_logits.argmax(-1)
            right += int(((guesses == labels) & (labels >= 0)).sum())
            asked += int((labels >= 0).sum())
        model.train()
        return right / asked

    report_seconds(
        step,
        accuracy,
        args,
        peer="hugging_face",
        version=transformers.__version__,
        recipe=args.recipe,
        precision=args.precision,
    )


if __name__ == "__main__":
    main()
