"""The modules that the programs of `tests.support.commands` share, imported once for all of them."""

import services.backup.backup
import services.backup.check
import services.backup.restore
import services.cache.application
import services.cli.main
import services.storage.application  # noqa: F401 - one name stands for all of them
