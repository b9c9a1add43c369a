"""Retries of blocking functions, with random and increasing pauses."""

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
    """Return a decorator that retries a function after transient errors.

    Args:
        error_type: The type of the errors to retry after.
        is_transient: A function that returns whether an error of this type is transient.
        attempts: The maximum number of attempts. The error of the last attempt is raised.
        first_pause_seconds: The upper limit of the first pause. The limit doubles after each attempt.
        longest_pause_seconds: The maximum of the upper limit.
    """
    return tenacity.retry(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, error_type) and is_transient(error)),
        wait=tenacity.wait_random_exponential(multiplier=first_pause_seconds, max=longest_pause_seconds),
        stop=tenacity.stop_after_attempt(attempts),
        reraise=True,
    )
