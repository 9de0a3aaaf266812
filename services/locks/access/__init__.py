"""Users, tokens, grants, and the policy that decides from them; no lock and no gRPC."""
