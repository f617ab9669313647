"""Integrations: SDKs and frameworks, each in a module of its own, imported on demand."""
