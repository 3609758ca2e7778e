"""Pictures of the encoder: attention of one head and of all, and a block with its sizes."""

import numpy as np

from bert_tf.inspection.attention import TRAITS
from docs.pictures.facts import PRONOUN, Facts
from docs.pictures.inputs import Say
from docs.pictures.svg import WIDTH, Picture

# The colour of a head in the picture of all, by what it mostly attends to; else grey.
TRAIT_COLOURS = dict(zip(TRAITS, ("green", "violet", "orange", "blue", "grey"), strict=True))
_MOSTLY = 0.5


def attention(facts: Facts, say: Say) -> Picture:
    """One head: the map of all tokens, and one row of it in numbers."""
    count, cell, left, top = len(facts.tokens), 27, 92, 132
    layer, head = facts.head
    picture = Picture(top + cell * count + 24, say("Attention of one head"))
    picture.text(20, 32, say("Layer {}, head {}").format(layer + 1, head + 1), "ink h")
    picture.text(20, 52, say("each row: where a token looks"), "muted s")
    found = facts.attention[layer, head]
    for row, token in enumerate(facts.tokens):
        y = top + cell * row
        strong = row == PRONOUN
        picture.text(left - 8, y + 18, token, "ink m e h" if strong else "muted m e")
        for column, probability in enumerate(found[row]):
            x = left + cell * column
            picture.box(x, y, cell - 1, cell - 1, "b-blue", max(0.04, float(probability)))
    for column, token in enumerate(facts.tokens):
        x = left + cell * column + cell / 2
        picture.turned_text(x + 4, top - 6, token, "muted m")
    picture.frame(left - 2, top + cell * PRONOUN - 2, cell * count + 3, cell + 3, "l-orange")
    x, width = left + cell * count + 30, 100
    picture.text(x, 32, say("The row of “{}”").format(facts.tokens[PRONOUN]), "ink h")
    picture.lines(
        x, 52, [say("score = query · key / √size"), say("softmax makes them sum to 1")], "muted s"
    )
    picture.text(x + 58, top - 8, say("score"), "muted s e")
    picture.text(x + 122, top - 8, say("softmax"), "muted s e")
    for row, probability in enumerate(found[PRONOUN].tolist()):
        y = top + cell * row
        score = f"{facts.scores[row]:.2f}".replace("-", "−")
        picture.text(x + 58, y + 18, score, "ink m e")
        picture.text(x + 122, y + 18, f"{probability:.0%}", "ink m e")
        picture.box(x + 132, y + 5, max(1, width * probability), 16, "b-blue")
    return picture


def heads(facts: Facts, say: Say) -> Picture:
    """The maps of all heads of all layers, coloured by what a head mostly attends to."""
    layers, count, length, _ = facts.attention.shape
    left, top, gap = 78, 40, 8
    size = (WIDTH - 20 - left - gap * (count - 1)) / count
    cell = size / length
    picture = Picture(top + layers * (size + gap) + 70, say("All heads"))
    for head in range(count):
        picture.text(left + head * (size + gap) + size / 2, 30, str(head + 1), "muted c s")
    picture.text(20, 30, say("head"), "muted s")
    seen = set()
    for layer in range(layers):
        y = top + layer * (size + gap)
        picture.text(20, y + size / 2 + 5, say("layer {}").format(layer + 1), "muted s")
        for head in range(count):
            x = left + head * (size + gap)
            traits = facts.traits[layer, head]
            best = int(traits.argmax())
            colour = TRAIT_COLOURS[TRAITS[best]] if traits[best] >= _MOSTLY else "ink"
            seen.add(colour)
            picture.box(x - 1, y - 1, size + 2, size + 2, "b-grey", 0.12)
            rounded = np.ceil(facts.attention[layer, head] * 4 - 0.25).clip(0, 4)
            for level in (1, 2, 3, 4):
                places = np.argwhere(rounded == level)
                squares = [(x + cell * column, y + cell * row) for row, column in places.tolist()]
                picture.cells(squares, cell, f"b-{colour}", level / 4)
            if (layer, head) == facts.head:
                picture.frame(x - 3, y - 3, size + 6, size + 6, "l-orange")
    y = top + layers * (size + gap) + 22
    picture.text(20, y, say("Colour: where more than half of the attention goes"), "ink h s")
    named = [*TRAIT_COLOURS.items(), ("elsewhere", "ink")]
    shown = [(trait, colour) for trait, colour in named if colour in seen]
    for index, (trait, colour) in enumerate(shown):
        x, row = 20 + 230 * (index % 3), y + 12 + 20 * (index // 3)
        picture.box(x, row, 12, 12, f"b-{colour}")
        picture.text(x + 18, row + 11, say(trait), "ink s")
    return picture


def block(facts: Facts, say: Say) -> Picture:
    """The encoder from bottom to top: one of its blocks, the shapes in it, and the weights."""
    config, sizes = facts.config, facts.sizes
    length, width = len(facts.tokens), config.hidden_size
    heads, inner = config.num_attention_heads, config.intermediate_size
    picture = Picture(620, say("The encoder"))
    left, box, middle = 70, 270, 205
    full = f"{length} × {width}"
    steps = (
        (44, "pooler of [CLS]", "grey", f"{width}", sizes["pooler"]),
        (102, "output", "grey", full, 0),
        (194, "add, normalize", "green", full, 0),
        (252, "feed-forward network", "violet", f"{length} × {inner}", sizes["feed_forward"]),
        (330, "add, normalize", "green", full, 0),
        (388, "attention", "blue", f"{heads} × {length} × {length}", sizes["attention"]),
        (442, "queries, keys, values", "blue", f"3 × {heads} × {length} × {width // heads}", 0),
        (536, "embeddings", "grey", full, sizes["embeddings"]),
    )
    picture.text(560, 30, say("shape"), "muted s e")
    picture.text(WIDTH - 20, 30, say("weights"), "muted s e")
    picture.frame(20, 156, 380, 352, "l-muted")
    picture.text(32, 176, say("block, {} times").format(config.num_hidden_layers), "muted s")
    below = None
    for y, name, colour, shape, weights in reversed(steps):
        picture.label(left, y, box, 34, say(name), colour, "h")
        picture.text(560, y + 22, shape, "ink m e")
        if weights:
            picture.text(WIDTH - 20, y + 22, f"{weights:,}", "ink m e")
        if below is not None:
            picture.arrow(middle, below - 1, middle, y + 36)
        below = y
    for start, end in ((492, 347), (314, 211)):  # what a sub-layer reads is added to its result
        picture.path(f"M{middle} {start}H372V{end}H{left + box + 3}", head=True)
    each = f"{config.num_hidden_layers} × {sizes['block']:,}"
    picture.text(WIDTH - 20, 176, each, "muted m e")
    picture.text(560, 598, say("in all"), "muted s e")
    picture.text(WIDTH - 20, 598, f"{sizes['encoder']:,}", "ink m e h")
    return picture
