"""Writes the outcomes of the golden corpus, or shows them in full.

``python -m tests.golden record`` writes the digests that ``test_golden.py`` compares. ``python -m tests.golden show
DIRECTORY`` writes all outcomes in full, one file for each group. To see what a change does, show the outcomes before
and after it, and compare the two directories.
"""

import sys
from pathlib import Path

from tests.golden.outcomes import digests, outcomes, write_digests


def main(arguments: list[str]) -> int:
    match arguments:
        case ["record"]:
            write_digests(digests())
        case ["show", directory]:
            for group, found in outcomes():
                path = Path(directory) / f"{group.replace('/', '_')}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n\n".join(f"=== {text}\n{outcome}" for text, outcome in found))
        case _:
            print("usage: python -m tests.golden record | show DIRECTORY", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
