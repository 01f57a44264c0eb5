"""noetl: the entry of the command line. The version is answered before anything else is imported."""

import sys

from noetl import __version__


def main() -> int:
    """Run the command line; the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"noetl {__version__}")  # noqa: T201  unlike stdout.write it minds no closed stdout
        return 0
    try:
        from noetl.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
