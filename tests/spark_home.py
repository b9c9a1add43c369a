"""A copy of the installed Spark that starts twice as fast, for the servers of the tests.

Java reads the classes that a Spark server needs from an archive, instead of loading and verifying each of them. An
archive is valid only for jars with the same paths and times. The copy therefore lies in the user's cache directory, and
survives the virtual environment. The first run creates both, which takes half a minute.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyspark

from lodge.java import require_java
from tests.cache import hold_lock, user_cache

_PACKAGE = Path(pyspark.__file__).parent
_COPIED = ("bin", "jars")
"""What a server needs. Without ``pyspark.zip``, Spark's Python processes import the installed PySpark."""


@cache
def shared_home() -> Path:
    """Return the directory of the copy, which is created if it does not exist."""
    home = _directory() / "home"
    with hold_lock(_directory() / ".lock"):
        if not home.exists():
            copying = home.with_name("copying")
            shutil.rmtree(copying, ignore_errors=True)
            for name in _COPIED:
                shutil.copytree(_PACKAGE / name, copying / name)
            copying.rename(home)
    return home


def class_archive(create: Callable[[str], None]) -> str:
    """Return Java's option for the archive, which is created if it does not exist.

    Args:
        create: Starts a server with an option of Java, uses it and stops it in order.
    """
    path = _directory() / "classes.jsa"
    with hold_lock(_directory() / ".lock"):
        if not path.exists():
            new = path.with_suffix(".new")
            new.unlink(missing_ok=True)
            create(f"-XX:ArchiveClassesAtExit={new}")
            new.rename(path)
    return f"-XX:SharedArchiveFile={path}"


@cache
def _directory() -> Path:
    version = subprocess.run([require_java(), "-version"], capture_output=True, text=True, check=True).stderr
    jars = [f"{jar.name} {jar.stat().st_size}" for jar in sorted((_PACKAGE / "jars").iterdir())]
    key = hashlib.sha256("\n".join([version, pyspark.__version__, *jars]).encode()).hexdigest()[:12]
    directory = user_cache() / "spark" / f"{pyspark.__version__}-{key}"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
