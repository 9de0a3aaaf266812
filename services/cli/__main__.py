"""The `towpath` command, run as `python -m services.cli`."""

from services.cli.entry import run

if __name__ == "__main__":
    run()
