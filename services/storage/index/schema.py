"""The storage service's schema in the database."""

from pathlib import Path

from services.database.versions import Schema
from services.storage.index import (  # noqa: F401 - define tables of the metadata
    partial_upload_models,
    quota_models,
)
from services.storage.index.models import SCHEMA_NAME, StorageModel

SCHEMA = Schema(
    name=SCHEMA_NAME,
    metadata=StorageModel.metadata,
    versions=Path(__file__).parents[1] / "migrations" / "versions",
)
