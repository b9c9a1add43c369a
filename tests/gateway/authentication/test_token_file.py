import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.authentication.authenticator import CACHE_SECONDS, Authenticator
from gateway.authentication.method import Naming
from gateway.authentication.token_entries import TokenEntry, new_token, parse_token_file, render_token_file
from gateway.authentication.token_file import TokenFileMethod
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from gateway.reloading.last_valid_value import SourceError
from tests.gateway.authentication.conftest import Call, call_with, eventually, identify, refusal, watching
from tests.gateway.frozen_time import FrozenTime
from tests.gateway.thread_time import least_thread_seconds

CHECK_SECONDS = 0.05
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def issue(principal: str = "ada", **others: object) -> tuple[str, TokenEntry]:
    return new_token(principal, now=NOW, **others)  # type: ignore[arg-type]


def write(path: Path, *entries: TokenEntry) -> None:
    """Replace a token file atomically, as `lodge token` does."""
    new = path.with_suffix(".new")
    new.write_bytes(render_token_file(entries))
    new.replace(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.yaml"


async def test_token_authenticates_its_principal(file: Path) -> None:
    token, entry = issue(groups=["analysts", "ops"])
    write(file, entry, issue("bob")[1])
    authenticator = Authenticator([TokenFileMethod(file)])
    expected = Identity("ada", frozenset({"analysts", "ops"}), "tokens")  # type: ignore[arg-type]
    for key in ("authorization", "authentication"):
        assert await identify(authenticator, call_with(token, key)) == expected
    assert await identify(authenticator, Call([("authorization", f"bEARER  {token}")])) == expected


async def test_other_tokens_are_refused(file: Path) -> None:
    token, entry = issue()
    write(file, entry)
    authenticator = Authenticator([TokenFileMethod(file)])
    for wrong in (token[:-1], token + "A", token.swapcase(), entry.digest.hex(), issue()[0]):
        assert await refusal(authenticator, call_with(wrong)) == "the credentials are not valid"


async def test_expired_token_is_refused(file: Path) -> None:
    token, entry = issue(expires=datetime.now(UTC) - timedelta(seconds=1))
    write(file, entry)
    authenticator = Authenticator([TokenFileMethod(file)])
    with capture_logs() as logs:
        assert await refusal(authenticator, call_with(token)) == "the credentials have expired"
    assert logs[0]["answers"] == [f"tokens: the token [{entry.id}] has expired"]


async def test_token_expires_while_its_identity_is_cached(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FrozenTime()
    monkeypatch.setattr("gateway.authentication.authenticator.time", frozen)
    monkeypatch.setattr("gateway.authentication.token_file.time", frozen)
    left_seconds = CACHE_SECONDS / 2
    token, entry = issue(expires=datetime.fromtimestamp(frozen.time() + left_seconds, UTC))
    write(file, entry)
    authenticator = Authenticator([TokenFileMethod(file)])
    await identify(authenticator, call_with(token))
    frozen.advance(left_seconds - 1)
    await identify(authenticator, call_with(token))
    frozen.advance(2)
    assert await refusal(authenticator, call_with(token)) == "the credentials have expired"


async def test_changes_take_effect_without_restart(file: Path) -> None:
    (old, old_entry), (new, new_entry) = issue(), issue("bob")
    write(file, old_entry)
    async with watching(TokenFileMethod(file, check_seconds=CHECK_SECONDS)) as authenticator:
        await identify(authenticator, call_with(old))
        write(file, new_entry)

        async def has_changed() -> bool:
            try:
                await authenticator.identify(call_with(old))
            except GatewayError:
                return (await identify(authenticator, call_with(new))).principal == "bob"
            return False

        await eventually(has_changed, "the new file takes effect")


async def test_swapped_link_takes_effect(tmp_path: Path) -> None:
    """Kubernetes updates a mounted Secret by swapping a symbolic link to a directory."""
    (old, old_entry), (new, new_entry) = issue(), issue("bob")
    for name, entry in (("1", old_entry), ("2", new_entry)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "tokens.yaml", entry)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "tokens.yaml").symlink_to("..data/tokens.yaml")
    async with watching(TokenFileMethod(tmp_path / "tokens.yaml", check_seconds=CHECK_SECONDS)) as authenticator:
        await identify(authenticator, call_with(old))
        (tmp_path / "..data_tmp").symlink_to("2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

        async def has_changed() -> bool:
            try:
                return (await identify(authenticator, call_with(new))).principal == "bob"
            except GatewayError:
                return False

        await eventually(has_changed, "the new link takes effect")
        await refusal(authenticator, call_with(old))


def damage(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


@pytest.mark.parametrize("content", [b"tokens: [", b"tokens: {}", b"[]", b"tokens: [{id: a}]", None])
async def test_broken_file_keeps_previous_tokens(file: Path, content: bytes | None) -> None:
    token, entry = issue()
    write(file, entry)
    method = TokenFileMethod(file, check_seconds=CHECK_SECONDS)
    async with watching(method) as authenticator:
        with capture_logs() as logs:
            damage(file, content)

            async def is_failing() -> bool:
                return method.is_failing

            await eventually(is_failing, "the broken file is noticed")
        failure = next(line for line in logs if line["event"] == "authentication_source_failed")
        assert failure["log_level"] == "error"
        assert str(file) in failure["reason"]
        authenticator.forget()
        await identify(authenticator, call_with(token))
        assert authenticator.failing_methods == ["tokens"]
        write(file, entry)

        async def has_recovered() -> bool:
            return not method.is_failing

        await eventually(has_recovered, "the repaired file is noticed")


def entry_with(**changes: str) -> str:
    """Return a token file with one entry, in which some values are replaced. They are YAML."""
    values = {"id": "a", "sha256": "ab" * 32, "principal": "p"} | changes
    return f"tokens: [{{{', '.join(f'{name}: {value}' for name, value in values.items())}}}]"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("tokens: [", "is not valid YAML in line 2"),
        ("- a", "is not valid: the top level: "),
        ("tokens: SECRET: SECRET", "is not valid YAML in line 1"),
        ("a: " + "[" * 100_000, "is not valid"),
        ("a: " + "[" * 9 + "]" * 9, "is not valid"),
        ("a: &a [1]\ntokens: [*a, *a]", "is not valid"),
        ("tokens: []\n---\ntokens: []", "is not valid"),
        ("tokens: !!seq []", "is not valid"),
        ("tokens: []\n<<: {tokens: []}", "is not valid"),
        ("tokens: []\n1: 2", "is not valid"),
        ("? [a]\n: 1", "is not valid"),
        (entry_with(principal="!!str SECRET"), "is not valid"),
        (entry_with(id="''"), "tokens, entry 1, id: "),
        (entry_with(sha256="SECRET"), "tokens, entry 1, sha256: "),
        (entry_with(principal="''"), "tokens, entry 1, principal: Value error, it is empty"),
        (entry_with(principal="7"), "tokens, entry 1, principal: "),
        (entry_with(principal='"a\\nb"'), "a control character"),
        (entry_with(principal="é" * 513), "more than 1,024 bytes"),
        (entry_with(groups="g"), "tokens, entry 1, groups: "),
        (entry_with(expires="2026-01-01"), "tokens, entry 1, expires: "),
        (entry_with(expires="9999-99-99T00:00:00Z"), "is not valid"),
        (entry_with(note="SECRET"), "tokens, entry 1, note: Extra inputs"),
        (f"tokens: [{entry_with()[9:-1]}, {entry_with()[9:-1]}]", "contains the same id [a] twice"),
        (f"tokens: [{entry_with()[9:-1]}, {entry_with(id='b')[9:-1]}]", "contains the same sha256 twice"),
    ],
)
def test_invalid_file_is_explained_without_its_values(content: str, problem: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_token_file(Path("/etc/lodge/tokens.yaml"), content.encode())
    assert "[/etc/lodge/tokens.yaml]" in str(error.value)
    assert problem in str(error.value)
    assert "SECRET" not in str(error.value)


def test_empty_file_contains_no_tokens() -> None:
    assert parse_token_file(Path("f"), b"") == []


def test_file_round_trips() -> None:
    entries = [issue("zoë", groups=["a b", "group:x"], expires=NOW)[1], issue()[1]]
    assert parse_token_file(Path("f"), render_token_file(entries)) == entries


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a: b",
            "- x",
            "'",
            '"',
            "#",
            "a #b",
            "yes",
            "null",
            "~",
            "1e5",
            "0x1",
            "12",
            "1.5",
            "2026-01-01",
            "=",
            "<<",
            "-",
        ),
        *(" a ", "a,b]", "{x", "*a", "&a", "!x", "!!str x", "|", ">", "%", "@a", "`", "\\", "é", "e\u0301", "😀"),
        *("\u200b", "\u202e", "\ufeff", "\ufffe", "\u00a0", "a" * 1024, "a b " * 256, "group:x", "ops\u3000"),
    ],
)
def test_every_name_round_trips(name: str) -> None:
    entry = issue(name, groups=[name, "x"])[1]
    assert parse_token_file(Path("f"), render_token_file([entry])) == [entry]


def test_file_with_many_tokens_is_read_and_written_quickly() -> None:
    """Eight times the tokens take about eight times as long. Quadratic time would be 64 times as long."""

    def measure(count: int) -> float:
        entries = [TokenEntry(f"{n:08x}", n.to_bytes(32), f"user-{n}@x.com", ("g",), NOW, NOW) for n in range(count)]

        def write_and_read() -> None:
            assert parse_token_file(Path("f"), render_token_file(entries)) == entries

        return least_thread_seconds(write_and_read, 3)

    assert measure(2000) < 24 * measure(250)


def test_missing_file_names_the_command_that_creates_it(file: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot be read: No such file or directory.*lodge token create --file"):
        TokenFileMethod(file)


def test_file_that_everybody_may_change_is_refused(file: Path) -> None:
    write(file, issue()[1])
    file.chmod(0o646)
    with pytest.raises(SourceError, match=f"chmod o-w {file}"):
        TokenFileMethod(file)


async def test_prefixes_keep_names_of_methods_apart(file: Path) -> None:
    token, entry = issue(groups=["admins"])
    write(file, entry)
    authenticator = Authenticator([TokenFileMethod(file, Naming("local:", "local:"))])
    identity = await identify(authenticator, call_with(token))
    assert identity.principal == "local:ada"
    assert identity.groups == {"local:admins"}


async def test_tokens_appear_in_no_log_line_error_or_representation(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token, entry = issue()
    write(file, entry)
    method = TokenFileMethod(file)
    authenticator = Authenticator([method])
    unknown = issue()[0]
    with capture_logs() as logs:
        await identify(authenticator, call_with(token))
        await refusal(authenticator, call_with(unknown))
        await refusal(authenticator, Call([("authorization", f"Basic {token}")]))
        await refusal(
            authenticator, Call([("authorization", f"Bearer {token}"), ("authentication", f"Bearer {unknown}")])
        )
    seen = f"{logs} {caplog.text} {authenticator!r} {vars(authenticator)} {method!r} {vars(method)} {entry}"
    assert token not in seen
    assert unknown not in seen
