"""Requests to the Kubernetes API server, with retries and classified errors.

During any request, the server may be unreachable, throttle requests, deny access, or lose a response. For session
records, leases and root ids, this module determines which requests are retried and what each error means.

Guarantees:

1. The result of a request is one of three: the response of the server, an :class:`ApiStatusError` that the server
   returned for the requested object, or RecordsUnavailableError. Therefore, "not found" always refers to the object
   itself. It never means that the resource definition is not installed, and is never the response of a proxy.
2. A request with any other outcome is retried with increasing pauses for a limited time. If the server throttles
   requests, the next attempt is not made before the time that the server requested. Requests with missing permissions
   are also retried, because a server that has just started may not know the permissions yet. Therefore, a request must
   be safe to repeat. An ApiStatusError contains the information whether the response to an earlier attempt was lost.

Source: [kubernetes-api "Error codes"], API Priority and Fairness.
"""

import http
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard, TypeVar

import tenacity
import urllib3
from kubernetes.client import ApiException
from kubernetes.config import ConfigException

from workspace.kubernetes.connection import REQUEST_TIMEOUT_SECONDS, Connection
from workspace.record_store import RecordsUnavailableError

JsonObject = Mapping[str, Any]
_Converted = TypeVar("_Converted")

_REFUSALS = frozenset({404, 409, 410, 413, 422})
CHECK_API_SERVER = "Check the API server."
"""The instruction for the operator if the API server does not work."""

_RETRY = "Try again, or check the API server."
_NO_API_SERVER = "the server at this address is not an API server"
_CORRECT_ADDRESS = "Correct the address of the API server."
_REMEDIES = {
    0: "Check the address and the certificate authority of the API server.",
    400: "Check that the installed definition of connectsessions.sparklodge.io belongs to this release.",
    401: "Renew the pod's token or the credentials in the kubeconfig.",
    403: "Give the service account the rights that are listed in the chart's Role.",
    404: "Check that the namespace exists and that the definition connectsessions.sparklodge.io is installed.",
}
_TOO_LARGE = ("request is too large", "message larger than max")
_LONGEST_WAIT_SECONDS = 5.0
_MAX_MESSAGE = 200
_BACK_OFF = tenacity.wait_random_exponential(multiplier=0.05, max=1.0)
PAGE_OBJECTS = 500
_LIST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time limits for requests.

    Attributes:
        timeout_seconds: The timeouts for each attempt: the first for the connection, the second for each wait for
            data.
        repeat_seconds: The time after the first attempt during which further attempts may begin.
    """

    timeout_seconds: tuple[float, float] = REQUEST_TIMEOUT_SECONDS
    repeat_seconds: float = 5.0


class ApiStatusError(Exception):
    """Raised if the server refused a request for an object.

    Attributes:
        status: The HTTP status: 404, 409, 410, 413 or 422.
        message: The reason that the server returned.
        was_lost: Whether the response to an earlier attempt was lost. In this case, the earlier attempt may have taken
            effect.
    """

    def __init__(self, status: int, message: str, *, was_lost: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.was_lost = was_lost


class ApiServer:
    """A client for one kind of requests to the API server.

    Args:
        connection: The connection to the API server.
        description: A description of the requested objects for error messages, such as "session records".
        resource: The name of the resource in the API, such as ``connectsessions``.
        retry_policy: The time limits for requests.
    """

    def __init__(
        self, connection: Connection, description: str, resource: str, retry_policy: RetryPolicy | None = None
    ) -> None:
        self._connection = connection
        self._description = description
        self._resource = resource
        self._retry_policy = retry_policy or RetryPolicy()

    def request(self, request: Callable[..., Any]) -> JsonObject:
        """Send a request, and retry it if the server does not respond.

        Args:
            request: A function of the Kubernetes client, with all its arguments bound.

        Raises:
            ApiStatusError: If the server refuses the request for the object.
            RecordsUnavailableError: If the server cannot answer now.
        """
        was_lost = False

        def attempt() -> JsonObject:
            nonlocal was_lost
            try:
                return self._request_once(request)
            except _UnansweredError as error:
                was_lost = was_lost or error.may_have_acted
                raise

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_UnansweredError),
            wait=_wait_seconds,
            stop=tenacity.stop_after_delay(self._retry_policy.repeat_seconds),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _UnansweredError as error:
            raise self.unavailable(error.reason, error.remedy) from error
        except ApiStatusError as error:
            raise ApiStatusError(error.status, error.message, was_lost=was_lost) from error

    def list_all(self, request: Callable[..., Any]) -> tuple[list[JsonObject], str]:
        """Return all objects of a list, and the resource version of the list. See :meth:`list_converted`."""
        return self.list_converted(request, _unchanged)

    def list_converted(
        self, request: Callable[..., Any], convert: Callable[[JsonObject], _Converted], *, is_paged: bool = True
    ) -> tuple[list[_Converted], str]:
        """Return all objects of a list, each converted by a function.

        The result is the state at a single point in time after the call began. At most one page of objects is in memory
        at the same time, because converted objects are usually much smaller than objects.

        Args:
            request: A list function of the Kubernetes client, with all its arguments bound except the page.
            convert: A function that converts an object. Its exceptions are raised.
            is_paged: Whether to request pages. A list with a selector that matches few objects should not be paged,
                because API servers before version 1.34 read and decode all objects for a page, but not for a list.

        Returns:
            The converted objects and the resource version of the list.

        Raises:
            RecordsUnavailableError: If the server cannot answer now.
        """
        for _ in range(_LIST_ATTEMPTS):
            try:
                return self._list(request, convert, {"limit": PAGE_OBJECTS} if is_paged else {})
            except ApiStatusError as error:
                if error.status != http.HTTPStatus.GONE:
                    raise self.unavailable(error.message, CHECK_API_SERVER) from error
        raise self.unavailable("the list expired while it was being read", "Try again.")

    def unavailable(self, reason: str, remedy: str) -> RecordsUnavailableError:
        """Return the error for a server that cannot answer.

        The message contains the reason and an instruction for the operator.
        """
        server = self._connection.server
        return RecordsUnavailableError(
            None, f"The {self._description} at [{server}] cannot be used now: {reason}. {remedy}"
        )

    def _list(
        self, request: Callable[..., Any], convert: Callable[[JsonObject], _Converted], limit: Mapping[str, int]
    ) -> tuple[list[_Converted], str]:
        found: list[_Converted] = []
        more: dict[str, str] = {}
        while True:
            page = self.request(partial(request, **limit, **more))
            items, version = page.get("items"), page["metadata"].get("resourceVersion")
            if not isinstance(version, str) or not isinstance(items, list) or not all(map(is_object, items)):
                raise self.unavailable(_NO_API_SERVER, _CORRECT_ADDRESS)
            found += map(convert, items)
            if not page["metadata"].get("continue"):
                return found, version
            more = {"_continue": page["metadata"]["continue"]}

    def _request_once(self, request: Callable[..., Any]) -> JsonObject:
        """Send a request once.

        Raises:
            ApiStatusError: If the server refuses the request for the object.
            _UnansweredError: If there is no response about the object. The request may be retried.
        """
        try:
            response = request(_preload_content=False, _request_timeout=self._retry_policy.timeout_seconds)
            answer = json.loads(response.data)
        except ApiException as error:
            raise self._failure(error) from error
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise _UnansweredError(str(error), may_have_acted=False) from error
        except urllib3.exceptions.HTTPError as error:
            raise _UnansweredError(f"{type(error).__name__}: {error}") from error
        except (ConfigException, OSError) as error:
            raise _UnansweredError(str(error), "Check the pod's token or the kubeconfig.") from error
        except ValueError as error:
            raise _UnansweredError(f"{_NO_API_SERVER} ({error})", _CORRECT_ADDRESS) from error
        if not _is_answer(answer):
            raise _UnansweredError(_NO_API_SERVER, _CORRECT_ADDRESS)
        return answer

    def _failure(self, error: ApiException) -> Exception:
        failure = _Failure.from_exception(error)
        status = error.status or 0
        if any(phrase in failure.text for phrase in _TOO_LARGE):
            return ApiStatusError(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, failure.text)
        if status in _REFUSALS and (status != http.HTTPStatus.NOT_FOUND or failure.resource == self._resource):
            return ApiStatusError(status, failure.text)
        return _UnansweredError(
            failure.text,
            _REMEDIES.get(status, _RETRY),
            may_have_acted=not http.HTTPStatus.BAD_REQUEST <= status < http.HTTPStatus.INTERNAL_SERVER_ERROR,
            wait_seconds=failure.wait_seconds,
        )


def _unchanged(found: JsonObject) -> JsonObject:
    return found


def is_object(content: object) -> TypeGuard[JsonObject]:
    """Return whether a JSON value has the form of a Kubernetes object."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _is_answer(content: object) -> TypeGuard[JsonObject]:
    """Return whether a JSON value has the form of a response of the API server.

    A response is an object, a list, or a status.
    """
    return (
        isinstance(content, dict) and isinstance(content.get("kind"), str) and isinstance(content.get("metadata"), dict)
    )


class _UnansweredError(Exception):
    """Raised if there is no response about the requested object; a transient error."""

    def __init__(
        self, reason: str, remedy: str = _RETRY, *, may_have_acted: bool = True, wait_seconds: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.may_have_acted = may_have_acted
        self.wait_seconds = wait_seconds


@dataclass(frozen=True, slots=True)
class _Failure:
    """The content of an error response."""

    text: str
    resource: str | None
    wait_seconds: float

    @classmethod
    def from_exception(cls, error: ApiException) -> "_Failure":
        status = _status_object(error.body)
        message = status.get("message") or (error.body or "")[:_MAX_MESSAGE]
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
    requested = error.wait_seconds if isinstance(error, _UnansweredError) else 0.0
    return requested + _BACK_OFF(state)
