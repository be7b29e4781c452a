"""Operate EchoMQ job queues on Redis and Valkey."""
