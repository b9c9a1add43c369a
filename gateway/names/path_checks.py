"""Refuses requests with a path that may lead into the default temporary workspace, or to a key that signs scans.

The check examines the request of the client, before Lodge adds the paths of the client's own tables to it. Most
requests contain no path. For these requests, the cost is a search of the SQL text or a visit of the relations of the
plan.

See :mod:`gateway.authorization.path_fence` for the decision, and ``docs/explanation/path-fence.md`` for what the fence
does not stop.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2

from engine.scan_signature import KEY_FILE
from gateway.auditing.audit import Audit
from gateway.authorization.added_files import can_name_key, unpacks_elsewhere
from gateway.authorization.path_fence import MAX_PATH_CHARACTERS, Expansions, PathFence
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.errors import GatewayError
from gateway.names.plan_paths import find_plan_paths
from gateway.names.word_search import WordSearch
from gateway.plans.plan_decoding import decode_message
from gateway.sql.path_texts import PathText, TextUse, find_path_texts, use_of_setting
from gateway.sql.sql_texts import SqlTexts
from gateway.stored_tables.table_descriptions import build_permanent_scan
from workspace.identifiers import is_uuid
from workspace.workspaces import Workspaces

_SUBQUERIES = WordSearch(["from", "table"])
_FORWARDED = "forward_to_fs"
_MARKS_OF_NAMES = (_FORWARDED.encode(), KEY_FILE.encode(), b"#", b"%")
"""Without these, no name of an artifact is refused."""
_SHOWN_CHARACTERS = 200
_BYTES_PER_CHARACTER = 2  # the search for paths is faster than the parser


class PathChecks:
    """Checks the paths in requests.

    Args:
        workspaces: The configured workspaces.
        audit: The audit events of the replica.
        pools: The threads for large requests.
    """

    def __init__(self, workspaces: CurrentWorkspaces, audit: Audit, pools: RequestPools) -> None:
        self._workspaces = workspaces
        self._audit = audit
        self._pools = pools
        self._cached: tuple[Workspaces, PathFence] | None = None

    async def check(
        self, data: bytes | None, messages: Sequence[Message], size_bytes: int, texts: SqlTexts | None = None
    ) -> None:
        """Check the paths in a request.

        Args:
            data: The encoded request, in which the words of subqueries are searched. None if a part is compressed.
            messages: The decoded parts of the request.
            size_bytes: The decompressed size of these parts. It decides whether the check runs in a thread.
            texts: The SQL texts of the request. None if nobody else reads them.

        Raises:
            GatewayError: If a path may lead into the default temporary workspace.
        """
        found = await self._pools.parse(
            size_bytes // _BYTES_PER_CHARACTER, self._find, data, messages, texts or SqlTexts()
        )
        if found:
            await self._check_texts(found)

    async def check_settings(self, request: bytes) -> None:
        """Check the values in a ``Config`` request.

        Raises:
            GatewayError: If a value is a path into the default temporary workspace, or the request cannot be decoded or
                has too many fields.
        """
        if b"/" not in request:
            return
        async with self._pools.reserve(len(request)):
            texts = await self._pools.parse(len(request), self._find_in_settings, request)
        if texts:
            await self._check_texts(texts)

    async def check_artifacts(self, data: bytes) -> None:
        """Check the names of the artifacts in a message of ``AddArtifacts``.

        The backend copies an artifact to the path in its name if the name begins with ``forward_to_fs``.

        Raises:
            GatewayError: If an artifact would be copied into the default temporary workspace or unpacked out of the
                session, or has the name of a key that signs scans, or the message cannot be decoded or has too many
                fields.
        """
        if not any(mark in data for mark in _MARKS_OF_NAMES):
            return
        async with self._pools.reserve(len(data)):
            name = await self._pools.parse(len(data), _find_refused_artifact, self._fence(), data)
        if name is not None:
            is_name_refused = can_name_key(name) or unpacks_elsewhere(name)
            raise self._refused_name(name) if is_name_refused else self._refused(name)

    def _find_in_settings(self, request: bytes) -> Sequence[PathText]:
        operation = decode_message(base_pb2.ConfigRequest, request).operation
        pairs = [pair for pair in operation.set.pairs if "/" in pair.value]
        texts = [PathText(pair.value, use_of_setting(pair.key)) for pair in pairs]
        texts += [each for pair in pairs if "`" in pair.value for each in find_path_texts(pair.value)]
        return list(self._own_texts(texts))

    def _find(self, data: bytes | None, messages: Sequence[Message], texts: SqlTexts) -> Sequence[PathText]:
        with_expressions = data is None or _SUBQUERIES.matches_now(data)
        found: list[PathText] = []
        for message in messages:
            found += self._own_texts(find_plan_paths(message, texts, with_expressions=with_expressions))
        return found

    def _own_texts(self, texts: Iterable[PathText]) -> Iterable[PathText]:
        """Yield the texts that are not names in workspaces. Lodge resolves names in workspaces itself."""
        workspaces = self._workspaces.now
        return (each for each in texts if each.text and not (each.qualifier and workspaces.match(each.qualifier)))

    async def _check_texts(self, texts: Sequence[PathText]) -> None:
        size_characters = sum(len(each.text) for each in texts)
        added = (each.text for each in texts if each.use is TextUse.ADDED)
        if name := await self._pools.parse(size_characters, _find_refused_name, [each.text for each in texts], added):
            raise self._refused_name(name)
        fence, reads = self._fence(), self._workspaces.reads
        refused = await self._pools.parse(size_characters, _find_refused, fence, texts)
        for each in dict.fromkeys(refused):
            is_scan = each.use is TextUse.TABLE
            if not (is_scan and await reads.run_or_abandon(self._is_permanent_table, each.text)):
                raise self._refused(each.text)
        scans = set(refused)
        checked = (each for each in texts if each.use is not TextUse.VALUE and each not in scans)
        paths = list(dict.fromkeys(each.text for each in checked if "/" in each.text))
        if paths:
            real = await reads.run_or_abandon(_find_real, fence, paths)
            if real is not None:
                raise self._refused(real)

    def _fence(self) -> PathFence:
        now = self._workspaces.now
        if self._cached is None or self._cached[0] is not now:
            self._cached = now, PathFence(now.temporary_roots)
        return self._cached[1]

    def _is_permanent_table(self, path: str) -> bool:
        """Return whether a path is exactly the directory of a permanent table in the temporary workspace.

        Spark returns the relation of a SQL query to the client, and the client sends it again. The relation then
        contains the path with which Lodge replaced the name of the table.
        """
        directory = Path(path)
        roots = self._workspaces.now.temporary_roots
        if directory.parent not in roots or str(directory) != path or is_uuid(directory.name):
            return False
        return not directory.name.startswith(".") and build_permanent_scan(directory) is not None

    def _refused_name(self, name: str) -> GatewayError:
        shown = name[:_SHOWN_CHARACTERS]
        if can_name_key(name):
            reason = "Only Lodge adds keys that sign scans."
            problem = f"The path [{shown}] contains [{KEY_FILE}]. Only Lodge adds files with this name to a session."
            way_out = "Use another name."
        else:
            reason = "An archive is unpacked in its session only."
            problem = f"Spark would unpack the archive [{shown}] outside of a directory of its own in the session."
            way_out = "Write the name of a directory after [#]."
        self._audit.access_refused(target="file", name=shown, reason=reason)
        return GatewayError("LODGE_PATH_REFUSED", "42501", f"{problem} {way_out}")

    def _refused(self, path: str) -> GatewayError:
        shown = path[:_SHOWN_CHARACTERS]
        self._audit.access_refused(target="file", name=shown, reason="The path may lead into the temporary workspace.")
        name = self._workspaces.now.temporary.name
        if len(path) > MAX_PATH_CHARACTERS:
            problem = f"The path [{shown}...] has more than {MAX_PATH_CHARACTERS:,} characters. Use a shorter path."
            return GatewayError("LODGE_PATH_REFUSED", "42501", problem)
        return GatewayError(
            "LODGE_PATH_REFUSED",
            "42501",
            f"The path [{shown}] may lead into the default temporary workspace [{name}]. Lodge does not allow direct "
            f"paths there. Use the name of a table, for example [{name}.t], or a path that cannot match the directory "
            "of the workspace.",
        )


def _find_refused_artifact(fence: PathFence, data: bytes) -> str | None:
    """Return the first name of an artifact that Spark must not add, or else the first path that the fence refuses."""
    message = decode_message(base_pb2.AddArtifactsRequest, data)
    names = (*(artifact.name for artifact in message.batch.artifacts), message.begin_chunk.name)
    if long := next((name for name in names if len(name) > MAX_PATH_CHARACTERS), None):
        return long
    paths = (name.removeprefix(_FORWARDED) for name in names if name.startswith(_FORWARDED))
    return _find_refused_name(names, names) or next((path for path in paths if fence.refuses(path)), None)


def _find_refused_name(paths: Iterable[str], added: Iterable[str]) -> str | None:
    """Return the first path that may name a key, or else the first added archive that is unpacked elsewhere."""
    key = next((path for path in paths if can_name_key(path)), None)
    return key or next((name for name in added if unpacks_elsewhere(name)), None)


def _find_refused(fence: PathFence, texts: Sequence[PathText]) -> Sequence[PathText]:
    expansions = Expansions(sum(len(each.text) for each in texts))
    return [
        each for each in texts if fence.refuses(each.text, is_value=each.use is TextUse.VALUE, expansions=expansions)
    ]


def _find_real(fence: PathFence, paths: Sequence[str]) -> str | None:
    return next((path for path in paths if fence.refuses_real(path)), None)
