"""The small inputs that golden values are computed of."""

import pathlib
import random

_SYLLABLES = "가 나 다 라 마 바 사 아 자 차 모델 문장 단어 학습 한국어".split()
_WORDS = (
    "the a model layer token mask sentence vector kernel head reads writes trains every small large"
    " random naïve Zürich résumé unbelievably hyphen-ated don't e.g. 3.14 中国 ﬁne ½"
).split()

# Text that tokenizers trip over: marks, scripts, controls, white space, long words, no words.
TRICKY = (
    "Hello, World! It's 3.14 o'clock; e-mail me@example.com.",
    "naïve Zürich résumé Ångström ﬁne ½ ﬀ Ǆ ß İstanbul ΑΣ ΑΣΣ.",
    "中国語と日本語ー、한국어 텍스트 가각",
    "עברית العَرَبِيَّة हिन्दी ไทย ქართული",
    "tab\tnew\nline\r\nnbsp\u00a0em\u2003ideographic\u3000zero\u200bwidth\ufeffbom",
    "\x00\x01\ufffdcontrol\x7f\u0085\u00ad",
    "👩\u200d👩\u200d👧 🇰🇷 e\u0301\u0301 \u0301first",
    "x" * 199 + " " + "y" * 201 + " " + "가" * 70,
    "[MASK] [CLS] <s> ##ing __init__ $5.00 ±10% “quotes” — dash…",
    "",
    "   \t ",
    "ends with a mark\u0301",
)


def write(folder: pathlib.Path) -> tuple[str, str]:
    """Writes an English and a Korean corpus; returns their paths."""
    rng = random.Random(7)
    paths = []
    for name, words in (("english", _WORDS), ("korean", _SYLLABLES)):
        documents = [
            "\n".join(
                " ".join(rng.choices(words, k=rng.randint(3, 14))).capitalize() + "."
                for _ in range(rng.randint(1, 18))
            )
            for _ in range(60)
        ]
        path = folder / f"{name}.txt"
        path.write_text("\n\n".join(documents) + "\n", "utf-8")
        paths.append(str(path))
    return paths[0], paths[1]
