"""Reads a configuration file of Lodge."""

import argparse
from pathlib import Path

from lodge.settings import ServeSettings, SettingsOptions


def read_settings(content: str, directory: Path) -> ServeSettings:
    """Read the file as `lodge serve --config` does."""
    file = directory / "lodge.yaml"
    file.write_text(content)
    parser = argparse.ArgumentParser()
    options = SettingsOptions(ServeSettings, parser)
    return options.read(parser.parse_args(["--config", str(file)]))
