"""Hooks for other people's SDKs, frameworks and gateways, each in a module that is imported on demand."""
