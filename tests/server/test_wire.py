"""The instruments that watch the wire."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import wire


def over(proxy: wire.Proxy, **options: Any) -> redis.Redis:
    return redis.Redis.from_url(proxy.url, protocol=2, driver_info=None, **options)


def test_monitor_records_what_others_send_byte_for_byte(redis_client: redis.Redis, monitor: wire.Monitor) -> None:
    odd = bytes(range(256)) + b'"\\'
    redis_client.ping()
    with monitor() as commands:
        redis_client.set("a b", odd)
        redis_client.eval("return redis.call('GET', KEYS[1])", 1, "a b")
    redis_client.ping()
    assert commands == [
        [b"SET", b"a b", odd],
        [b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", b"a b"],
    ]


def test_proxy_counts_bytes_connections_and_round_trips(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    with over(proxy) as client:
        assert client.ping()
        with client.pipeline(transaction=False) as pipeline:
            pipeline.ping().ping()
            pipeline.execute()
    assert (proxy.connections, proxy.round_trips) == (1, 2)
    assert (proxy.up, proxy.down) == (3 * len(b"*1\r\n$4\r\nPING\r\n"), 3 * len(b"+PONG\r\n"))


def test_proxy_counts_each_connection_by_itself(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    with over(proxy) as first, over(proxy) as second:
        first.ping()
        second.ping()
        first.ping()
    assert (proxy.connections, proxy.round_trips) == (2, 3)


def test_proxy_passes_large_values_both_ways_at_once(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    large = b"x" * 3_000_000
    with over(proxy) as client, client.pipeline(transaction=False) as pipeline:
        pipeline.set("large", large)
        for _ in range(8):
            pipeline.echo(large)
        assert pipeline.execute() == [True, *[large] * 8]


def test_an_answer_can_be_lost(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    proxy.cut_down = 0
    with over(proxy) as client, pytest.raises(redis.ConnectionError):
        client.incr("counter")
    assert redis_client.get("counter") == b"1"


def test_a_command_can_be_cut_in_the_middle(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    proxy.cut_up = 20
    with over(proxy) as client, pytest.raises(redis.ConnectionError):
        client.incr("counter")
    assert redis_client.get("counter") is None
    assert (proxy.up, proxy.down) == (20, 0)


def test_connections_can_be_cut_on_demand(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    with over(proxy) as client, ThreadPoolExecutor() as threads:
        answer = threads.submit(client.blpop, "nothing", 30)
        while not proxy.up:
            time.sleep(0.001)
        proxy.cut()
        with pytest.raises(redis.ConnectionError):
            answer.result()
        assert client.ping()
    assert proxy.connections == 2
