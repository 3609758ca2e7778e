"""Pre-trains Hugging Face's BERT on PyTorch to the quality of ours, and reports the time.

The peer is `transformers.BertForPreTraining` of 2 layers, 128 wide, on the examples of
`benchmarks.quality`. Its defaults are those of `TrainingArguments`: AdamW at 5e-5 with linear
decay, no weight decay, batches of 8, dropout 0.1, float32. Our recipe is that of
recipes/builtin.flags: `torch.optim.Muon` for hidden matrices and AdamW for the rest, batches of 32,
no dropout, initial weights of 0.05, the rate at its peak until the last 30 % of the time; and the
model's own heads are applied at the masked positions only, as users who care about speed would.
"""

import os

import learning
import torch
import transformers
from torch.nn.functional import cross_entropy


def inputs_of(arrays: learning.Arrays) -> dict[str, torch.Tensor]:
    """Inputs of the model; the label is -100 where nothing is predicted."""
    tensors = {name: torch.from_numpy(array).long() for name, array in arrays.items()}
    labels = torch.full_like(tensors["input_word_ids"], -100)
    asked = torch.where(tensors["masked_lm_weights"] > 0, tensors["masked_lm_ids"], -100)
    # Unused predictions have position 0, which is never masked.
    labels.scatter_(1, tensors["masked_lm_positions"], asked)
    labels[:, 0] = -100
    return {
        "input_ids": tensors["input_word_ids"],
        "attention_mask": tensors["input_mask"],
        "token_type_ids": tensors["input_type_ids"],
        "labels": labels,
        "next_sentence_label": tensors["next_sentence_labels"].reshape(-1),
    }


def predicted_loss(model: transformers.BertForPreTraining, arrays: learning.Arrays) -> torch.Tensor:
    """The loss of the model, computed at the masked positions only."""
    tensors = {name: torch.from_numpy(array).long() for name, array in arrays.items()}
    names = ("input_word_ids", "input_mask", "input_type_ids")
    sequence, pooled = model.bert(*(tensors[name] for name in names))[:2]
    positions = tensors["masked_lm_positions"][..., None].expand(-1, -1, sequence.shape[-1])
    scores, relationship = model.cls(sequence.gather(1, positions), pooled)
    asked = torch.where(tensors["masked_lm_weights"] > 0, tensors["masked_lm_ids"], -100)
    masked_loss = cross_entropy(scores.flatten(0, 1), asked.flatten())
    return masked_loss + cross_entropy(relationship, tensors["next_sentence_labels"].reshape(-1))


def optimizers_of(model: torch.nn.Module, ours: bool) -> list[tuple[torch.optim.Optimizer, float]]:
    """The optimizers with their peak rates."""
    if not ours:
        return [(torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0), 5e-5)]
    hidden: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, weights in model.named_parameters():
        is_hidden = weights.ndim == 2 and ("layer." in name or "dense" in name)
        (hidden if is_hidden else rest).append(weights)
    rate = learning.RATE
    muon = torch.optim.Muon(
        hidden, lr=2 * rate, weight_decay=0.005, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    return [(muon, 2 * rate), (adamw, rate)]


def model_of(ours: bool) -> transformers.BertForPreTraining:
    """The model with random weights."""
    recipe = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.05,
    }
    config = transformers.BertConfig(
        vocab_size=8192,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        attn_implementation="sdpa",
        **(recipe if ours else {}),
    )
    return transformers.BertForPreTraining(config).train()


def main() -> None:
    """Trains and prints the seconds."""
    args = learning.arguments(__doc__.splitlines()[0])
    ours = args.recipe == "ours"
    torch.manual_seed(args.seed)
    torch.set_num_threads(os.cpu_count() or 1)
    model = model_of(ours)
    optimizers = optimizers_of(model, ours)
    training, held_out = learning.examples(args.examples)
    source = learning.batches(training, learning.BATCH if ours else 8)

    def step(fraction: float, number: int) -> None:
        for optimizer, peak in optimizers:
            rate = learning.rate_at(fraction, number, peak) if ours else peak * (1 - fraction)
            optimizer.param_groups[0]["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16"):
            batch = next(source)
            loss = predicted_loss(model, batch) if ours else model(**inputs_of(batch)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    @torch.no_grad()
    def count_right(arrays: learning.Arrays) -> tuple[int, int]:
        model.eval()
        inputs = inputs_of(arrays)
        labels = inputs["labels"]
        guesses = model(**inputs).prediction_logits.argmax(-1)
        model.train()
        return int(((guesses == labels) & (labels >= 0)).sum()), int((labels >= 0).sum())

    described = {"peer": "hugging_face", "version": transformers.__version__}
    learning.report_seconds(step, count_right, held_out, args, **described)


if __name__ == "__main__":
    main()
