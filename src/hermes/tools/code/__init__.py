"""Python scripts of the model that call tools."""
