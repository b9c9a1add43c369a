"""The connection to a Kubernetes API server, for one Lodge installation.

The gateway and the reaper run for months, but credentials expire earlier. The kubelet replaces the token of a pod
within an hour, and certificates are renewed. In addition, a request without a timeout could block its caller for ever.
Therefore, all requests of Lodge to the API server use the client of this module.

Guarantees:

1. If the server rejects the credentials of a request, and the token of the pod or the contents of the kubeconfig have
   changed since they were read, the request is repeated once. This does not depend on the clock.
2. Every request has a timeout for the connection and for each wait for data; see :data:`REQUEST_TIMEOUT_SECONDS`.
3. A request is never repeated silently, except as described in guarantee 1, where the server has not acted on the
   request. If the response to a request was lost, the request may have taken effect. Only its caller can determine the
   consequences.

The client can be shared between threads. It cannot be used in a process that was forked after the first request.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import urllib3
import yaml
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.client.rest import RESTClientObject, RESTResponse
from kubernetes.config import ConfigException, incluster_config, kube_config

REQUEST_TIMEOUT_SECONDS = (3.0, 10.0)
"""The timeouts for the connection and for each wait for data."""

_CONNECTIONS_KEPT = 32
_REFRESH_SECONDS = 1.0  # the library refreshes the credentials for each request, which needs much processor time
_OK = 200
_MULTIPLE_CHOICES = 300
_UNAUTHORIZED = 401
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubernetesConfigError(Exception):
    """Raised if the configuration for the API server is missing or not valid.

    The message contains instructions for the operator.
    """


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection of one Lodge installation to the API server.

    Attributes:
        api_client: The client for the generated APIs of the Kubernetes library.
        namespace: The namespace of all objects.
        instance: The name of the Lodge installation in the namespace.
    """

    api_client: ApiClient
    namespace: str
    instance: str

    @property
    def server(self) -> str:
        """The address of the API server, for error messages."""
        return str(self.api_client.configuration.host)


def connect(kubeconfig: Path | None, namespace: str | None, instance: str) -> Connection:
    """Read the configuration for the API server, without sending a request.

    Args:
        kubeconfig: The path of a kubeconfig file. None means the service account of the pod or, outside Kubernetes,
            the files in ``KUBECONFIG`` or ``~/.kube/config``.
        namespace: The namespace. None means the namespace of the pod or, with a kubeconfig, the namespace of its
            context or ``default``.
        instance: The name of the Lodge installation in the namespace.

    Raises:
        KubernetesConfigError: If the configuration is missing or not valid.
    """
    if kubeconfig is None and os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        load, own_namespace = _load_from_pod, _namespace_of_pod
    else:
        files = str(kubeconfig) if kubeconfig is not None else kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        load, own_namespace = lambda: _load_from_file(files), lambda: _namespace_of_file(files)
    return Connection(_Client(load), namespace or own_namespace(), instance)


def send_json(
    client: ApiClient,
    method: str,
    path: str,
    body: Any = None,
    content_type: str = "application/json",
    *,
    _preload_content: bool = False,
    _request_timeout: Any = None,
) -> Any:
    """Send a request with a JSON body, and return the response.

    This is equivalent to a function of the library that is called with ``_preload_content=False``. It needs less
    processor time, because it does not check the types of the arguments.

    Raises:
        ApiException: If the status of the response is not 2xx.
    """
    headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": client.user_agent}
    client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
    url = f"{client.configuration.host}{path}"
    response = client.call_api(method, url, headers, body, _request_timeout=_request_timeout)
    if not _OK <= response.status < _MULTIPLE_CHOICES:
        response.read()  # type: ignore[no-untyped-call]  # the library's
        raise ApiException.from_response(http_resp=response, body=None, data=None)
    return response.response


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A configuration and its credentials.

    Two configurations may have the same credentials.
    """

    configuration: Configuration
    token: str | None
    certificate: bytes


class _Client(ApiClient):
    """The client of the Kubernetes library, with the guarantees of this module.

    The library itself reloads the token of a pod according to the wall clock, never reloads the credentials of a
    kubeconfig, and does not react if the server rejects the credentials.
    """

    def __init__(self, load: Callable[[], Configuration]) -> None:
        self._load = load
        self._loading = Lock()
        self._loaded = _load_credentials(load())
        super().__init__(self._loaded.configuration)
        self.user_agent = "lodge"

    def call_api(
        self,
        method: str,
        url: str,
        header_params: dict[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,
        _request_timeout: Any = None,
    ) -> RESTResponse:
        used = self._loaded
        timeout = _request_timeout or REQUEST_TIMEOUT_SECONDS
        headers = dict(header_params or {})
        if "authorization" in headers:
            headers["authorization"] = headers["authorization"].strip()  # token files may end with a newline
        response = super().call_api(method, url, headers, body, post_params, timeout)
        if response.status != _UNAUTHORIZED or not self._reload(used):
            return response
        response.response.drain_conn()
        if self._loaded.token is not None:
            headers["authorization"] = self._loaded.token
        return super().call_api(method, url, headers, body, post_params, timeout)

    def _reload(self, used: _Loaded) -> bool:
        """Load the credentials again, and return whether they have changed."""
        with self._loading:
            if self._loaded is used:
                try:
                    loaded = _load_credentials(self._load())
                except KubernetesConfigError:  # the configuration may be in the process of being written
                    return False
                if (loaded.token, loaded.certificate) == (used.token, used.certificate):
                    return False
                self.rest_client = RESTClientObject(loaded.configuration)
                self.configuration = loaded.configuration
                self._loaded = loaded
            return True


def _load_credentials(configuration: Configuration) -> _Loaded:
    _limit_refreshes(configuration)
    token = configuration.get_api_key_with_prefix("BearerToken")
    certificate = configuration.cert_file
    return _Loaded(
        configuration,
        token=token and token.strip(),
        certificate=Path(certificate).read_bytes() if certificate else b"",
    )


def _limit_refreshes(configuration: Configuration) -> None:
    """Refresh the credentials of a configuration at most once in ``_REFRESH_SECONDS``."""
    refresh = configuration.refresh_api_key_hook
    if refresh is None:
        return
    due_seconds = 0.0

    def refresh_if_due(refreshed: Configuration) -> None:
        nonlocal due_seconds
        now_seconds = time.monotonic()
        if now_seconds >= due_seconds:
            refresh(refreshed)
            due_seconds = now_seconds + _REFRESH_SECONDS

    configuration.refresh_api_key_hook = refresh_if_due


def _load_from_pod() -> Configuration:
    configuration = _new_configuration()
    try:
        incluster_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's
    except (ConfigException, OSError) as error:
        raise KubernetesConfigError(
            f"The pod's service account cannot be used: {error}. Mount the service account's token in the pod "
            "(automountServiceAccountToken), or set a kubeconfig file with --kubeconfig."
        ) from error
    return configuration


def _load_from_file(files: str) -> Configuration:
    configuration = _new_configuration()
    with _convert_errors(files):
        kube_config.load_kube_config(  # type: ignore[no-untyped-call]  # the library's
            files, client_configuration=configuration, persist_config=False
        )
    return configuration


def _new_configuration() -> Configuration:
    configuration = Configuration()
    configuration.retries = urllib3.Retry(False)
    configuration.connection_pool_maxsize = _CONNECTIONS_KEPT
    return configuration


def _namespace_of_pod() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError as error:
        raise KubernetesConfigError(
            f"The namespace of the pod cannot be read: {error}. Set the namespace with --namespace."
        ) from error


def _namespace_of_file(files: str) -> str:
    with _convert_errors(files):
        _, current = kube_config.list_kube_config_contexts(files)  # type: ignore[no-untyped-call]  # the library's
        return str(current["context"].get("namespace") or "default")


@contextmanager
def _convert_errors(files: str) -> Iterator[None]:
    try:
        yield
    except (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise KubernetesConfigError(
            f"The kubeconfig [{files}] cannot be used: {reason}. Correct the file, or set another file with "
            "--kubeconfig."
        ) from error
