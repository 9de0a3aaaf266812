"""`python -m services.cli` is `towpath`."""

from services.cli.entry import run

if __name__ == "__main__":
    run()
