"""Draws the pictures of "BERT in pictures", in English and in Korean.

    make pretrain
    python -m docs.pictures.draw

All numbers in them are computed when they are drawn. The same models give the same bytes.
"""

import argparse
import pathlib

from docs.pictures import encoder, facts, inputs, korean, training

DRAWINGS = {
    "embeddings": inputs.embeddings,
    "masking": inputs.masks,
    "pairs": inputs.pairs,
    "attention": encoder.attention,
    "heads": encoder.heads,
    "encoder": encoder.block,
    "pretraining": training.pretraining,
    "learning": training.learning,
    "finetuning": training.finetuning,
}
LANGUAGES = {"": str, ".ko": korean.say}


def draw(model: str, run: str, output: pathlib.Path) -> None:
    """Writes all pictures as SVG.

    Args:
      model: A model with BERT's encoder and vocabulary.
      run: The folder of a pre-training run.
      output: The folder of the pictures.
    """
    found = facts.of_models(model, run)
    output.mkdir(parents=True, exist_ok=True)
    for name, drawing in DRAWINGS.items():
        for ending, say in LANGUAGES.items():
            text = drawing(found, say).render()
            (output / f"{name}{ending}.svg").write_text(text, "utf-8")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="for most pictures")
    parser.add_argument("--run", default="savedmodels/pretrained", help="a pre-training run")
    here = pathlib.Path(__file__).parent
    parser.add_argument("--output", default=here, type=pathlib.Path, help="a folder")
    arguments = parser.parse_args()
    draw(arguments.model, arguments.run, arguments.output)


if __name__ == "__main__":
    main()
