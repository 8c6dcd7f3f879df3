"""Installs Faultloom when the interpreter starts: ``PYTHONPATH=<this folder> python app.py``.

The package is loaded from where this file lies, without adding anything to ``sys.path``, so it works in a virtual
environment that does not have it. Afterwards it runs the next ``sitecustomize`` on ``sys.path``, which this one hides.
"""

import sys


def _install() -> None:
    import importlib.util
    import os

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if "faultloom" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "faultloom", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["faultloom"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop("faultloom", None)
            raise
    from faultloom.hooks.install import install

    install()


def _chain() -> None:
    import importlib.machinery
    import importlib.util
    import os

    here = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.realpath(entry or os.curdir) for entry in sys.path]
    # only the folders after this one: an earlier folder of this kind would run this file again
    after = folders.index(here) + 1 if here in folders else 0
    others = [entry for entry, folder in zip(sys.path[after:], folders[after:]) if folder != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 9):
    try:
        _install()
    except Exception as error:
        sys.stderr.write(f"faultloom: not installed ({type(error).__name__}: {error})\n")
else:
    sys.stderr.write("faultloom: not installed (Python %d.%d is not supported, 3.9 is the oldest)\n" % sys.version_info[:2])

_chain()
