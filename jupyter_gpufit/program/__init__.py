"""The cell as a program that can be left at a safe point and entered there again, in another process.

`scopes`, `names`, `form`, `expressions`, `statements`, `units`: trees to trees, nothing else. `source`: trees to code.
`activation`, `frame`, `functions`, `managers`, `standing`: while it runs. `library`, `own_resume`: the loops of others.
`program` holds it all together: start there. Above it are only
`generators`, which are saved apart from the cell, and `midway`: those in use, wherever they are.
"""

from .libraries.library import read_ahead
from .running import generators, midway
from .running.managers import Recipe
from .running.program import Program
from .values import FrameRecord, GeneratorRecord, Unit, hidden

__all__ = [
    "FrameRecord",
    "GeneratorRecord",
    "Program",
    "Recipe",
    "Unit",
    "generators",
    "hidden",
    "midway",
    "read_ahead",
]
