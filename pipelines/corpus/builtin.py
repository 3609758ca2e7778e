"""The built-in corpus: English prose from Python's documentation strings, which every machine has.

It holds the docstrings of the standard library and of the installed packages, one document per
module. Code, doctests, signatures, tables, field lists and markup are removed. So are paragraphs
that appeared before, and modules with little prose left.
"""

import ast
import hashlib
import itertools
import os
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tqdm import tqdm

from pipelines.common import files, json_files, locks
from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner
from pipelines.corpus import sentences

_MIN_SENTENCES = 3  # per document; fewer teach little about which sentence follows which
_FILES_PER_TASK = 100
_MODULES_PER_DOCUMENT = 8  # modules to read for each document wanted: many have no prose
_MARK = {"made_by": "pipelines.make_corpus"}
_SKIPPED_FOLDERS = ("test", "tests", "testing", "__pycache__", "idlelib")  # they hold little prose
_MAX_SOURCE_BYTES = 1_000_000  # larger files are generated
_MIN_WORDS = 4
_UNDERLINE = re.compile(r"^\s*([=\-~`#*^+.\"'_:])\1{2,}\s*$")
_CODE_START = re.compile(
    r"^\s*(>>>|\.\.\. |\$ |In \[\d+\]|@|def |class |import |from \w+ import |```)"
)
# A field without prose, such as "x : array", "Returns:", ":rtype: int".
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


def make(
    path: str, roots: Iterable[str] | None = None, max_documents: int | None = None
) -> dict[str, int] | None:
    """Writes the corpus, and next to it a JSON file that marks it as made here.

    It has the reference format: a sentence a line, a blank line between documents.

    Args:
      path: output file.
      roots: folders of Python source; None: the standard library and site-packages.
      max_documents: maximum number of documents; None: all.

    Returns:
      The number of documents, sentences and bytes, or None if the file exists already.

    Raises:
      InputError: another file has the name of the mark, or no folder has a usable docstring.
    """
    if files.gfile.isdir(path):
        raise InputError(f"{path}: is a folder; name a file to write (--output).")
    if files.gfile.exists(path):
        return None
    mark, counts = f"{path}.json", {"documents": 0, "sentences": 0, "bytes": 0}
    with locks.held_file(files.partial_of(path), path):
        if files.gfile.exists(mark) and json_files.read(mark, Any) != _MARK:
            raise InputError(f"{mark}: exists and is not of a corpus; name another --output.")
        json_files.write(mark, _MARK)
        with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
            found = documents(roots or installed(), max_documents)
            for document in itertools.islice(found, max_documents):
                data = ("\n".join(document) + "\n\n").encode()
                file.write(data)
                counts["documents"] += 1
                counts["sentences"] += len(document)
                counts["bytes"] += len(data)
            if not counts["documents"]:
                raise InputError("no documentation strings were found; name a corpus of your own.")
    return counts


def installed() -> list[str]:
    """The folders of the standard library and, after it, of the installed packages."""
    paths = sysconfig.get_paths()
    return [paths["stdlib"], *sorted({paths["purelib"], paths["platlib"]})]


def documents(roots: Iterable[str], max_documents: int | None = None) -> Iterator[list[str]]:
    """Yields the sentences of each module, without paragraphs that appeared before."""
    seen: set[bytes] = set()
    paths = list(
        itertools.islice(modules(roots), max_documents and _MODULES_PER_DOCUMENT * max_documents)
    )
    for paragraphs in paragraphs_of_modules(paths):
        kept: list[str] = []
        duplicates = 0
        for paragraph in paragraphs:
            letters = re.sub(r"\W+|\d+", "", paragraph.lower())
            digest = hashlib.blake2b(letters.encode(), digest_size=8).digest()
            if digest in seen:
                duplicates += len(paragraph)
                continue
            seen.add(digest)
            kept.extend(filter(_is_sentence, sentences.split_sentences(paragraph)))
        if len(kept) >= _MIN_SENTENCES and sum(map(len, kept)) > duplicates:
            yield kept


def paragraphs_of_modules(paths: list[str]) -> Iterator[list[str]]:
    """Yields the paragraphs of each file, in the order of the files, parsed on all cores."""
    starts = range(0, len(paths), _FILES_PER_TASK)
    tasks = [tuple(paths[start : start + _FILES_PER_TASK]) for start in starts]
    done = {}
    with (
        LocalRunner().started("", __name__) as workers,
        tqdm(total=len(paths), desc="docstrings", unit="file") as bar,
    ):
        for task, paragraphs in workers.map(_paragraphs_of_task, tasks):
            done[task] = paragraphs
            bar.update(len(task))
    for task in tasks:
        yield from done[task]


def _paragraphs_of_task(paths: tuple[str, ...]) -> list[list[str]]:
    return [prose_paragraphs(path) for path in paths]


def modules(roots: Iterable[str], others: Collection[str] = ()) -> Iterator[str]:
    """Yields the sorted Python files below the roots, without tests.

    Args:
      roots: the folders.
      others: further folders that may be within one of these, and do not belong to it.
    """
    roots = list(roots)
    for root in roots:
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = sorted(
                name
                for name in subfolders
                if name not in _SKIPPED_FOLDERS
                and os.path.join(folder, name) not in (*roots, *others)
            )
            for name in sorted(names):
                if name.endswith(".py") and not name.startswith("test_"):
                    yield os.path.join(folder, name)


def prose_paragraphs(path: str) -> list[str]:
    """Returns the paragraphs of prose in the docstrings of a Python file, in source order."""
    return [
        paragraph
        for docstring in _docstrings(path)
        for block in re.split(r"\n\s*\n", docstring)
        for paragraph in _clean_block(block)
    ]


def _is_sentence(text: str) -> bool:
    """Returns whether a text begins and ends like a sentence and is mostly words."""
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
    """Yields the docstrings of a module, its classes and functions, in source order."""
    try:
        if os.path.getsize(path) > _MAX_SOURCE_BYTES:
            return
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if '"""' not in source and "'''" not in source:
            return  # without docstrings, parsing is wasted time
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, UnicodeDecodeError, ValueError, OSError, RecursionError):
        return  # a template, another encoding, or Python 2
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
    """Yields the prose of a block of lines; nothing if it is code, a table or a signature."""
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
