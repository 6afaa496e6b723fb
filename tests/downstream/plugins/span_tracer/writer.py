# pyright: basic
import threading


class SpanWriter:
    """Keeps spans until the turn is over, then appends them to a file."""

    def __init__(self, path, encode):
        self.path = path
        self.encode = encode
        self.spans = []
        self.lock = threading.Lock()

    def add(self, span):
        with self.lock:
            self.spans.append(span)

    def flush(self, interrupted=False):
        with self.lock:
            spans, self.spans = self.spans, []
            if not spans:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                for span in spans:
                    file.write(self.encode({**span, "interrupted": interrupted}) + "\n")
