"""Writes the price data anew from the installed ``genai-prices``."""

from __future__ import annotations

from tests.prices.snapshot import PATH, snapshot

if __name__ == "__main__":
    PATH.write_bytes(snapshot())
    print(f"{PATH.name}: {PATH.stat().st_size:,} bytes")
