"""What tests share: a third party's module on the path, and where it lies."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory):
    """A folder outside the tree with a third party's module `pings`, on the path."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copy(Path(__file__).parent / "outside" / "pings.py", folder / "pings.py")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("pings", None)
