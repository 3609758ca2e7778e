"""Hashes that are the same on every machine and in every process."""

import hashlib

# One more than the largest hash.
HASH_RANGE = 1 << 64


def stable_hash(*parts: object) -> int:
    """A 64-bit hash of values by what `repr` says of them."""
    data = repr(parts).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
