"""Asyncio tools that know no service: batching, periodic work, work that cancellation does not cut."""
