"""Times a pre-training step of Hugging Face's BERT on PyTorch, on the CPU.

The peer is `transformers.BertForPreTraining` with the model and batch of `timing`, and attention
by `scaled_dot_product_attention`. As released it computes the vocabulary at all 128 positions of a
row, where the original BERT does so at the 20 masked ones; --head=predicted applies the model's own
heads at those 20 only, as users who care about speed would.

Under glibc the step is faster if memory is kept between allocations instead of being returned: set
MALLOC_MMAP_THRESHOLD_=4294967296 and MALLOC_TRIM_THRESHOLD_=-1 in the environment.
"""

import os

import timing
import torch
import transformers
from torch.nn.functional import cross_entropy

Batch = dict[str, torch.Tensor]


def inputs_of(batch: Batch) -> Batch:
    """Inputs of the model; the label is -100 where nothing is predicted."""
    labels = torch.full_like(batch["ids"], -100).scatter_(1, batch["positions"], batch["labels"])
    return {
        "input_ids": batch["ids"],
        "attention_mask": batch["mask"],
        "token_type_ids": batch["segments"],
        "labels": labels,
        "next_sentence_label": batch["next_sentence"],
    }


def predicted_loss(model: transformers.BertForPreTraining, batch: Batch) -> torch.Tensor:
    """The loss of the model, computed at the masked positions only."""
    sequence, pooled = model.bert(batch["ids"], batch["mask"], batch["segments"])[:2]
    positions = batch["positions"][..., None].expand(-1, -1, sequence.shape[-1])
    scores, relationship = model.cls(sequence.gather(1, positions), pooled)
    masked_loss = cross_entropy(scores.flatten(0, 1), batch["labels"].flatten())
    return masked_loss + cross_entropy(relationship, batch["next_sentence"])


def main() -> None:
    parser = timing.parser(__doc__.splitlines()[0], "float32", "bfloat16")
    parser.add_argument("--head", choices=("all", "predicted"), default="all")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count() or 1)
    config = transformers.BertConfig(
        vocab_size=timing.VOCABULARY,
        hidden_size=timing.WIDTH,
        num_hidden_layers=timing.LAYERS,
        num_attention_heads=timing.HEADS,
        intermediate_size=4 * timing.WIDTH,
        attn_implementation="sdpa",
    )
    model = transformers.BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    batch = {name: torch.tensor(value).long() for name, value in timing.random_batch(0).items()}
    inputs = inputs_of(batch)

    def step() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16"):
            predicted = args.head == "predicted"
            loss = predicted_loss(model, batch) if predicted else model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    timing.report_steps(
        step, peer="hugging_face", version=transformers.__version__, precision=args.precision
    )


if __name__ == "__main__":
    main()
