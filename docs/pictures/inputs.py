"""Pictures of what the model reads: embeddings, masks and sentence pairs."""

from collections.abc import Callable

import numpy as np

from docs.pictures.facts import CORPUS, DRAWS, MEANT, Facts
from docs.pictures.svg import WIDTH, Picture, width_of
from pipelines.pretraining import masking

Say = Callable[[str], str]

# The colour of each outcome for a chosen token, and of each document or segment.
OUTCOMES = {masking.MASKED: "blue", masking.RANDOM: "orange", masking.KEPT: "green"}
DOCUMENTS = ("blue", "orange", "green")
_LEFT, _GAP = 112, 5


def token_columns(
    tokens: list[str], left: float, right: float, least: float = 22
) -> list[tuple[float, float]]:
    """The left edge and the width of a box for each token, which fill a row."""
    wanted = [max(least, width_of(token, 12, mono=True) + 8) for token in tokens]
    room = right - left - _GAP * (len(tokens) - 1)
    spare = (room - sum(wanted)) / len(tokens)
    found, x = [], left
    for width in wanted:
        found.append((x, width + spare))
        x += width + spare + _GAP
    return found


def embeddings(facts: Facts, say: Say) -> Picture:
    """Figure 2 of the paper: three rows of tables are added, and normalized."""
    picture = Picture(474, say("Input embeddings"))
    columns = token_columns(facts.tokens, _LEFT, WIDTH - 20)
    shown = 6
    scale = np.abs(np.stack([part[:, :shown] for part in facts.parts.values()])[:4]).max()

    def row(y: float, name: str, hint: str, values: np.ndarray, most: float) -> None:
        picture.text(20, y + (22 if hint else 29), say(name), "ink h")
        picture.text(20, y + 39, hint, "muted s")
        for (x, width), vector in zip(columns, values, strict=True):
            for index, value in enumerate(vector[:shown]):
                opacity = max(0.06, min(1, abs(value) / most) ** 0.6)
                style = "b-orange" if value > 0 else "b-blue"
                picture.box(x, y + 8 * index, width, 7, style, opacity)

    picture.text(20, 38, say("tokens"), "ink h")
    picture.text(20, 64, say("ids"), "ink h")
    for (x, width), token, index in zip(columns, facts.tokens, facts.ids, strict=True):
        picture.label(x, 20, width, 28, token, "grey", "m")
        picture.text(x + width / 2, 65, str(index), "muted c s")
    y = 84
    tables = (
        ("token", f"{facts.config.vocab_size:,}", facts.ids),
        ("segment", f"{facts.config.type_vocab_size}", facts.types),
        ("position", f"{facts.config.max_position_embeddings}", range(len(facts.tokens))),
    )
    for index, (name, rows, numbers) in enumerate(tables):
        row(y, name, say("one of {}").format(rows), facts.parts[name], scale)
        if name != "token":
            for (x, width), number in zip(columns, numbers, strict=True):
                label = "AB"[number] if name == "segment" else str(number)
                picture.text(x + width / 2, y + 61, label, "muted c s")
        picture.text(_LEFT - 14, y + 28, "+" if index else "", "ink c h")
        y += 60 if name == "token" else 76
    row(y, "sum", "", facts.parts["sum"], scale)
    picture.text(_LEFT - 14, y + 28, "=", "ink c h")
    row(y + 60, "normalized", say("LayerNorm"), facts.parts["output"], 2.5)
    y += 132
    for x, style, text in ((20, "b-blue", "below 0"), (110, "b-orange", "above 0")):
        picture.box(x, y - 11, 12, 12, style)
        picture.text(x + 18, y, say(text), "muted s")
    text = say("{} of {} numbers of each vector are shown").format(shown, facts.config.hidden_size)
    picture.text(200, y, text, "muted s")
    total = [facts.parts[name][MEANT, 0] for name in ("token", "segment", "position", "sum")]
    text = "{:.4f} {:+.4f} {:+.4f} = {:.4f}".format(*total).replace("-", "−")
    picture.text(20, y + 28, say("The first of “{}”:").format(facts.tokens[MEANT]), "ink")
    picture.text(200, y + 28, text, "ink m")
    return picture


def masks(facts: Facts, say: Say) -> Picture:
    """A few draws of masks for one pair, and the outcomes of many."""
    picture = Picture(388, say("Masking"))
    columns = token_columns(facts.tokens, 44, WIDTH - 20, 49)
    for number, drawn in enumerate(facts.masked):
        y = 20 + 38 * number
        picture.text(20, y + 19, f"{number + 1}", "muted")
        for position, ((x, width), token) in enumerate(zip(columns, drawn.tokens, strict=True)):
            outcome = drawn.outcomes.get(position)
            chosen = outcome is not None
            picture.label(
                *(x, y, width, 28, _fitting(token, width)),
                *("grey" if not chosen else OUTCOMES[outcome], "m s" if not chosen else "m s h"),
            )
    y = 264
    picture.text(20, y, say("{:,} draws of this pair").format(DRAWS), "ink h")
    share = say("{:.1%} of the tokens are chosen").format(facts.chosen)
    picture.text(WIDTH - 20, y, share, "muted e")
    whole, x = facts.outcomes.sum(), 20.0
    names = ("replaced by [MASK]", "replaced by a random token", "not changed")
    for index, (name, count) in enumerate(zip(names, facts.outcomes.tolist(), strict=True)):
        width = (WIDTH - 40) * count / whole
        picture.box(x, y + 14, width, 26, f"b-{OUTCOMES[index]}")
        x += width
        picture.box(20, y + 54 + 22 * index, 12, 12, f"b-{OUTCOMES[index]}")
        text = f"{count / whole:.1%}  {say(name)}"
        picture.text(40, y + 65 + 22 * index, text)
    return picture


def _fitting(token: str, width: float) -> str:
    """A token, cut where it is wider than its box."""
    most = max(1, int((width - 2) / (12 * 0.61)))
    return token if len(token) <= most else f"{token[: most - 1]}…"


def pairs(facts: Facts, say: Say) -> Picture:
    """A small corpus, and the pairs that are drawn from it."""
    rows = len(facts.pairs)
    picture = Picture(154 + 34 * rows + 22, say("Sentence pairs"))
    picture.text(20, 32, say("Three documents"), "ink h")
    for index, document in enumerate(CORPUS):
        picture.label(20, 44 + 26 * index, 20, 20, str(index + 1), DOCUMENTS[index])
        picture.text(50, 59 + 26 * index, " ".join(document))
    y = 150
    picture.text(20, y, say("Pairs drawn from them"), "ink h")
    for number, pair in enumerate(facts.pairs):
        top, x = y + 14 + 34 * number, 20.0
        for text, document in zip(pair.texts, pair.documents, strict=True):
            text = _fitting(text, WIDTH - 120 - x)
            width = width_of(text, 12, mono=True) + 14
            picture.label(x, top, width, 28, text, DOCUMENTS[document], "m s")
            x += width + 6
        answer = say("random") if pair.is_random else say("follows")
        picture.text(WIDTH - 20, top + 19, answer, "muted e" if pair.is_random else "ink e h")
    return picture
