"""Tables of the gateway in the journal: messages that arrived, answers to send, chats, users, pairing codes."""
