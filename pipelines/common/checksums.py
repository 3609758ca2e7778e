"""A hash that is the same everywhere."""

import hashlib

HASH_RANGE = 1 << 64  # of `stable_hash`, exclusive


def stable_hash(*parts: object) -> int:
    """A 64-bit hash of the `repr` of values, the same on every machine and in every process."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
