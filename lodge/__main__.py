"""``python -m lodge`` is the command ``lodge``."""

import sys

from lodge.cli import main

sys.exit(main())
