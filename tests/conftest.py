"""What tests share: a third party's module on the path, and where it lies."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory):
    """A folder outside the tree with a third party's modules, on the path."""
    folder = tmp_path_factory.mktemp("outside")
    modules = sorted((Path(__file__).parent / "outside").glob("*.py"))
    for module in modules:
        shutil.copy(module, folder / module.name)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for module in modules:
        sys.modules.pop(module.stem, None)
