"""What the jobs of the sample world carry and die of: everyday JSON, bytes no tool should trip over, error families."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any

#: A family of errors differs in ids, numbers and quoted names only -> how many of 59 jobs died of it.
ERRORS = {
    "POST https://pay.example.com/v1/captures/{order} gave no answer within {ms} ms": 22,
    '** (Shop.CardDeclined) the card of "{customer}" was declined with code {code}\n'
    "    (shop 2.7.1) lib/shop/payments.ex:118: Shop.Payments.capture/2\n"
    "    (shop 2.7.1) lib/shop/worker.ex:41: Shop.Worker.handle/1\n"
    "    (stdlib 6.2) proc_lib.erl:329: :proc_lib.init_p_do_apply/3": 14,
    "no stock for '{sku}': {quantity} wanted, 0 left": 11,
    "connection to 10.0.{quantity}.{code}:5432 refused": 8,
    "Traceback (most recent call last):\n"
    '  File "/app/labels.py", line 88, in print_label\n'
    "    zone = ZONES[address['zip']]\n"
    "KeyError: '{zip}'": 4,
}

#: Payloads that broke other tools.
ODD = (
    b'{"note":"[/red] [bold]gift[/bold] :bug: [link=https://example.com]track[/link]"}',
    b'{"note":"\x1b[31mred\x1b[0m \x1b]0;retitled\x07 \x1b[2J\x9b5n"}',
    '{"order":47102,"note":"🎉 arrived 👩\u200d👩\u200d👧 👍🏽"}'.encode(),
    '{"order":46981,"customer":"株式会社山田商店","city":"東京都","total":"12,800"}'.encode(),
    '{"customer":"שלום עולם","file":"invoice\u202efdp.exe","note":"\u2066\u2067تم\u2069"}'.encode(),
    b'{"customer":"J\xf6rg M\xfcller","city":"K\xf6ln"}',  # latin-1
    b"\x82\xa5order\xcd\xb8\x1d\xa5total\xcb\x40\x60\x20\x00\x00\x00\x00\x00",  # msgpack
    gzip.compress(b'{"order":46512,"lines":[{"sku":"TEA-250","quantity":2}]}', mtime=0),
    b"\x83t\x00\x00\x00\x02w\x05orderb\x00\x00\xb5\x01w\x04kindm\x00\x00\x00\x06refund",  # Erlang external term
    b"",
    b"\x00",
    b'{"order":9223372036854775807,"before":-9223372036854775808,"beyond":18446744073709551616}',
    b'{"total":NaN,"discount":-Infinity,"weight":1e400}',
    json.dumps({"order": 45870, "lines": [f"{line:05} TEA-250" for line in range(3860)]}).encode(),  # 64 KB
)

_CUSTOMERS = ("Ada Byron", "Zoë Łukasik", "Omar Haddad", "Mina Sørensen", "J. O'Neill", "Lin Wei")
_CITIES = ("Lisbon", "Kraków", "Zürich", "Oslo", "Malmö", "Graz", "Porto")
_SKUS = ("TEA-250", "MUG-01", "FILTER-4", "POT-900", "CAKE-12", "SPOON-6")
_CARRIERS = ("dhl", "ups", "posten", "gls")


def order_payload(rng: Random, order: int) -> bytes:
    """One of the steps an order goes through."""
    return _json(rng.choices(_STEPS, (6, 3, 3, 2, 1))[0](rng, order))


def email_payload(rng: Random) -> bytes:
    """A message to a customer."""
    template = rng.choice(("receipt", "shipped", "welcome", "password-reset", "newsletter"))
    return _json(
        {"to": f"{_customer(rng)}@example.com", "template": template, "locale": rng.choice(("en", "de", "pl"))}
    )


def error_text(rng: Random, family: str) -> str:
    """One error of a family of ERRORS."""
    return family.format(
        order=rng.randint(41_000, 48_000),
        ms=rng.choice((5000, 10_000, 30_000)),
        customer=_customer(rng),
        code=rng.randint(10, 99),
        sku=rng.choice(_SKUS),
        quantity=rng.randint(1, 9),
        zip=rng.randint(10_000, 99_999),
    )


def _placed(rng: Random, order: int) -> dict[str, Any]:
    lines = [{"sku": sku, "quantity": rng.randint(1, 4)} for sku in rng.sample(_SKUS, rng.randint(1, 3))]
    return {"order": order, "customer": _customer(rng), "total": _total(rng), "currency": "EUR", "lines": lines}


def _captured(rng: Random, order: int) -> dict[str, Any]:
    return {"capture": f"pay_{rng.getrandbits(48):012x}", "order": order, "total": _total(rng), "currency": "EUR"}


def _shipped(rng: Random, order: int) -> dict[str, Any]:
    to = {"name": rng.choice(_CUSTOMERS), "city": rng.choice(_CITIES), "zip": str(rng.randint(10_000, 99_999))}
    return {"ship": order, "carrier": rng.choice(_CARRIERS), "weight_g": rng.randrange(120, 4800, 20), "to": to}


def _refunded(rng: Random, order: int) -> dict[str, Any]:
    return {
        "refund": order - rng.randint(20, 900),
        "total": _total(rng),
        "reason": rng.choice(("late", "broken", None)),
    }


def _restocked(rng: Random, order: int) -> dict[str, Any]:
    return {"restock": rng.choice(_SKUS), "quantity": rng.randrange(50, 500, 50), "urgent": order % 3 == 0}


_STEPS: tuple[Callable[[Random, int], dict[str, Any]], ...] = (_placed, _captured, _shipped, _refunded, _restocked)


def _customer(rng: Random) -> str:
    return f"c-{rng.randint(1000, 2999)}"


def _total(rng: Random) -> str:
    return f"{rng.randint(4, 260)}.{rng.choice(('00', '50', '90', '95'))}"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
