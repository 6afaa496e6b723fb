"""Compatibility: the module names that published plugins import, seen by plugin code only.

``names`` has the table and the ``__import__`` that plugin modules are given, and each other module here
fills one or more of the names from the host that loaded the plugin. Nothing enters ``sys.modules``, so
code outside plugins, and ``importlib.import_module`` inside them, never meets these names.
"""
