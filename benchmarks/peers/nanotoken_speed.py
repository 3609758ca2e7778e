"""Times nanotoken on one core, in megabytes of UTF-8 per second, printed as JSON."""

import argparse
import functools
from pathlib import Path

import nanotoken
import timing


def main() -> None:
    """Times several passes over the lines of a file and prints the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab", required=True)
    args = parser.parse_args()
    tokenizer = nanotoken.Tokenizer(args.vocab)
    encode = functools.partial(tokenizer.encode_batch, add_special_tokens=False, parallel=False)
    timing.report_tokenizer(encode, Path(args.input).read_text("utf-8").splitlines())


if __name__ == "__main__":
    main()
