"""What kind each command is, and command lines that reach every path of those that only look."""

from __future__ import annotations

#: Command lines of each command that reads a server, on the recorded world.
READS = {
    "browse": [
        ("browse", "orders"),
        ("browse", "emails", "-n", "0"),
        ("browse", "emails", "--reverse", "--payload"),
        ("browse", "emails", "--lane", "TEN0IlTd9mDCbY"),
        ("browse", "emails", "--flat"),
        ("browse", "orders", "--since", "520w", "--until", "1h"),
        ("browse", "orders", "--state", "dead", "-n", "0"),
        ("browse", "emails", "--state", "dead", "--lane", "TEN0IlTdS5cgtc", "--payload"),
        ("browse", "orders", "--state", "active"),
        ("browse", "orders", "--state", "active", "-n", "0", "--reverse"),
        ("browse", "orders", "--state", "scheduled"),
        ("browse", "orders", "--state", "scheduled", "--since", "520w"),
        ("browse", "broken", "-n", "0"),
        ("browse", "broken", "--state", "dead"),
        ("browse", "audit"),  # seen by a scan
        ("browse", "nope"),
        ("browse", "wrongtype"),
    ],
    "depth": [
        ("depth",),
        ("depth", "orders"),
        ("depth", "emails", "--flat"),
        ("depth", "--states"),
        ("depth", "nope"),
        ("depth", "wrongtype"),
    ],
    "inspect": [
        ("inspect", "orders", "JOB0JN6CbNOOR6"),
        ("inspect", "orders", "JOB0JN69V5ZlNQ", "--raw"),
        ("inspect", "emails", "JOB0JVx0A3S4QK"),
        ("inspect", "invoices", "JOB0JXbqR8qjDc"),
        ("inspect", "JOB0JN6CbNOOR6"),
        ("inspect", "broken", "JOB0JZ8CMJeq8G"),
        ("inspect", "orders", "JOB0JN69QVitIu", "--deep"),
        ("inspect", "orders", "JOB0Nb1VTbfnu4"),  # not there
    ],
    "slot": [("slot", "orders", "--node")],
    "queues": [("queues",), ("queues", "--columns", "all")],
    "lanes": [("lanes", "emails"), ("lanes", "orders"), ("lanes", "broken")],
    "errors": [("errors",), ("errors", "orders"), ("errors", "broken")],
    "ping": [("ping",)],
    "doctor": [("doctor", "orders"), ("doctor", "emails"), ("doctor", "broken")],
}
WITHOUT_SERVER = {"key", "id", "journal", "completion", "schema", "config"}
OF_ITS_OWN = {"demo"}  # a server that it starts
CHANGES = {"requeue", "bury", "reap", "promote", "move", "remove", "edit", "pause", "resume", "tune", "obliterate"}

LINES = [words for lines in READS.values() for words in lines]
