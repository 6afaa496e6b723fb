"""The packages of the embedded model: found, installed, checked, removed."""
