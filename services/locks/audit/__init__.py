"""The audit log: who changed what, with the record before and after the change."""
