"""Optional packages of tools: whether they are installed, and what installs them."""

from importlib.util import find_spec


def install_hint(module: str, extra: str) -> str:
    """The command that installs what a tool needs; empty where it is installed."""
    return "" if find_spec(module) is not None else f"pip install 'noetl[{extra}]'"
