"""Lists of files: those that run code and those with keys. The sandbox and the file tools use them too."""
