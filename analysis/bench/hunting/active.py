"""Has a module of the tree made of a mutant's source, in this process and from now on; no file is changed.

Kernels of the file that the mutant is not in stay those that are compiled: a mutant has the lines of its file. One that
is in a kernel wants a `NUMBA_CACHE_DIR` of its own, which who starts the process gives it (`attempts.py`): kernels of
other files may have taken it in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from analysis.bench.hunting.rules import Mutant

ROOT = Path(__file__).resolve().parents[3]


def module_of(file: str) -> str:
    """The module that a file of the tree is."""
    return ".".join(Path(file).with_suffix("").parts)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compiled from the source with the mistake in it; no bytecode is read or written."""
        return compile(self._mutant.of(self.get_data(self.path)), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != module_of(self._mutant.file):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def activate(mutant: Mutant) -> None:
    """From now on the module of the mutant's file is the mutant. It must not have been imported yet."""
    name = module_of(mutant.file)
    if name in sys.modules:
        raise RuntimeError(f"{name} is imported already, without the mutant")
    sys.meta_path.insert(0, _Finder(mutant))
