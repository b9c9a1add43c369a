"""The runner of the commands in documentation pages."""

from pathlib import Path

import pytest

from tests.docs.commands import CommandError, PageRun

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


def run(text: str, directory: Path) -> int:
    place = directory / "work"
    place.mkdir()
    page = directory / "page.md"
    page.write_text(text)
    with PageRun(place, {}, {"/etc/lodge": str(directory / "etc")}) as page_run:
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
