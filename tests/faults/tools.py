"""Faults of the cache, of transfers and backups, and of the commands."""

from tests.faults.fault import Fault

FAULTS = (
    Fault(
        "cache-hash",
        "cache/fetch.py",
        "        check_hash(grant, hashed)\n",
        "",
        "The cache keeps an object only if its hash is right.",
        ("unit/cache/test_fetch.py", "service/cache/test_fetches.py"),
    ),
    Fault(
        "cache-fsync",
        "cache/fetch.py",
        "    os.fsync(file)\n",
        "",
        "A file of the cache that has its name after a power cut is whole.",
        ("unit/cache", "service/cache/test_store.py", "service/cache/test_fetches.py"),
    ),
    Fault(
        "cache-rights-of-repository",
        "cache/rights.py",
        "        for part in (base, *authorization):\n",
        "        for part in authorization:\n",
        "A right that is remembered is one to one repository.",
        ("unit/cache/test_rights.py",),
    ),
    Fault(
        "transfer-hash",
        "transfer/places.py",
        "    if digest.hexdigest() != pointer.oid:\n"
        '        raise ObjectProblem(Kind.WRONG, f"the bytes have the hash {digest.hexdigest()}")\n',
        "",
        "A transfer puts no object whose bytes have another hash.",
        ("service/transfer/test_folder.py",),
    ),
    Fault(
        "transfer-problem-status",
        "transfer/importing.py",
        'return {**record, "locks": taken.record()}, is_well and not taken.conflicts',
        'return {**record, "locks": taken.record()}, is_well',
        "An import with locks in conflict ends with another status than 0.",
        ("e2e/test_import_places.py",),
    ),
    Fault(
        "backup-table-digest",
        "backup/verification.py",
        "    if digest.hexdigest() != table.sha256:\n"
        '        return f"{table.name}: the table\'s rows are not what was written"\n',
        "",
        "A table of a backup with changed rows is not restored.",
        ("service/backup/test_tampering.py",),
    ),
    Fault(
        "child-deaths-window",
        "cli/up/child.py",
        "            while self._deaths[0] < now - _DEATHS_SECONDS:\n                self._deaths.popleft()\n",
        "",
        "A child that dies now and then is started again, however long `towpath up` runs.",
        ("service/cli/test_child.py",),
    ),
    Fault(
        "gc-age-of-file",
        "cli/garbage/command.py",
        "            return time.monotonic() - age, read_list(self.file, spool)\n",
        "            return time.monotonic(), read_list(self.file, spool)\n",
        "What came after a list was written is no garbage of that list.",
        ("e2e/test_garbage.py",),
    ),
)
