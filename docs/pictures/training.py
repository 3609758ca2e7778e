"""Pictures of pre-training, of what a run has learned, and of fine-tuning."""

import math

from docs.pictures.facts import UNRELATED, Facts, Head
from docs.pictures.inputs import Say, token_columns
from docs.pictures.svg import WIDTH, Picture, number, width_of


def pretraining(facts: Facts, say: Say) -> Picture:
    """A pair with masks goes through the encoder; two heads answer."""
    tokens, guesses = facts.guesses_of
    picture = Picture(376, say("Pre-training"))
    columns = token_columns(tokens, 16, WIDTH - 16)
    masked = {guess.position for guess in guesses}
    for position, ((x, width), token) in enumerate(zip(columns, tokens, strict=True)):
        colour = "blue" if position in masked else "grey"
        picture.label(x, 302, width, 28, token, colour, "m s")
        picture.arrow(x + width / 2, 300, x + width / 2, 286)
    picture.label(16, 240, WIDTH - 32, 44, say("encoder"), "violet", "h")
    picture.text(20, 34, say("next sentence"), "ink h")
    names, follows = (say("follows"), say("random")), facts.follows[0]
    _bars(picture, 20, 44, list(zip(names, (follows, 1 - follows), strict=True)), 66, 70)
    x, width = columns[0]
    picture.arrow(x + width / 2, 238, x + width / 2, 98)
    other = say("With “{}” as the second sentence: follows {:.0%}")
    picture.text(20, 356, other.format(UNRELATED, facts.follows[1]), "muted")
    for index, guess in enumerate(guesses):
        x, width = columns[guess.position]
        left = (300, 520)[index % 2]
        picture.text(left, 34, say("masked word {}").format(index + 1), "ink h")
        _bars(picture, left, 44, guess.best, 74, 70)
        picture.path(f"M{number(x + width / 2)} 238V{212 - 20 * index}H{left + 30}V152", head=True)
    return picture


def _bars(
    picture: Picture,
    x: float,
    y: float,
    values: list[tuple[str, float]],
    label_width: float,
    most: float,
) -> None:
    """Names with bars, of which the longest possible is `most`, and percent."""
    for index, (name, value) in enumerate(values):
        row = y + 24 * index
        picture.text(x, row + 15, name, "ink m")
        picture.box(x + label_width, row + 3, max(1, most * value), 16, "b-blue")
        picture.text(x + label_width + most * value + 7, row + 15, f"{value:.0%}", "muted")


def learning(facts: Facts, say: Say) -> Picture:
    """The accuracy for masked words over a run, and the guesses for one of them."""
    sentence, milestones = facts.milestones
    rows = milestones[:: -(-len(milestones) // 7)]
    picture = Picture(364 + 22 * len(rows), say("What a run learns"))
    left, right, top, bottom = 60, WIDTH - 24, 50, 250
    last = facts.curve[-1][0]
    most = math.ceil(10 * max(value for _, value in facts.curve)) / 10
    picture.text(20, 32, say("masked words that are right, by training step"), "ink h")

    def place(step: float, value: float) -> tuple[float, float]:
        return left + (right - left) * step / last, bottom - (bottom - top) * value / most

    for tenth in range(0, round(10 * most) + 1):
        _, y = place(0, tenth / 10)
        picture.path(f"M{left} {number(y)}H{right}", "l-grey thin")
        picture.text(left - 8, y + 5, f"{10 * tenth}%", "muted s e")
    for name, shown in (
        ("unigram_accuracy", "the most frequent word"),
        ("bigram_accuracy", "a neighbour's guess"),
    ):
        value = facts.run.get(name)
        if value:
            _, y = place(0, value)
            picture.path(f"M{left} {number(y)}H{right}", "l-orange")
            picture.text(right, y - 5, f"{say(shown)}: {value:.1%}", "t-orange s e")
    each = max(1, len(facts.curve) // 120)
    spots = [
        place(
            *(
                sum(column) / len(column)
                for column in zip(*facts.curve[at : at + each], strict=True)
            )
        )
        for at in range(0, len(facts.curve), each)
    ]
    data = "L".join(f"{number(x)} {number(y)}" for x, y in spots)
    picture.path(f"M{data}", "l-blue thick")
    picture.text(left, bottom + 20, "0", "muted s")
    picture.text(right, bottom + 20, f"{last:,}", "muted s e")
    y = 300
    picture.text(20, y, say("guesses for one held-out word"), "ink h")
    text = sentence["text"]
    picture.text(20, y + 22, _cut(text, 92), "ink m s")
    picture.text(20, y + 50, say("step"), "muted s")
    picture.text(120, y + 50, say("best guess"), "muted s")
    picture.text(
        330,
        y + 50,
        say("probability of the right word, “{}”").format(sentence["original"]),
        "muted s",
    )
    for index, (step, token, probability, right_one) in enumerate(rows):
        row = y + 72 + 22 * index
        picture.text(90, row, f"{step:,}", "ink m e")
        good = token == sentence["original"]
        picture.text(120, row, f"{token} {probability:.0%}", "ink m h" if good else "ink m")
        picture.box(330, row - 12, max(1, 300 * right_one), 15, "b-blue")
        picture.text(338 + 300 * right_one, row, f"{right_one:.0%}", "muted s")
    return picture


def _cut(text: str, size: int) -> str:
    """About `size` characters of a text around its masked word, which begin and end with a word."""
    middle = text.index("[?]")
    start = max(0, min(middle - size // 2, len(text) - size))
    words = text[start : start + size].split(" ")
    return " ".join(words[start > 0 : -1 if start + size < len(text) else None])


# What a task of each shape reads, the outputs that its head reads, and examples of answers.
_EXAMPLES = (
    ("mnli", "Pairs of sentences", "[CLS] it rained [SEP] all was wet [SEP]", {0: "entailment"}),
    ("sst2", "Single sentences", "[CLS] a warm , funny film [SEP]", {0: "positive"}),
    (
        *("squad1", "Questions about a text", "[CLS] who ran ? [SEP] a fox ran [SEP]"),
        {5: "start", 6: "end", 7: ""},
    ),
    (
        *("ner", "Tags of words", "[CLS] Ada flew to Bu ##san [SEP]"),
        {1: "B-PER", 2: "O", 3: "O", 4: "B-LOC"},
    ),
)


def finetuning(facts: Facts, say: Say) -> Picture:
    """Figure 4 of the paper: what each shape of task adds to the encoder."""
    picture = Picture(584, say("Fine-tuning"))
    width, height = (WIDTH - 60) / 2, 262
    for index, (kind, title, text, answers) in enumerate(_EXAMPLES):
        left = 20 + (width + 20) * (index % 2)
        top = 20 + (height + 14) * (index // 2)
        panel = (picture, left, top, width, say)
        _panel(*panel, (say(title), kind), text.split(), answers, facts.heads[kind])
    y = 568
    total = say("All {:,} weights of the encoder are trained, too").format(facts.sizes["encoder"])
    picture.text(20, y, total, "muted")
    return picture


def _panel(
    picture: Picture,
    left: float,
    top: float,
    width: float,
    say: Say,
    title: tuple[str, str],
    tokens: list[str],
    answers: dict[int, str],
    head: Head,
) -> None:
    picture.text(left, top + 16, title[0], "ink h")
    picture.text(left + width, top + 16, title[1], "muted e s")
    columns = token_columns(tokens, left, left + width)
    outputs, encoder, inputs = top + 124, top + 162, top + 214
    picture.label(left, encoder, width, 34, say("encoder"), "violet", "h")
    for position, ((x, box), token) in enumerate(zip(columns, tokens, strict=True)):
        middle = x + box / 2
        picture.label(x, inputs, box, 26, token, "grey", "m s")
        picture.arrow(middle, inputs - 1, middle, encoder + 36)
        name = "C" if position == 0 else f"T{position}"
        picture.label(x, outputs, box, 26, name, "blue" if position in answers else "grey", "m s")
        picture.arrow(middle, encoder - 1, middle, outputs + 28)
        if position in answers:
            picture.arrow(middle, outputs - 1, middle, top + 100)
    text = say("{:,} new weights").format(head.weights)
    picture.label(left, top + 64, width, 34, text, "orange", "h")
    for position, name in answers.items():
        x, box = columns[position]
        middle = x + box / 2
        if name:
            picture.arrow(middle, top + 63, middle, top + 50)
        if name in ("start", "end"):  # neighbours, whose names need more room
            side = "e" if name == "start" else ""
            picture.text(
                middle + (8 if side else -8), top + 44, say(name), f"ink s h {side}".strip()
            )
        else:
            picture.text(max(middle, left + width_of(name, 13) / 2), top + 44, name, "ink c s h")
