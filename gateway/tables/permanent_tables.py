"""Permanent tables in workspaces: ``CREATE TABLE dfs.t AS`` writes one, ``DROP TABLE dfs.t`` removes it.

Why it exists: a permanent table is a directory of a workspace that everyone may read who may enter it. It is written
into the session location first and put in its place whole, so that no reader ever sees a part of one.

Guarantees:

1. Directories have mode 0775 and files 0644 (seed 001, 5.2).
2. A table appears whole or not at all, and takes no name that is in use.
3. Only what ``CREATE TABLE`` made is ever removed: a directory with the description that Lodge put there.
4. A table's name is one name in the workspace's directory: it leads nowhere else, through no link. A link that lies
   in it when a statement begins is refused.

Not guaranteed: that a link is found which is put there while a statement runs; nor these modes on files of another
owner than the gateway's, for only an owner may change modes.

Source: seed 001, 5.1.8, 5.2 and 5.4.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from gateway.errors import GatewayError
from gateway.responses import Response, build_row_response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.storage import Storage
from gateway.stored_tables.table_descriptions import DESCRIPTION, GLOB, Description, permanent_names
from gateway.stored_tables.table_plans import ROWS_WRITTEN
from gateway.tables.answers import created, not_created, table_dropped
from gateway.tables.background import run_to_completion
from gateway.tables.errors import AlreadyExistsError, statement_lost
from gateway.tables.execution import StatementExecutor, new_directory
from gateway.tables.new_tables import NewTable
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from workspace.files.table_files import copy_table, make_public, write_public_file
from workspace.identifiers import is_uuid
from workspace.record_changes import add_answer
from workspace.records import Answer, PendingWrite, ReplicaId, SessionRecord
from workspace.workspaces import Workspace

log = structlog.get_logger(__name__)


class PermanentTables:
    """Creates and drops the tables of workspaces.

    Args:
        replica: This replica.
        storage: Records and locations.
        sessions: The sessions that this replica serves.
        executor: Where tables are written first.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, sessions: Sessions, executor: StatementExecutor) -> None:
        self._replica = replica
        self._storage = storage
        self._records = TableRecords(storage)
        self._sessions = sessions
        self._executor = executor

    async def exists(self, workspace: Workspace, name: str) -> bool:
        """Whether something in the workspace has that name."""
        if not workspace.is_file_based or not _is_plain(name):
            return False
        return await self._storage.run(os.path.lexists, workspace.root / name)

    async def names(self, workspace: Workspace) -> Sequence[str]:
        """The tables that are there."""
        return await self._storage.run_slow(permanent_names, workspace)

    async def create(self, execution: Execution, workspace: Workspace, new: NewTable) -> Response:
        """Raises: GatewayError, after everything that was begun is undone."""
        session = execution.session
        _check_name(workspace, new.name)
        if await self.exists(workspace, new.name):
            error = AlreadyExistsError(new.name, workspace.name)
            if new.if_not_exists:
                return not_created(error.text)
            raise error
        schema = await new.schema(execution)
        write = PendingWrite(new_directory(), execution.operation.id, self._replica)
        description = Description(schema, new.storage.name, dict(new.options))
        placing = _Placing(workspace, new.name, description)
        rows = 0
        try:
            self._sessions.require_lease(session)
            await self._records.change(session, lambda record: replace(record, writes=(*record.writes, write)))
            path = await self._executor.create_path(session, write.directory)
            operation = execution.operation
            result = await execution.backend.execute(
                new.plan(path), operation_id=write.directory, on_progress=operation.progress
            )
            operation.server_side_session_id = result.server_side_session_id
            rows = result.observed.get(ROWS_WRITTEN, 0)
            self._sessions.require_lease(session)
            await self._records.change(session, lambda record: _still_writing(record, write))
            await self._storage.run_slow(placing.place, Path(path))
        except BaseException as error:
            if not placing.is_done:
                await run_to_completion(self._undo(session, write))
                if new.if_not_exists and isinstance(error, AlreadyExistsError):
                    return not_created(error.text)
                raise
        values = created(rows)
        answer = Answer(execution.operation.id, tuple(values.items()))
        try:
            await self._records.change(session, lambda record: add_answer(_without(record, write), answer))
        except GatewayError as error:  # the table is there; the reaper takes the write out
            log.warning("table_answer_not_kept", table=new.name, reason=str(error))
        log.info("table_created", table=new.name, workspace=workspace.name, rows=rows)
        return build_row_response(values)

    async def _undo(self, session: Session, write: PendingWrite) -> None:
        try:
            await self._records.change(session, lambda record: _without(record, write))
        except GatewayError as error:
            log.warning("statement_undo_left", reason=str(error))
            return
        await self._executor.deletion.delete(session, [write.directory])

    async def drop(self, workspace: Workspace, name: str) -> Response:
        """Raises: GatewayError if it is no table that ``CREATE TABLE`` made."""
        await self._storage.run_slow(_remove, workspace, name)
        log.info("table_dropped", table=name, workspace=workspace.name)
        return table_dropped(name)


class _Placing:
    """Puts a written directory in its place; whether that is done is known also to who was interrupted meanwhile."""

    def __init__(self, workspace: Workspace, name: str, description: Description) -> None:
        self._workspace = workspace
        self._name = name
        self._description = description
        self.is_done = False

    def place(self, source: Path) -> None:
        """Raises: GatewayError if the name is taken; OSError."""
        write_public_file(DESCRIPTION, self._description.encoded().encode(), source)
        make_public(source)
        try:
            _move(source, self._workspace.root / self._name)
        except OSError as error:
            if error.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise AlreadyExistsError(self._name, self._workspace.name) from error
            raise
        self.is_done = True


def _move(source: Path, target: Path) -> None:
    """Renames; to another file system, copies to a hidden name beside the target first."""
    target.mkdir()  # so that of two statements one gets the name; a rename replaces an empty directory
    try:
        source.replace(target)
    except OSError as error:
        target.rmdir()
        if error.errno != errno.EXDEV:
            raise
        copy = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        try:
            copy_table(source, copy)
            target.mkdir()
            copy.replace(target)
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _remove(workspace: Workspace, name: str) -> None:
    path = workspace.root / name
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()  # what a creation left that was killed in the last step
        return
    if path.is_symlink() or Description.of(path) is None:
        raise GatewayError(
            "LODGE_NOT_A_TABLE",
            "42809",
            f"[{name}] in workspace [{workspace.name}] was not made by CREATE TABLE, so DROP TABLE does not remove it. "
            "Remove the files yourself.",
        )
    aside = workspace.root / f".{name}.{uuid.uuid4().hex}"
    path.replace(aside)
    shutil.rmtree(aside)


def _check_name(workspace: Workspace, name: str) -> None:
    if not _is_plain(name):
        raise GatewayError(
            "LODGE_PATH_REFUSED",
            "42602",
            f"[{name}] cannot name a table in workspace [{workspace.name}]: give a name without any of "
            "/ * ? [ ] { } \\, that does not begin with [.] or [_].",
        )


def _is_plain(name: str) -> bool:
    reserved = name.startswith((".", "_")) or is_uuid(name) or GLOB.search(name) is not None
    return bool(name) and "/" not in name and "\0" not in name and not reserved and len(name.encode()) < 200


def _still_writing(record: SessionRecord, write: PendingWrite) -> SessionRecord:
    """Raises: GatewayError if this replica was taken for dead, and the write undone."""
    if write not in record.writes:
        raise statement_lost()
    return record


def _without(record: SessionRecord, write: PendingWrite) -> SessionRecord:
    return replace(record, writes=tuple(each for each in record.writes if each != write))
