"""What a gateway sends to backends: the source of the engine, which needs few packages."""

import json
import subprocess
import sys
import zipfile
from io import BytesIO

import pytest

from engine.fingerprint import OtherEngineError, fingerprint, require_engine, source_files
from gateway.scans.engine_artifact import engine_artifact

PACKAGES_OF_BACKENDS = {"pyarrow", "numpy", "pyspark", "py4j"}

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import engine.spark, engine.readers.registry
from engine.fingerprint import fingerprint
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
packages = {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
print(json.dumps([engine.__file__, fingerprint(), sorted(packages)]))
"""


def test_archive_contains_an_equal_engine_that_needs_few_packages(tmp_path):
    archive = tmp_path / "engine.zip"
    archive.write_bytes(engine_artifact().archive)
    command = [sys.executable, "-I", "-c", PROGRAM, str(archive)]
    result = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    file, found, packages = json.loads(result.stdout)
    assert file.startswith(str(archive))
    assert found == fingerprint()
    assert {name for name in packages if not name.startswith("_")} <= PACKAGES_OF_BACKENDS


def test_archive_contains_source_and_byte_code_of_each_module():
    with zipfile.ZipFile(BytesIO(engine_artifact().archive)) as archive:
        assert {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")} == source_files()
        assert {f"{name}c" for name in source_files()} == {each for each in archive.namelist() if each.endswith(".pyc")}
    assert "engine/spark.py" in source_files()


def test_another_engine_is_refused():
    require_engine(fingerprint())
    with pytest.raises(OtherEngineError, match="Install the same version"):
        require_engine("other")
