"""Spans and metrics made while a run happens, with the OpenTelemetry SDK; for plugins that send them somewhere.

Only what is imported from here needs the SDK: the rest of ``hermes.trace`` does without.
"""
