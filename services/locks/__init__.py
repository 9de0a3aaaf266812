"""The lock service: locks, and who may do what (users, tokens, repositories, grants), over gRPC, in Postgres."""
