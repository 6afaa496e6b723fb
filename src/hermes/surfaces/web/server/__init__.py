"""The page over HTTP: routes, access, and the process that serves them."""
