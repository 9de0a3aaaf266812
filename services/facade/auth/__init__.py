"""Authentication, authorization, action tokens, and limits on failed logins; contains no endpoint."""
