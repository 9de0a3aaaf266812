"""The backend for object stores: S3, Google Cloud Storage, Azure Blob. It needs obstore and boto3."""
