"""Chats: messages that become turns, commands and answers to questions."""
