"""The modules that the commands of `tests.support.commands` share, imported once for all of them."""

import services.backup.backup
import services.backup.check
import services.backup.restore
import services.cli.main  # noqa: F401 - one name stands for all four
