"""What Lodge makes of a configuration file that the chart, or a test, has written."""

import argparse
from pathlib import Path

from lodge.settings import ServeSettings, SettingsOptions


def read_settings(content: str, directory: Path) -> ServeSettings:
    """As `lodge serve --config` reads it. Raises: lodge.errors.SettingError."""
    file = directory / "lodge.yaml"
    file.write_text(content)
    parser = argparse.ArgumentParser()
    options = SettingsOptions(ServeSettings, parser)
    return options.read(parser.parse_args(["--config", str(file)]))
