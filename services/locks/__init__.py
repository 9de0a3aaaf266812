"""The lock service: locks and access control (users, tokens, repositories, grants) over gRPC, stored in Postgres."""
