"""The Python API for programs that embed Hermes. ``import hermes`` exposes its names; these modules are private."""
