"""A client that answers what samples/trip.py asks, in both eras: trip_client.py URL."""
import sys
from mcpkit import Client


def fill_in(form):
    print(form["message"], list(form["requestedSchema"]["properties"]))
    return {"bags": 2} if "bags" in form["requestedSchema"]["properties"] else {"name": "Ada"}


for era in ("modern", "legacy"):
    with Client(sys.argv[1], era=era, on_elicit=fill_in, on_sample=lambda request: "Go slowly.",
                on_roots=lambda: ["file:///travel"], on_log=print) as client:
        print(client.call_tool("book", {"city": "Rome"})["content"][0]["text"])
        print(client.call_tool("survey")["content"][0]["text"])
