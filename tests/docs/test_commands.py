"""The runner of the commands in documentation pages."""

from pathlib import Path

import pytest

from tests.cluster.processes import wait_until
from tests.docs.commands import COMMAND_SECONDS, CommandError, PageRun

PAGE = """
# A page

```bash
export NAME=ada
```

```yaml
# /etc/lodge/names.yaml
name: ada
```

1. A list item:

   ```bash
   echo "$NAME, $(cat /etc/lodge/names.yaml)" | tail -1
   ```

   ```text
   name: …da
   ```

```python
import os

print("from Python:", os.environ["NAME"])
```

```text
from Python: ada
```

```sql
is ignored
```
"""


def run(text: str, directory: Path, *, seconds: float = COMMAND_SECONDS) -> int:
    place = directory / "work"
    place.mkdir()
    page = directory / "page.md"
    page.write_text(text)
    with PageRun(place, {}, {"/etc/lodge": str(directory / "etc")}, seconds=seconds) as page_run:
        return page_run.run(page)


def test_page_runs_in_order_and_keeps_variables(tmp_path: Path) -> None:
    assert run(PAGE, tmp_path) == 3


def test_wrong_output_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"page\.md:29 expects:\nfrom Java"):
        run(PAGE.replace("```text\nfrom Python", "```text\nfrom Java"), tmp_path)


def test_failed_command_is_reported_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"(?s)page\.md:4 failed with 3.*the reason"):
        run(PAGE.replace("export NAME=ada", "echo the reason; exit 3"), tmp_path)


def test_gateway_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"(?s)did not start.*unknown"):
        run("```bash\nlodge serve --unknown\n```\n", tmp_path)


def test_command_in_the_background_ends_with_the_page(tmp_path: Path) -> None:
    page = "```bash\nsleep 1000 > log 2>&1 &\necho $! > process\n```\n\n```bash\nkill -0 $(cat process)\n```\n"
    assert run(page, tmp_path) == 2
    process = int((tmp_path / "work" / "process").read_text())
    wait_until(lambda: not _exists(process), f"process {process} has ended", 60.0)


def test_command_that_does_not_end_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"(?s)page\.md:1 did not end in 5 s.*started"):
        run("```bash\necho started; sleep 1000\n```\n", tmp_path, seconds=5)


def _exists(process: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
