"""The built-in labelled texts: paragraphs of the standard library's docstrings, by topic.

They let one try fine-tuning where there are no data. A topic is a part of the library, as in the
chapters of its reference. All texts of a module are in one file, so that dev and test are about
modules that training has not seen, in other words. Few examples per topic, and the meaning of
sentences: what pre-training is for.
"""

import hashlib
import itertools
import os
from collections.abc import Collection

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.corpus import builtin

# The tables, and how many texts of each topic they have at most.
FILES = {"train.tsv": 64, "dev.tsv": 32, "test.tsv": 64}
# Topics, and their modules and packages. Some are not in all versions and distributions of Python.
TOPICS = {
    "concurrency": """_threading_local asyncio concurrent multiprocessing queue sched selectors
        signal subprocess threading""",
    "debugging": """bdb cProfile cgitb doctest logging pdb profile pstats timeit trace traceback
        tracemalloc unittest warnings""",
    "files": """_pyio bz2 filecmp fileinput fnmatch genericpath glob gzip io linecache lzma ntpath
        os pathlib posixpath shutil stat tarfile tempfile zipfile""",
    "formats": """base64 configparser csv email html json mailbox mimetypes plistlib quopri tomllib
        xml""",
    "language": """ast code codeop compileall dis importlib inspect modulefinder pkgutil py_compile
        pyclbr pydoc runpy symtable tabnanny tokenize typing zipimport""",
    "network": """ftplib http imaplib ipaddress nntplib poplib smtplib socket socketserver ssl
        telnetlib urllib webbrowser wsgiref xmlrpc""",
    "numbers": """_pydatetime _pydecimal _strptime calendar colorsys datetime fractions numbers
        random statistics zoneinfo""",
}
_TOPIC_OF = {name: topic for topic, names in TOPICS.items() for name in names.split()}
_MANIFEST = "manifest.json"
_WORDS = range(8, 61)
_MODULE_TEXTS = 32  # of one module, at most


def make(folder: str, root: str | None = None) -> dict[str, int] | None:
    """Writes a folder with FILES, tables with the columns text and label; it appears when complete.

    Args:
      folder: where to write.
      root: the folder of the standard library; None: that of this Python.

    Returns:
      The number of texts of each file, or None if the folder exists already.

    Raises:
      InputError: a topic has no texts, something else has the name of the folder, or another
        process writes it.
    """
    if files.gfile.exists(f"{folder}/{_MANIFEST}"):
        return None
    standard, *others = builtin.installed()
    with files.folder_aside(folder) as partial:
        found = _texts_by_topic(root or standard, others)
        counts = {}
        for name, most in FILES.items():
            # Equally many of each topic: as many as the smallest has.
            topic = min(found, key=lambda topic: len(found[topic][name]))
            count = min(most, len(found[topic][name]))
            if not count:
                raise InputError(f"{root or standard}: has no docstrings about {topic}.")
            lines = [
                f"{text}\t{topic}\n"
                for topic, texts in found.items()
                for text in texts[name][:count]
            ]
            files.write_text(
                f"{partial}/{name}", "text\tlabel\n" + "".join(sorted(lines, key=_hash))
            )
            counts[name] = len(lines)
        json_files.write(f"{partial}/{_MANIFEST}", {"made_by": "make-labelled", "texts": counts})
        return counts


def _texts_by_topic(root: str, others: Collection[str]) -> dict[str, dict[str, list[str]]]:
    """The texts of each topic and file; each module is in the file that needs it most."""
    found = {topic: {name: list[str]() for name in FILES} for topic in TOPICS}
    seen: set[str] = set()
    names = {os.path.relpath(path, root): path for path in builtin.modules([root], others)}
    chosen = sorted((name for name in names if _topic(name) in TOPICS), key=_hash)
    paragraphs = builtin.paragraphs_of_modules([names[name] for name in chosen])
    for name, texts in zip(chosen, paragraphs, strict=True):
        own = found[_topic(name)]
        fresh = (text for text in texts if len(text.split()) in _WORDS and text not in seen)
        kept = list(itertools.islice(dict.fromkeys(fresh), _MODULE_TEXTS))
        seen.update(kept)
        own[min(own, key=lambda file: len(own[file]) / FILES[file])] += kept
    return found


def _topic(name: str) -> str:
    return _TOPIC_OF.get(name.split(os.sep)[0].removesuffix(".py"), "")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
