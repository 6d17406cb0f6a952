"""Gives a package another name, submodules included.

After install("flash_maxsim", "maxsim_torch.compat.flash_maxsim") an import of flash_maxsim.naive gives the module
maxsim_torch.compat.flash_maxsim.naive itself. All submodules are imported at once: otherwise a later import of one
would set it as an attribute of the package, over a function of the same name.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys


class _Loader(importlib.abc.Loader):
    """Loads the module of a target's name, and leaves its __spec__ as it is there."""

    def __init__(self, target):
        self.target = target

    def create_module(self, spec):
        # An alias that was removed from sys.modules is to be imported afresh, so the target must be too.
        sys.modules.pop(self.target, None)
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, alias, target):
        self.alias = alias
        self.target = target

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.alias and not fullname.startswith(self.alias + "."):
            return None
        real = self.target + fullname[len(self.alias) :]
        if importlib.util.find_spec(real) is None:
            raise ModuleNotFoundError(f"{self.target} has no module {real}", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _Loader(real))


def install(alias, target):
    package = importlib.import_module(target)
    for module in pkgutil.walk_packages(package.__path__, target + "."):
        importlib.import_module(module.name)
    for name, module in list(sys.modules.items()):
        if name == target or name.startswith(target + "."):
            sys.modules[alias + name[len(target) :]] = module
    sys.meta_path.insert(0, _Finder(alias, target))
