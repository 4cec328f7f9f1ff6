"""The command ``tidemark``, also as ``python -m tidemark.controller``."""

import sys


def main() -> None:
    """Run the command line; where its packages are not installed, say which extra brings them."""
    try:
        from tidemark.controller.tools import cli  # noqa: PLC0415 - so that what is missing can be named
    except ModuleNotFoundError as error:
        if (error.name or "tidemark").startswith("tidemark"):
            raise
        sys.stderr.write(
            f"tidemark: the command line needs {error.name}: pip install 'tidemark-streaming[controller]'\n"
        )
        sys.exit(2)
    cli.main()


if __name__ == "__main__":
    main()
