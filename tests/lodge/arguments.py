"""Settings read from arguments, as a command reads them."""

import argparse
from typing import TypeVar

from lodge.settings import ReapSettings, ServeSettings, SettingsOptions

S = TypeVar("S", bound=ReapSettings)


def read(*arguments: str, model: type[S] = ServeSettings) -> S:  # type: ignore[assignment]  # a default of a type variable
    parser = argparse.ArgumentParser()
    options = SettingsOptions(model, parser)
    return options.read(parser.parse_args(arguments))
