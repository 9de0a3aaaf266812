"""The SSH service: sessions of OpenSSH, answered by the HTTP interface of the facade."""
