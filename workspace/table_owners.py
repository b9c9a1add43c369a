"""The owner of a permanent table."""

import json
from dataclasses import dataclass

from workspace.identifiers import Principal


@dataclass(frozen=True, slots=True)
class TableOwner:
    """The owner of a permanent table.

    Attributes:
        principal: The principal that created the table.
        groups: The groups of the principal when it created the table. Their members may drop the table too.
        workspace: The workspace of the table.
        table: The name of the table.
    """

    principal: Principal
    groups: tuple[str, ...]
    workspace: str
    table: str

    def encode(self) -> bytes:
        """Return the owner as JSON."""
        document = {
            "principal": self.principal,
            "groups": list(self.groups),
            "workspace": self.workspace,
            "table": self.table,
        }
        return json.dumps(document, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> "TableOwner":
        """Return the owner that :meth:`encode` wrote.

        Raises:
            ValueError: If the data has another form.
        """
        document = json.loads(data)
        try:
            groups = tuple(map(str, document["groups"]))
            return cls(
                Principal(str(document["principal"])), groups, str(document["workspace"]), str(document["table"])
            )
        except (KeyError, TypeError) as error:
            raise ValueError("The data does not describe an owner of a table.") from error
