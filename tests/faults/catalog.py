"""The catalogue of faults: mistakes that a reviewer could miss, spread over the rules that matter."""

from tests.faults import access, bytes_and_index, edges, tools

FAULTS = (*bytes_and_index.FAULTS, *access.FAULTS, *edges.FAULTS, *tools.FAULTS)
