"""What the gateway keeps in the journal: messages that arrived, answers to send, chats, users and pairing codes."""
