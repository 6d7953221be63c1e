"""The version of this package."""

UNKNOWN = "0+unknown"


def installed_version() -> str:
    """That of the installed distribution; "0+unknown" for sources that no distribution was installed from."""
    from importlib.metadata import PackageNotFoundError, version  # Which imports much.

    try:
        return version("ocannl")
    except PackageNotFoundError:
        return UNKNOWN
