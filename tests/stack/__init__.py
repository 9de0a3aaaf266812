"""The stack of compose.yaml, built and run by a real engine: `make stack-test`, `make growth-test`."""
