"""Users, tokens, grants, and the access policy that decides from them; no locks and no gRPC."""
