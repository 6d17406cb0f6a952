"""Gives a package and its submodules a second name.

After install("flash_maxsim", "maxsim_torch.compat.flash_maxsim"), `import flash_maxsim.naive` returns the module object
maxsim_torch.compat.flash_maxsim.naive. install() imports all submodules immediately. A later import would set the
submodule as an attribute of the package, and so hide a function of the same name.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys


class _Loader(importlib.abc.Loader):
    """Loads the module for which the alias stands. Keeps this module's own __spec__."""

    def __init__(self, target):
        self.target = target

    def create_module(self, spec):
        # The alias was removed from sys.modules to import it again. So the original module must be imported again too.
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
