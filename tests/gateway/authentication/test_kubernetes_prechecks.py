"""Tokens that cannot be valid are not sent to the Kubernetes API server."""

from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from kubernetes.client import ApiClient

from gateway.authentication.credentials import Credentials
from gateway.authentication.kubernetes_tokens import KubernetesMethod, KubernetesSettings
from gateway.authentication.method import DeniedError

AUDIENCES = ("lodge", "third")


class RecordingMethod(KubernetesMethod):
    """Records the tokens for the API server, which refuses all of them."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        connection: Any = SimpleNamespace(api_client=ApiClient(), server="")
        super().__init__(KubernetesSettings(AUDIENCES), connection)
        self.sent.clear()

    def _send(self, token: str) -> Any:
        self.sent.append(token)
        return SimpleNamespace(authenticated=False)


def token(**claims: Any) -> str:
    return jwt.encode(claims, "k" * 32)


async def is_sent(sent: str) -> bool:
    method = RecordingMethod()
    with pytest.raises(DeniedError) as denied:
        await method.authenticate(Credentials(sent))
    assert not denied.value.is_final
    return method.sent == [sent]


@pytest.mark.parametrize("audience", ["lodge", ["other", "third"]])
async def test_guarantee_3_token_for_a_configured_audience_is_reviewed(audience: object) -> None:
    assert await is_sent(token(aud=audience))


@pytest.mark.parametrize(
    "junk",
    [
        *("junk", "a.b.c", "..", "a.b", "a.b.c.d", token(), token(aud="other"), token(aud=[])),
        *(token(aud=5), token(aud={"lodge": 1}), token(aud=[["lodge"]]), token(aud="lodge") + ".x"),
    ],
)
async def test_guarantee_3_token_that_cannot_be_valid_is_not_reviewed(junk: str) -> None:
    assert not await is_sent(junk)
