"""Checks that no text of a client becomes a regular expression.

A regular expression can need more time for a short text than anybody can wait, and nothing can interrupt it. Therefore
functions of ``re`` that take a pattern may be called only with a literal, or at the top of a module, where no client's
text is known. The module ``fnmatch`` makes regular expressions of patterns, so it is refused.

``python scripts/constant_patterns.py [DIRECTORY ...]`` prints each violation. Its exit status is 1 if there is one.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGES = ("engine", "gateway", "lodge", "reaper", "workspace")
_TAKE_PATTERN = frozenset(
    {"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn", "template"}
)


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the reason of each violation in a module."""
    tree = ast.parse(source)
    inside = {node for function in _functions(tree) for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Call) and _is_of_re(node.func) and node in inside and not _is_literal(node.args[:1]):
            yield node.lineno, "the pattern is not a literal"


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    if "fnmatch" in modules:
        yield node.lineno, "fnmatch makes regular expressions of patterns"
    if "re" in modules and (isinstance(node, ast.ImportFrom) or any(alias.asname for alias in node.names)):
        yield node.lineno, "import re, so that its functions are recognised"


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in _TAKE_PATTERN
    )


def _is_literal(arguments: Sequence[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant)


def main() -> int:
    """Print all violations."""
    paths = [path for name in sys.argv[1:] or PACKAGES for path in sorted(Path(name).rglob("*.py"))]
    found = [(path, line, reason) for path in paths for line, reason in violations(path.read_text())]
    for path, line, reason in found:
        print(f"{path}:{line}: {reason}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
