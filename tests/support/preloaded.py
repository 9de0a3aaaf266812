"""The modules that the programs of `tests.support.commands` share, imported once for all of them."""

import gc
import sys

import services.backup.backup
import services.backup.check
import services.backup.restore
import services.cache.application
import services.cli.main
import services.storage.application

services.cli.main.root_command()
# What is collected, or only looked at, has to be copied for each process that is forked.
gc.freeze()

if (coverage := sys.modules.get("coverage")) is not None and (running := coverage.Coverage.current()) is not None:
    # This process ends after the report is made.
    running.save()
