"""A server that asks its client: forms, a model, folders."""
from dataclasses import dataclass
from typing import Annotated, Literal
from mcpkit import Context, Elicitation, Roots, Sampling, Server

server = Server("trip", version="1.0.0", sessions=True)


@dataclass
class Wish:
    seat: Literal["window", "aisle"] = "window"
    bags: Annotated[int, "How many bags."] = 1


@server.tool
def book(city: str, ctx: Context) -> str:
    """Book a trip, after asking how."""
    wish = ctx.elicit(f"How do you want to travel to {city}?", Wish)
    if wish.action != "accept":
        return "not booked"
    ctx.log("info", f"asked for {wish.content.bags} bags")
    return f"booked: {city}, {wish.content.seat}, {wish.content.bags} bags"


@server.tool
def survey(ctx: Context) -> list:
    """Ask three things at once."""
    answers = ctx.ask({"name": Elicitation("Your name?", {
        "type": "object", "properties": {"name": {"type": "string"}}}),
        "motto": Sampling("A motto for a traveller?", max_tokens=20), "folders": Roots()})
    return [answers["name"].content["name"], answers["motto"]["content"]["text"],
            answers["folders"][0]["uri"]]
