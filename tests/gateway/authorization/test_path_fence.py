"""The fence refuses every spelling of a path into the temporary workspace, and lets other paths pass."""

from pathlib import Path

import pytest

from gateway.authorization.path_fence import MAX_PATH_CHARACTERS, UNKNOWN, Expansions, PathFence
from tests.gateway.thread_time import least_thread_seconds

SESSION = "b45c25f6-ae64-4be0-bdd2-a6e50d1d191d"
FENCE = PathFence([Path("/srv/lodge/tmp"), Path("/former/place")])
S3 = PathFence(["s3://bucket/lodge/tmp"])


@pytest.mark.parametrize(
    "path",
    [
        "/srv/lodge/tmp",
        "/srv/lodge/tmp/",
        r"/srv/lodge/zzz/\.\./tmp/*",
        r"/srv/lodge/zzz/\../tmp/*/*",
        r"/srv/lodge/zzz/.\./t\mp",
        r"/srv/\./lodge/tmp",
        f"/srv/lodge/tmp/{SESSION}/{SESSION}/part-0.parquet",
        "/srv/lodge/tmp/.lodge/sessions",
        "/srv/lodge/tmp/new",
        "/former/place/.lodge",
        "/srv/lodge",
        "/srv",
        "/",
        "  /srv/lodge/tmp/x",
        "file:/srv/lodge/tmp/x",
        "file:///srv/lodge/tmp/x",
        "FILE://localhost/srv/lodge/tmp/x",
        "file:////srv//lodge///tmp/x",
        "//srv/lodge/tmp/x",
        "viewfs:/srv/lodge/tmp/x",
        "jar:file:/srv/lodge/tmp/x.jar!/y",
        "jdbc:sqlite:/srv/lodge/tmp/x.db",
        "/a/../srv/./lodge/b/../tmp/x",
        "/../../srv/lodge/tmp",
        "/srv/%6Codge/tmp/x",
        "file:/srv%2Flodge%2ftmp/x",
        "/srv/lo*/tmp/x",
        "/srv/lodge*/**",
        "/s?v/lodge/tmp",
        "/srv/[a-z]odge/tmp",
        "/srv/[^a]odge/tmp",
        "/srv/{x,lodge}/tmp/y",
        "/{srv/lodge,other}/tmp/y",
        "/{x,{y,srv}}/lodge/tmp",
        "{/srv,/x}/lodge/tmp",
        "{file:/srv,x}/lodge/tmp",
        r"/srv/lo\dge/tmp",
        "/*/*/*/*",
        "/*",
        "/srv/*",
        "lodge/tmp/.lodge",
        "../../srv/lodge/tmp",
        "tmp",
        f"tmp/{SESSION}",
        f"{SESSION}/x",
        ".lodge/sessions",
        f"*/{SESSION}",
        "..",
        "../..",
        "/proc/self/root/x",
        "/proc/1/cwd/tmp",
        "/pro[c]/*/fd/3",
        f"{UNKNOWN}/x",
        f"/srv/{UNKNOWN}",
        f"/srv/lo{UNKNOWN}",
        "/srv/" + "{a,b}" * 20,
    ],
)
def test_paths_into_the_workspace_are_refused(path):
    assert FENCE.refuses(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/srv/lodge/tmp2",
        "/srv/lodge/tmp-old/x",
        "/srv/lodge/data/tmp",
        "/srv/*.csv",
        "/srv/lodge/*.parquet",
        "/data/*/x",
        "/former/other/*",
        "/srv/{a,b}/tmp",
        "s3a://srv/lodge/tmp",
        "hdfs://host/srv/lodge/tmp",
        "https://host/srv/lodge/tmp",
        "jdbc:postgresql://host/",
        "jdbc:postgresql://host/db?user=x",
        "mongodb://host/",
        "data/x.csv",
        "data/*.csv",
        "*.csv",
        "tmp/x.csv",
        "dir/tmp",
        "./x",
        "/proc/cpuinfo",
        f"/data/{UNKNOWN}",
        f"/srv/x{UNKNOWN}",
    ],
)
def test_other_paths_pass(path):
    assert not FENCE.refuses(path)


def test_values_are_refused_only_if_they_name_a_root():
    assert FENCE.refuses("/srv/lodge/tmp/x", is_value=True)
    assert FENCE.refuses("file:/srv/lodge/tmp", is_value=True)
    for harmless in ("/", "/srv", "|", ",", "yyyy/MM/dd", "*"):
        assert not FENCE.refuses(harmless, is_value=True), harmless


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3a://bucket/lodge/tmp/x", True),
        ("S3N://bucket/lodge/*", True),
        ("s3://key:secret@bucket/lodge/tmp", True),
        ("s3a://bucket", True),
        ("s3a://bucket/{lodge,x}/tmp/y", True),
        ("s3a://bucket/a/../lodge/tmp/x", True),
        (f"/lodge/tmp/{SESSION}", True),
        (f"lodge/tmp/{SESSION}", True),
        ("s3a://bucket/lodge/other", False),
        ("s3a://other/lodge/tmp", False),
        ("/lodge/tmp/x", False),
        ("gs://bucket/lodge/tmp", False),
    ],
)
def test_object_stores(path, expected):
    assert S3.refuses(path) is expected


def test_links_are_followed(tmp_path):
    root, outside = tmp_path / "deep" / "root", tmp_path / "outside"
    root.mkdir(parents=True)
    outside.mkdir()
    (outside / "link").symlink_to(root)
    (outside / "up").symlink_to(tmp_path / "deep")
    (outside / "file").touch()
    fence = PathFence([root])
    for path in ("link", "link/x", "link/*/y", "up", "up/*", "up/{root,x}/y", "up/root/../root"):
        assert fence.refuses_real(f"{outside}/{path}"), path
        assert fence.refuses_real(f"file:{outside}/{path}"), path
    for path in ("file", "*", "*/x", "missing/x", "\0", "a\0b/../x"):
        assert not fence.refuses_real(f"{outside}/{path}"), path
    (tmp_path / "deep" / "sub").mkdir()
    (outside / "sub").symlink_to(tmp_path / "deep" / "sub")
    assert fence.refuses_real(f"{outside}/sub/../root/x")


@pytest.mark.parametrize(
    "path", ["{" * 50_000, "{a," * 20_000, "[" * 50_000, "/a" * 50_000, "\\" * 50_001, "*" * 50_000]
)
def test_long_patterns_take_linear_time(path):
    """Eight times the pattern takes about eight times as long. Quadratic time would be 64 times as long."""

    def check(pattern):
        FENCE.refuses("/srv/" + pattern)
        FENCE.refuses_real("/srv/" + pattern)

    small_seconds = max(least_thread_seconds(lambda: check(path[: len(path) // 8]), 5), 0.001)
    assert least_thread_seconds(lambda: check(path), 5) < 24 * small_seconds


PIECES = ("[", "]", "\\a", "\\", "*", "?", "a", "{", "}", ",", "^", "/", "${", "%2F", "[x\\a", "{a,")


@pytest.mark.parametrize("first", PIECES)
def test_repeated_pieces_of_patterns_take_no_exponential_time(first: str) -> None:
    """Twice the pattern takes about twice as long. Exponential time would be a thousand times as long."""

    def seconds(piece: str, count: int) -> float:
        path = "/srv/" + first + piece * count
        return least_thread_seconds(lambda: (FENCE.refuses(path), FENCE.refuses_real(path)), 2)

    for piece in PIECES:
        assert seconds(piece, 24) < 100 * max(seconds(piece, 12), 0.0005), piece


def test_long_path_is_refused_and_a_long_value_is_not() -> None:
    long = "/data/" + "a" * MAX_PATH_CHARACTERS
    assert FENCE.refuses(long)
    assert FENCE.refuses_real(long)
    assert not FENCE.refuses(long, is_value=True)
    assert FENCE.refuses("/srv/lodge/tmp/" + "./" * MAX_PATH_CHARACTERS, is_value=True)


def test_long_values_are_decoded_like_short_ones() -> None:
    fence = PathFence([Path("/srv/lödge/tmp")])
    encoded = "".join(f"%{byte:02x}" for byte in "/srv/lödge/tmp/x".encode())
    for before in range(65_536 - len(encoded) - 2, 65_537):
        assert fence.refuses(f"{'%2f' * (before // 3)}{'/' * (before % 3)}{encoded}", is_value=True), before


def test_alternatives_of_all_texts_of_a_request_have_one_limit() -> None:
    expansions = Expansions()
    text = "/data/{a,b}{a,b}{a,b}{a,b}"
    results = [FENCE.refuses(text, expansions=expansions) for _ in range(100)]
    assert results[:10] == [False] * 10
    assert results[-10:] == [True] * 10
    assert not FENCE.refuses(text)


@pytest.mark.parametrize("text", ["{a}" * 900, "{a,b}" * 8 + "/a" * 900, "{" * 900, "{" * 500 + "}" * 500, "*a" * 900])
def test_short_texts_are_compared_at_once(text: str) -> None:
    """Such texts are compared on the event loop."""
    assert least_thread_seconds(lambda: FENCE.refuses("/data/" + text), 5) < least_thread_seconds(_scan_text, 5)


def _scan_text() -> None:
    """Do what takes about ten milliseconds, and a few times as long on a slow machine."""
    sum(position % 7 for position in range(500_000))
