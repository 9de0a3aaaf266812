"""The command, as a process and with the processes it starts."""
