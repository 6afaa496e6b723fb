"""Runs the plugin contract: observers, request chains and execution chains, each isolated from the runtime."""
