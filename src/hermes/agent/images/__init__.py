"""Images: attachments of user messages, descriptions for models without vision, and generated ones."""
