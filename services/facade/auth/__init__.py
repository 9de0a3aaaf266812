"""Authentication, authorization, the tokens of actions, and the limits on failed logins; no endpoint."""
