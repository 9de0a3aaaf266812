"""Alembic's environment for all services; it runs on the connection that `database.migrations` passes to it."""

from alembic import context

_schema = context.config.attributes["schema"]

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=_schema.metadata,
    version_table_schema=_schema.name,
    transaction_per_migration=False,
    compare_server_default=True,
)
context.run_migrations()
