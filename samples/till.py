"""A server with a bug: it divides by zero."""
from mcpkit import Server

server = Server("till")


@server.tool
def split(total: int, people: int) -> dict:
    """Say what each has to pay."""
    return {"each": total // people}
