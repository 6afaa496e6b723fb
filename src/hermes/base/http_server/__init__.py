"""Parts that every HTTP server of the runtime shares: uvicorn, listen address, principals, limits, request checks."""
