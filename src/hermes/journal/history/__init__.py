"""Past conversations: branched, undone, compacted, searched."""
