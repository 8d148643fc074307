"""Random draws without a shared generator: each is keyed by what it is for.

Keys make a replay repeat exactly and comparisons paired: trial 7 gets the same
draw whatever the scheduler did before. The generator is NumPy's PCG64, seeded through
`SeedSequence` with the seed and the key.
"""

import zlib

import numpy as np

__all__ = ["keyed"]


def keyed(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """Return the generator of one draw.

    Args:
        seed: the run's seed, not negative.
        purpose: what is drawn ("suggest", "donor", …): the same key under another
            purpose gives an independent draw.
        key: what the draw belongs to: a trial, a trial and its step, a replication.
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *key])
