"""Entry point of ``python -m lodge``."""

import sys

from lodge.cli import main

sys.exit(main())
