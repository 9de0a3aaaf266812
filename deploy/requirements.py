"""Print what Towpath and the extras named as arguments need, one requirement a line, from pyproject.toml."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for needed in (project["dependencies"], *(extras[name] for name in sys.argv[1:])):
    sys.stdout.writelines(f"{requirement}\n" for requirement in needed)
