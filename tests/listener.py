"""A client that overhears its own scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis

from emqctl.demo import transitions

VERBS = [path.stem for path in Path(transitions.__file__).parent.glob("*.lua") if path.stem != "prelude"]


class Listener(redis.Redis):
    """A client that keeps which scripts were run, on what, and what they answered."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.heard: list[tuple[str, list[Any], Any]] = []
        self._verbs = {self.register_script(transitions.source(verb)).sha: verb for verb in VERBS}

    def evalsha(self, sha: str, numkeys: int, *words: Any) -> Any:
        """Run a script, as redis-py's Script does."""
        call = (self._verbs[sha], list(words))
        try:
            reply = super().evalsha(sha, numkeys, *words)
        except redis.exceptions.NoScriptError:
            raise  # it is loaded, then run
        except redis.ResponseError as error:
            self.heard.append((*call, {"error": str(error)}))
            raise
        self.heard.append((*call, reply))
        return reply
