"""Retries of blocking functions, with random pauses that grow up to a limit."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tenacity

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=Exception)


def retry_on(
    error_type: type[_Error],
    *,
    is_transient: Callable[[_Error], bool] = lambda error: True,
    attempts: int = 50,
    first_pause_seconds: float = 0.002,
    longest_pause_seconds: float = 0.1,
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator that retries a function when it raises a transient error.

    Args:
        error_type: The type of the errors.
        is_transient: Whether an error of that type is transient.
        attempts: The number of attempts; the error of the last one passes on.
        first_pause_seconds: The limit of the first pause. The limit doubles with each attempt.
        longest_pause_seconds: The limit of all pauses.
    """
    return tenacity.retry(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, error_type) and is_transient(error)),
        wait=tenacity.wait_random_exponential(multiplier=first_pause_seconds, max=longest_pause_seconds),
        stop=tenacity.stop_after_attempt(attempts),
        reraise=True,
    )
