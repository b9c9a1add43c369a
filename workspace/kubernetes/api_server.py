"""Asking the API server, and what becomes of an answer that does not come or does not please.

Why it exists: the server may be away, throttle, forbid, or lose an answer, at any request. What may be tried again, and
which failure means what, is decided here once for session records, leases and root ids.

Guarantees:

1. What comes back is the server's answer, or a :class:`ApiStatusError` that it made for the object asked for, or
   RecordsUnavailableError. So "not found" is only what the server says of the object itself: never a definition that is
   not installed, nor the answer of something in between.
2. A request that got neither is repeated with back-off for a bounded time, and not before the time that a throttling
   server names. That goes for missing rights as well: a server that has just started does not know them yet. So a
   request must be one that may take effect twice without harm; a refusal says whether an earlier answer was lost.

Sources: Kubernetes API concepts, "Error codes"; API Priority and Fairness.
"""

import http
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import tenacity
import urllib3
from kubernetes.client import ApiException
from kubernetes.config import ConfigException

from workspace.kubernetes.connection import REQUEST_TIMEOUT_SECONDS, Connection
from workspace.records import RecordsUnavailableError

JsonObject = Mapping[str, Any]

_REFUSALS = frozenset({404, 409, 410, 413, 422})
_LOOK_AFTER_SERVER = "It may be tried again; look after the API server."
_NO_API_SERVER = "no API server answers there"
_CORRECT_ADDRESS = "Correct its address."
_WAYS_OUT = {
    0: "Check its address and certificate authority.",
    400: "Check that the definition connectsessions.sparklodge.io is the one of this release.",
    401: "Renew the pod's token, or the credentials of the kubeconfig.",
    403: "Give the service account the rights that the chart's Role lists.",
    404: "Check that the namespace exists, and that the definition connectsessions.sparklodge.io is installed.",
}
_TOO_LARGE = ("request is too large", "message larger than max")
_LONGEST_WAIT_SECONDS = 5.0
_LONGEST_MESSAGE = 200
_BACK_OFF = tenacity.wait_random_exponential(multiplier=0.05, max=1.0)
PAGE_OBJECTS = 500
_LIST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a request may take.

    Attributes:
        timeout_seconds: For connecting, and for each wait for data, of one attempt.
        repeat_seconds: How long after the first attempt another one may begin.
    """

    timeout_seconds: tuple[float, float] = REQUEST_TIMEOUT_SECONDS
    repeat_seconds: float = 5.0


class ApiStatusError(Exception):
    """The server will not do this to the object.

    Attributes:
        status: 404, 409, 410, 413 or 422.
        was_lost: Whether the answer to an earlier attempt was lost, which may have taken effect.
    """

    def __init__(self, status: int, message: str, *, was_lost: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.was_lost = was_lost


class ApiServer:
    """The API server behind a connection.

    Args:
        connection: To it.
        what: What is asked for here, for messages, such as "session records".
        resource: Its name in the API, such as ``connectsessions``.
        patience: How long a request may take.
    """

    def __init__(self, connection: Connection, what: str, resource: str, patience: RetryPolicy | None = None) -> None:
        self._connection = connection
        self._what = what
        self._resource = resource
        self._patience = patience or RetryPolicy()

    def request(self, request: Callable[..., Any]) -> JsonObject:
        """Makes a request.

        Args:
            request: A function of the Kubernetes client, with all it needs.

        Raises: ApiStatusError, RecordsUnavailableError
        """
        was_lost = False

        def attempt() -> JsonObject:
            nonlocal was_lost
            try:
                return self._asked_once(request)
            except _UnansweredError as error:
                was_lost = was_lost or error.may_have_acted
                raise

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_UnansweredError),
            wait=_wait_seconds,
            stop=tenacity.stop_after_delay(self._patience.repeat_seconds),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _UnansweredError as error:
            raise self.unavailable(error.reason, error.way_out) from error
        except ApiStatusError as error:
            raise ApiStatusError(error.status, error.message, was_lost=was_lost) from error

    def list_all(self, request: Callable[..., Any]) -> tuple[list[JsonObject], str]:
        """Lists objects page by page, as they were at one point in time that is not before the call.

        Args:
            request: A listing function of the Kubernetes client, with all it needs but the page.

        Returns: The objects, and the resource version of the list.

        Raises: RecordsUnavailableError
        """
        for _ in range(_LIST_ATTEMPTS):
            try:
                return self._list(request)
            except ApiStatusError as error:
                if error.status != http.HTTPStatus.GONE:
                    raise self.unavailable(error.message, "Look after the API server.") from error
        raise self.unavailable("the list grew too old while it was read", "It may be tried again.")

    def unavailable(self, reason: str, way_out: str) -> RecordsUnavailableError:
        server = self._connection.server
        return RecordsUnavailableError(None, f"The {self._what} at [{server}] cannot be used now: {reason}. {way_out}")

    def _list(self, request: Callable[..., Any]) -> tuple[list[JsonObject], str]:
        found: list[JsonObject] = []
        more: dict[str, str] = {}
        while True:
            page = self.request(partial(request, limit=PAGE_OBJECTS, **more))
            items, version = page.get("items"), page["metadata"].get("resourceVersion")
            if not isinstance(version, str) or not isinstance(items, list) or not all(map(is_object, items)):
                raise self.unavailable(_NO_API_SERVER, _CORRECT_ADDRESS)
            found += items
            if not page["metadata"].get("continue"):
                return found, version
            more = {"_continue": page["metadata"]["continue"]}

    def _asked_once(self, request: Callable[..., Any]) -> JsonObject:
        """Raises: ApiStatusError, _UnansweredError."""
        try:
            response = request(_preload_content=False, _request_timeout=self._patience.timeout_seconds)
            answer = json.loads(response.data)
        except ApiException as error:
            raise self._failure(error) from error
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise _UnansweredError(str(error), may_have_acted=False) from error
        except urllib3.exceptions.HTTPError as error:
            raise _UnansweredError(f"{type(error).__name__}: {error}") from error
        except (ConfigException, OSError) as error:
            raise _UnansweredError(str(error), "Look after the pod's token, or the kubeconfig.") from error
        except ValueError as error:
            raise _UnansweredError(f"{_NO_API_SERVER} ({error})", _CORRECT_ADDRESS) from error
        if not _is_answer(answer):
            raise _UnansweredError(_NO_API_SERVER, _CORRECT_ADDRESS)
        return answer

    def _failure(self, error: ApiException) -> Exception:
        said = _Said.by(error)
        status = error.status or 0
        if any(phrase in said.text for phrase in _TOO_LARGE):
            return ApiStatusError(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said.text)
        if status in _REFUSALS and (status != http.HTTPStatus.NOT_FOUND or said.resource == self._resource):
            return ApiStatusError(status, said.text)
        return _UnansweredError(
            said.text,
            _WAYS_OUT.get(status, _LOOK_AFTER_SERVER),
            may_have_acted=not http.HTTPStatus.BAD_REQUEST <= status < http.HTTPStatus.INTERNAL_SERVER_ERROR,
            wait_seconds=said.wait_seconds,
        )


def is_object(content: object) -> TypeGuard[JsonObject]:
    """Whether it can be an object of the Kubernetes API, of whatever kind."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _is_answer(content: object) -> TypeGuard[JsonObject]:
    """Whether it can be what the API server answers: an object, a list of them, or a status."""
    return (
        isinstance(content, dict) and isinstance(content.get("kind"), str) and isinstance(content.get("metadata"), dict)
    )


class _UnansweredError(Exception):
    def __init__(
        self,
        reason: str,
        way_out: str = _LOOK_AFTER_SERVER,
        *,
        may_have_acted: bool = True,
        wait_seconds: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.way_out = way_out
        self.may_have_acted = may_have_acted
        self.wait_seconds = wait_seconds


@dataclass(frozen=True, slots=True)
class _Said:
    """What stands in an answer that is an error."""

    text: str
    resource: str | None
    wait_seconds: float

    @classmethod
    def by(cls, error: ApiException) -> "_Said":
        status = _status_object(error.body)
        message = status.get("message") or (error.body or "")[:_LONGEST_MESSAGE]
        details = status.get("details") or {}
        wait = (error.headers or {}).get("Retry-After", "")
        return cls(
            text=" ".join(f"{error.status or 'no answer'} {error.reason}: {message}".split()),
            resource=details.get("kind"),
            wait_seconds=min(float(wait), _LONGEST_WAIT_SECONDS) if wait.isdigit() else 0.0,
        )


def _status_object(body: str | None) -> JsonObject:
    try:
        content = json.loads(body or "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) and content.get("kind") == "Status" else {}


def _wait_seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome and state.outcome.exception()
    asked_for = error.wait_seconds if isinstance(error, _UnansweredError) else 0.0
    return asked_for + _BACK_OFF(state)
