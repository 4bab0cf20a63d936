"""A server with a tool name that some clients refuse."""
from mcpkit import Server

server = Server("odd")


@server.tool(name="count words")
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
