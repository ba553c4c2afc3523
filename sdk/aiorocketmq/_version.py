"""The version of the installed package."""

from functools import cache


@cache
def version() -> str:
    """As in the package's metadata; `0` if it runs from a source tree that is not installed."""
    # Imported late: reading metadata takes longer to import than most of this package.
    from importlib.metadata import PackageNotFoundError, version as installed_version

    try:
        return installed_version("aiorocketmq")
    except PackageNotFoundError:
        return "0"
