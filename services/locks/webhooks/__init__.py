"""Webhooks: URLs to which events are delivered. The deliveries are a queue in Postgres, which triggers fill."""
