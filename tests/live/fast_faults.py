"""How the fast worker misbehaves: when it is time to, and what it says then."""

import os

LINES = {
    "garbage": b"\x00\xff no message\n",
    "literal-nan": b'{"type":"beat","steps":NaN}\n',
    "second-hello": b'{"type":"hello","protocol":1,"token":""}\n',
    "saves-unasked": b'{"type":"saved","state":{}}\n',
    "wrong-report": b'{"type":"report","step":12345,"score":1.0,"reached":12345}\n',
    "zero-row": b'{"type":"rows","rows":[[0.0,0,0,1.0]]}\n',
    "negative": b'{"type":"beat","steps":-1}\n',
    "huge": b'{"type":"rows","rows":[[9e300,%d,99,1.0]]}\n' % 10**30,
    "backwards": b'{"type":"rows","rows":[[0.001,1,1,1.0]]}\n',
    "long-line": b"x" * (2 << 20),
}  # fmt: skip
"""What may not be said, by the kind of fault."""
SAME_EPISODE = b'{"type":"rows","rows":[[99.0,99,%d,1.0]]}\n'
"""A row further on, of an episode that was told already."""


class Faults:
    """What is to go wrong, and what has."""

    def __init__(self, texts, marks, trial):
        self.marks, self.trial, self.node = marks, trial, os.environ["SIMSCHED_NODE"]
        self.faults = []
        for text in texts:
            kind, *pairs = text.split(",")
            self.faults.append((kind, dict(pair.split("=") for pair in pairs)))

    def due(self, kind, step=None):
        """Tell whether a fault is to happen now, and count it."""
        for number, (name, only) in enumerate(self.faults):
            here = int(only.get("trial", self.trial)) == self.trial
            here = here and only.get("node", self.node) == self.node
            if name == kind and here and (step is None or step >= int(only.get("step", 1))):
                most = int(only.get("times", 0))
                return not most or self._count(f"{self.marks}/{number}-{self.trial}", most)
        return False

    def is_open(self):
        """Tell whether the gate is open."""
        return os.path.exists(f"{self.marks}/open")

    def _count(self, path, most):
        for done in range(most):
            try:
                os.close(os.open(f"{path}-{done}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False
