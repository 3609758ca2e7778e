"""Documentation strings of Python source, cleaned to prose.

Code, doctests, signatures, tables, field lists and markup are taken out.
"""

import ast
import os
import re
import textwrap
import warnings
from collections.abc import Iterator

_MAX_SOURCE_BYTES = 1_000_000  # larger files are generated
_MIN_WORDS = 4

_UNDERLINE = re.compile(r"^\s*([=\-~`#*^+.\"'_:])\1{2,}\s*$")
_CODE_START = re.compile(
    r"^\s*(>>>|\.\.\. |\$ |In \[\d+\]|@|def |class |import |from \w+ import |```)"
)
# A field without prose: "x : array", "Returns:", ":rtype: int".
_TYPE = r"[\w.\[\]|'\"=()-]+(?:,\s*[\w=]+)*"
_FIELD = re.compile(rf"^\s*(?:@\w+|:[^:]+:\s*(?:{_TYPE})?$|\w[\w*, ]*\s*:\s*(?:{_TYPE})?$)")
_TABLE = re.compile(r"[|+][-=|+ ]{3,}|\s\|\s.*\s\|")
_LIST_ITEM = re.compile(r"^\s*([-*+•]|\d+[.)]|\(\w\))\s+")
_DIRECTIVE = re.compile(r"^\s*\.\.( |$)")
_ARGUMENT = re.compile(r"^\s*(?::\w+[^:]*|[`*]*[\w.*]+[`*]*(?:\s*\([^)]*\))?)\s*:\s+(?=\S)")
_ROLE = re.compile(r":[\w:+-]+:`~?!?([^`<]+?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]*\)|`([^`<]+?)\s*<[^`>]*>`_+")
_QUOTES = re.compile(r"`+|\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|(?<=\w)_+(?!\w)")
_URL = re.compile(r"(?:https?|ftp)://\S+|www\.\S+")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z][a-z]*(?:['’][a-z]+)?(?=[\s.,;:!?)\"]|$)")
_ENDS = re.compile(r"[.!?:;][\"')\]]*$")


def prose_paragraphs(path: str) -> list[str]:
    """The paragraphs of prose in the docstrings of a Python file, in source order."""
    return [
        paragraph
        for docstring in _docstrings(path)
        for block in re.split(r"\n\s*\n", docstring)
        for paragraph in _clean_block(block)
    ]


def is_sentence(text: str) -> bool:
    """Whether a text begins and ends like a sentence and is mostly words."""
    words = _WORD.findall(text)
    tokens = text.split()
    return (
        len(words) >= _MIN_WORDS
        and len(words) >= 0.7 * len(tokens)
        and len(tokens) <= 120
        and text.isprintable()
        and (text[0].isupper() or text[0].isdigit())
        and _ENDS.search(text) is not None
        and max(map(len, tokens)) <= 40
    )


def _docstrings(path: str) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, in source order."""
    try:
        if os.path.getsize(path) > _MAX_SOURCE_BYTES:
            return
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if '"""' not in source and "'''" not in source:
            return  # no docstring worth the parsing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, UnicodeDecodeError, ValueError, OSError, RecursionError):
        return  # a template, another encoding, or Python 2: no prose for us
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=True)
            if docstring:
                yield docstring
            stack.extend(reversed(node.body))
        elif isinstance(node, ast.If | ast.Try):
            stack.extend(reversed(node.body))


def _clean_block(block: str) -> Iterator[str]:
    """The prose of one block of lines; nothing if it is code, a table or a signature."""
    lines = [line for line in textwrap.dedent(block).split("\n") if line.strip()]
    if not lines or _CODE_START.match(lines[0]) or any(_TABLE.search(line) for line in lines):
        return
    paragraph: list[str] = []
    for line in lines:
        if _CODE_START.match(line):
            break
        if _UNDERLINE.match(line) or _DIRECTIVE.match(line) or _FIELD.match(line):
            yield from _finish(paragraph)
            paragraph = []
            continue
        item = _LIST_ITEM.match(line) or _ARGUMENT.match(line)
        if item:
            yield from _finish(paragraph)
            paragraph = [line[item.end() :]]
        else:
            paragraph.append(line)
    yield from _finish(paragraph)


def _finish(lines: list[str]) -> Iterator[str]:
    text = _SPACE.sub(" ", " ".join(lines)).strip()
    text = _ROLE.sub(r"\1", text)
    text = _LINK.sub(lambda match: match.group(1) or match.group(2), text)
    text = _URL.sub("", _QUOTES.sub("", text))
    text = _SPACE.sub(" ", text).strip().replace("::", ":")
    if len(text.split()) >= _MIN_WORDS and _ENDS.search(text):
        yield text
