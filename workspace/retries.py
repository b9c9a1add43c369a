"""Retries of blocking functions, with random pauses that grow up to a limit."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tenacity

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def retry_on(
    is_transient: type[Exception] | Callable[[BaseException], bool],
    *,
    attempts: int = 50,
    first_pause_seconds: float = 0.002,
    longest_pause_seconds: float = 0.1,
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator that retries a function when it raises a transient error.

    Args:
        is_transient: The type of the transient errors, or a function that recognises them.
        attempts: The number of attempts; the error of the last one passes on.
        first_pause_seconds: The limit of the first pause. It doubles with each attempt.
        longest_pause_seconds: The limit of all pauses.
    """
    by_type = isinstance(is_transient, type)
    retry = tenacity.retry_if_exception_type(is_transient) if by_type else tenacity.retry_if_exception(is_transient)
    return tenacity.retry(
        retry=retry,
        wait=tenacity.wait_random_exponential(multiplier=first_pause_seconds, max=longest_pause_seconds),
        stop=tenacity.stop_after_attempt(attempts),
        reraise=True,
    )
