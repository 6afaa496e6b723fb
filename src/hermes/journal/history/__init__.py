"""Past conversations: branched, taken back, compacted, searched."""
