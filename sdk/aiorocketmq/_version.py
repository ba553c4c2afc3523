"""The version of the installed package."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


@cache
def version() -> str:
    """As in the package's metadata; `0` where it runs from a source tree that is not installed."""
    try:
        return installed_version("aiorocketmq")
    except PackageNotFoundError:
        return "0"
