"""Extracts the text of an HTML page or a PDF from standard input. A program of its own: it imports nothing of Hermes.

The documents are written by strangers and the parsers are large, so ``tools/terminal/parser_process.py`` runs it.
"""

# The libraries have no types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import json
import sys


def main() -> int:
    """Read a document, and print ``{"title", "content"}`` or ``{"error"}`` as JSON."""
    kind, url, max_chars = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = sys.stdin.buffer.read()
    try:
        title, content = _pdf(data, max_chars) if kind == "pdf" else _html(data, url)
        answer = {"title": title, "content": content[:max_chars]}
    except ImportError as error:
        answer = {"error": f"{error.name or error} is not installed", "missing": True}
    except MemoryError:
        answer = {"error": "the document needs too much memory"}
    except Exception as error:  # whatever a parser makes of a broken document
        answer = {"error": f"the document cannot be read: {type(error).__name__}: {str(error)[:200]}"}
    sys.stdout.write(json.dumps(answer))
    return 0


def _html(data: bytes, url: str) -> tuple[str, str]:
    import trafilatura

    page = trafilatura.load_html(data)
    if page is None:
        return "", ""
    title = " ".join((page.findtext(".//title") or "").split())
    text = trafilatura.extract(
        page, url=url, output_format="markdown", include_links=True, include_tables=True, include_formatting=True
    )
    # A page without an article, such as a list of links, still has text.
    return title, text or trafilatura.html2txt(data) or ""


def _pdf(data: bytes, max_chars: int) -> tuple[str, str]:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is encrypted")
    pages: list[str] = []
    room = max_chars
    for number, page in enumerate(reader.pages, 1):
        text = f"[page {number}]\n{page.extract_text().strip()}"
        pages.append(text)
        room -= len(text)
        if room <= 0:
            break
    title = reader.metadata.title if reader.metadata is not None else ""
    return str(title or ""), "\n\n".join(pages)


if __name__ == "__main__":
    sys.exit(main())
