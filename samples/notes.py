"""A shared notebook: tools, resources and a prompt, with sessions for legacy clients.

    python mcpkit.py serve samples/notes.py

This is the server of a public tutorial that drives MCP with curl; it answers as the tutorial shows.
"""
import json
import threading
from typing import Annotated

from mcpkit import Server, ToolError, ToolResult

server = Server("notes", version="1.0.0", sessions=True, stream="always")

notes = []                      # (tag, text), oldest first; guarded by lock
lock = threading.Lock()         # a server runs its handlers in threads


def spell_out(value: dict) -> ToolResult:
    """Return a result word for word as the tutorial prints it.

    `return value` would do, with a compact text and without the `isError` that means success.
    """
    return ToolResult(content=[{"type": "text", "text": json.dumps(value)}],
                      structuredContent=value, isError=False)


@server.tool(title="Add Note")
def add_note(text: Annotated[str, "The note body."],
             tag: Annotated[str, "Short label grouping related notes."] = "general") -> dict:
    """Append a note to the shared notebook."""
    with lock:
        notes.append((tag, text))
        return spell_out({"saved": len(notes), "total": len(notes)})


@server.tool
def note_stats():
    """Count notes per tag in the notebook."""
    with lock:
        tags = [tag for tag, _ in notes]
    return spell_out({tag: tags.count(tag) for tag in sorted(set(tags))})


@server.tool
def reject_note(reason: Annotated[str, "Why the note is refused."] = "notebook is read-only"):
    """Refuse a note, to show what a failing tool looks like."""
    raise ToolError(f"Error calling tool 'reject_note': {reason}")


@server.resource("notes://all")
def all_notes():
    """All notes, one a line."""
    with lock:
        return "\n".join(f"#{number} [{tag}] {text}"
                         for number, (tag, text) in enumerate(notes, 1))


@server.resource("notes://stats")
def note_stats_resource():
    """How many notes there are."""
    with lock:
        return f"{len(notes)} notes"


@server.prompt
def review_notes(tag: Annotated[str, "The tag whose notes to review."]):
    """Ask for a checklist made of the notes with one tag."""
    return (f"Read the notes resource notes://all, pick the notes tagged '{tag}', and suggest how "
            "to organize them into a checklist.")
