"""The page: sessions, their timelines, approvals, costs and a chat box in a browser, live from the journal."""
