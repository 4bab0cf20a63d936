"""A server with tasks: calls that go on after they were answered."""
from dataclasses import dataclass
from mcpkit import Context, Server

server = Server("bakery", version="1.0.0")


@dataclass
class Icing:
    color: str


@server.tool(task="optional", poll_seconds=0.1)
def bake(cakes: int, ctx: Context) -> str:
    """Bake some cakes, and ask how they shall look."""
    for number in range(1, cakes + 1):
        if ctx.cancelled:
            break
        ctx.progress(number, cakes, f"cake {number} is in the oven")
    icing = ctx.elicit("Which icing?", Icing)
    return f"{cakes} cakes, {icing.content.color if icing.content else 'plain'}"


@server.tool(task="required", asks="before", task_seconds=600)
def deliver(ctx: Context) -> str:
    """Ask first, then take the time that it takes."""
    confirmed = ctx.elicit("Deliver now?", {"type": "object", "properties": {}})
    ctx.start_task()
    return "delivered" if confirmed.action == "accept" else "left in the shop"
