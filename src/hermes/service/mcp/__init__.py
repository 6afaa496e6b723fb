"""MCP client: servers of the Model Context Protocol, and their tools in the one tool pipeline.

Importing this package imports no SDK: the modules that need it are imported when the first server is started.
"""
