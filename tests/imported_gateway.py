"""Imports what `lodge serve` imports, in the order of `lodge.cli`, and starts nothing."""

import gc
import sys
from pathlib import Path

import lodge

sys.modules["__main__"].__file__ = str(Path(lodge.__file__).with_name("__main__.py"))  # as for `python -m lodge`

from lodge import tuning, workspace_settings  # noqa: E402, F401 - after the file is known

tuning.leave_out_pandas()

from lodge import configuration, logs, serve  # noqa: E402, F401 - without pandas

gc.freeze()
