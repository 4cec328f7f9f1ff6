"""``python -m tidemark.controller``: the same as the ``tidemark`` command."""

from tidemark.controller.tools.cli import main

if __name__ == "__main__":
    main()
