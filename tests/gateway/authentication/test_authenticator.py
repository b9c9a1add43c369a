"""How methods are combined (guarantees: gateway.authentication.authenticator)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from gateway.authentication.authenticator import CACHE_SECONDS, Authenticator
from gateway.authentication.client_certificates import CertificateMethod, CertificateSettings
from gateway.authentication.credentials import MAX_TOKEN_BYTES, Credentials
from gateway.authentication.method import CredentialKind, DeniedError, UndecidedError
from gateway.authentication.unavailable import UnavailableMethod
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from tests.gateway.authentication.conftest import Call, call_with, identify, refusal
from tests.gateway.function_calls import MOST_CALLS, count_calls
from tests.identity.certificates import CertificateAuthority
from workspace.identifiers import Principal

ADA, BOB = Identity(Principal("ada")), Identity(Principal("bob"))
NOT_MINE = DeniedError("unknown", is_final=False)


@dataclass(eq=False)
class FixedAnswer:
    """A method that gives the same answer to every question, and counts the questions."""

    answer: Identity | Exception | None
    kind: str = "fixed"
    reads: CredentialKind = CredentialKind.BEARER_TOKEN
    max_cache_seconds: float | None = None
    is_failing: bool = False
    asked: int = 0
    changed: Callable[[], None] | None = field(default=None, repr=False)

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def watch(self, on_change: Callable[[], None]) -> None:
        self.changed = on_change
        await asyncio.Event().wait()


async def test_without_method_nobody_is_identified() -> None:
    authenticator = Authenticator()
    assert not authenticator.is_configured
    assert await authenticator.identify(call_with("anything")) is None


async def test_methods_are_tried_in_order() -> None:
    first, second, third = FixedAnswer(None), FixedAnswer(BOB), FixedAnswer(ADA)
    assert await identify(Authenticator([first, second, third]), call_with("t")) == BOB
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)


async def test_final_denial_ends_the_search_and_others_do_not() -> None:
    final, accepting = FixedAnswer(DeniedError("revoked")), FixedAnswer(ADA)
    assert await refusal(Authenticator([final, accepting]), call_with("t")) == "the credentials are not valid"
    assert accepting.asked == 0
    assert await identify(Authenticator([FixedAnswer(NOT_MINE), accepting]), call_with("t")) == ADA


async def test_credentials_that_no_method_knows_are_refused() -> None:
    with capture_logs() as logs:
        await refusal(Authenticator([FixedAnswer(None), FixedAnswer(NOT_MINE, "other")]), call_with("t"))
    (line,) = logs
    assert line["event"] == "authentication_failed"
    assert line["answers"] == ["fixed: the credentials are not for this method", "other: unknown"]


async def test_undecided_method_makes_the_client_try_again() -> None:
    undecided = FixedAnswer(UndecidedError("no response"))
    for methods in ([undecided], [undecided, FixedAnswer(None)], [undecided, FixedAnswer(NOT_MINE)]):
        with pytest.raises(GatewayError) as refused:
            await Authenticator(methods).identify(call_with("t"))
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE
        assert refused.value.retry_after_seconds
    assert await identify(Authenticator([undecided, FixedAnswer(ADA)]), call_with("t")) == ADA
    denied = Authenticator([undecided, FixedAnswer(DeniedError("forged"))])
    assert await refusal(denied, call_with("t")) == "the credentials are not valid"


async def test_guarantee_3_identity_is_used_again_until_something_changes() -> None:
    method = FixedAnswer(ADA)
    authenticator = Authenticator([method])
    await authenticator.start()
    for _ in range(3):
        await identify(authenticator, call_with("t"))
    assert method.asked == 1
    await identify(authenticator, call_with("u"))
    assert method.asked == 2
    assert method.changed is not None
    method.changed()
    method.answer = DeniedError("revoked")
    await refusal(authenticator, call_with("t"))
    await authenticator.stop()


@pytest.mark.parametrize(
    "method",
    [
        FixedAnswer(ADA, max_cache_seconds=0.0),
        FixedAnswer(Identity(Principal("ada"), expires_at=time.time() - 1)),
    ],
)
async def test_guarantee_3_identity_is_not_used_after_its_time(method: FixedAnswer) -> None:
    authenticator = Authenticator([method])
    for asked in (1, 2):
        await identify(authenticator, call_with("t"))
        assert method.asked == asked


async def test_guarantee_3_change_during_a_question_is_not_lost() -> None:
    method = FixedAnswer(ADA)
    authenticator = Authenticator([method])
    question = asyncio.create_task(authenticator.identify(call_with("t")))
    await asyncio.sleep(0)
    authenticator.forget()
    assert await question == ADA
    method.answer = DeniedError("revoked")
    await refusal(authenticator, call_with("t"))


async def test_known_token_costs_a_request_little() -> None:
    """The identity of a known token takes a few function calls, and no step of the event loop."""
    method = FixedAnswer(ADA)
    authenticator, call = Authenticator([method]), call_with("t" * 1000)
    await authenticator.identify(call)

    def identify_again() -> None:
        with pytest.raises(StopIteration) as ended:
            authenticator.identify(call).send(None)
        assert ended.value.value == ADA

    assert count_calls(identify_again) < MOST_CALLS
    assert method.asked == 1


async def test_guarantee_6_accepted_credentials_are_verified_again_without_a_limit() -> None:
    method = FixedAnswer(ADA, max_cache_seconds=0)
    authenticator = Authenticator([method])
    limited: list[str] = []

    @asynccontextmanager
    async def limit_login(peer: str) -> AsyncIterator[None]:
        limited.append(peer)
        yield

    async def is_limited() -> bool:
        del limited[:]
        with suppress(GatewayError):
            await authenticator.identify(call_with("t"), limit_login)
        return bool(limited)

    assert [await is_limited() for _ in range(3)] == [True, False, False]
    authenticator.forget()
    assert not await is_limited()
    for undecided in (UndecidedError("no answer"), ADA):
        method.answer = undecided
        assert not await is_limited()
    method.answer = NOT_MINE  # revoked
    assert [await is_limited() for _ in range(3)] == [False, True, True]
    assert method.asked == 9


async def test_refusals_are_not_cached() -> None:
    method = FixedAnswer(NOT_MINE)
    authenticator = Authenticator([method])
    await refusal(authenticator, call_with("t"))
    method.answer = ADA
    assert await identify(authenticator, call_with("t")) == ADA
    assert CACHE_SECONDS <= 60


async def test_replaced_methods_decide_from_now_on() -> None:
    old, kept, new = FixedAnswer(ADA), FixedAnswer(None, "kept"), FixedAnswer(BOB)
    authenticator = Authenticator([kept, old])
    await authenticator.start()
    assert await identify(authenticator, call_with("t")) == ADA
    watched = kept.changed
    await authenticator.replace([kept, new])
    assert await identify(authenticator, call_with("t")) == BOB
    assert kept.changed is watched
    await authenticator.replace([])
    assert await authenticator.identify(call_with("t")) is None
    await authenticator.stop()


@pytest.mark.parametrize(
    "metadata",
    [
        [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        [("authorization", "Bearer a"), ("authentication", "Bearer b")],
        [("authorization", "Basic YTpi")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [("authorization", "")],
        [("authorization", "a")],
        [("authorization", "Bearer a b")],
        [("authorization", "Bearer a\tb")],
        [("authorization", "Bearer é")],
        [("authorization", "Bearer a"), ("authentication", "Basic YTpi")],
        [("authorization", f"Bearer {'a' * (MAX_TOKEN_BYTES + 1)}")],
    ],
    ids=lambda metadata: str(metadata)[:60],
)
async def test_malformed_credentials_are_refused(metadata: list[tuple[str, str]]) -> None:
    method = FixedAnswer(ADA)
    assert await refusal(Authenticator([method]), Call(metadata)) == "the credentials are malformed"
    assert method.asked == 0


async def test_same_token_under_both_keys_is_accepted() -> None:
    call = Call([("authorization", "Bearer t"), ("authentication", "bearer t"), ("x-other", "Basic u")])
    assert await identify(Authenticator([FixedAnswer(ADA)]), call) == ADA


async def test_missing_credentials_are_refused() -> None:
    assert await refusal(Authenticator([FixedAnswer(ADA)]), Call([("x-other", "Bearer t")])) == "it has no credentials"


async def test_guarantee_2_first_method_decides_which_credentials_count(tmp_path: Path) -> None:
    certificate = CertificateAuthority(tmp_path).client("carol").certificate.read_bytes()
    both = Call([("authorization", "Bearer t")], certificate)
    certificates = CertificateMethod(CertificateSettings())
    tokens, refusing = FixedAnswer(ADA), FixedAnswer(NOT_MINE)
    assert (await identify(Authenticator([certificates, tokens]), both)).principal == "carol"
    assert (await identify(Authenticator([tokens, certificates]), both)).principal == "ada"
    await refusal(Authenticator([refusing, certificates]), both)
    without_token = Call(certificate=certificate)
    assert (await identify(Authenticator([refusing, certificates]), without_token)).principal == "carol"
    assert (await identify(Authenticator([certificates, tokens]), call_with("t"))).principal == "ada"


async def test_flood_of_failures_does_not_fill_the_log() -> None:
    authenticator = Authenticator([FixedAnswer(None)])
    with capture_logs() as logs:
        for number in range(300):
            await refusal(authenticator, call_with(f"t{number}"))
    assert len(logs) == 100


async def test_denials_are_counted_by_method_and_problem() -> None:
    counted: list[tuple[str, str]] = []

    def count(kind: str, problem: str) -> None:
        counted.append((kind, problem))

    authenticator = Authenticator([FixedAnswer(DeniedError("old", is_expired=True), "jwt")], None, count)
    await refusal(authenticator, call_with("t"))
    await refusal(authenticator, Call())
    assert counted == [("jwt", "expired"), ("", "missing")]


@pytest.mark.parametrize(
    ("names", "is_member"),
    [
        (["ada"], True),
        (["group:admins"], True),
        (["bob", "group:admins"], True),
        (["bob", "group:others", "admins", "group:ada", "group:", ""], False),
        ([], False),
    ],
)
def test_members_are_principals_and_groups(names: list[str], *, is_member: bool) -> None:
    assert Identity(Principal("ada"), frozenset({"admins"})).is_member(names) is is_member


def test_principal_cannot_pass_for_a_group() -> None:
    assert not Identity(Principal("group:admins")).is_member(["group:admins"])


async def test_method_that_could_not_be_opened_does_not_refuse_tokens_for_good() -> None:
    missing = UnavailableMethod("kubernetes", CredentialKind.BEARER_TOKEN, "The API server does not respond.")
    assert await identify(Authenticator([FixedAnswer(ADA), missing]), call_with("t")) == ADA
    with pytest.raises(GatewayError) as refused:
        await Authenticator([FixedAnswer(NOT_MINE), missing]).identify(call_with("t"))
    assert refused.value.condition == "LODGE_AUTHENTICATION_UNAVAILABLE"
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
