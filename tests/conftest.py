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


@pytest.fixture(scope="session")
def spark():
    """The one Spark of a test run, whose driver accepts next to nothing.

    Tests that use it, or commands that find it, are marked `xdist_group("spark")`: one worker runs them all.
    """
    pytest.importorskip("pyspark")
    from analysis.spark.session import session

    with session(config={"spark.driver.maxResultSize": "1m", "spark.driver.memory": "1g"}) as running:
        yield running
