"""What rows hold: a payload, numbers that are numbers, locks that end."""

from __future__ import annotations

from emqctl import branded
from emqctl.audit.jobs import Job
from emqctl.audit.rules import BROKEN, FIX, NOTE, YES, Family, Found, quoted

FAMILY = Family()


@FAMILY.rule(BROKEN, "H33", "a row key whose name is no id: no worker can be given it")
def bad_row_id(job: Job) -> Found:
    """A row key whose name is no branded id."""
    return YES if job.type != "none" and not job.is_sound_id else None


@FAMILY.rule(BROKEN, "H34", "its row key is a {type}, no hash: a claim takes the id out of its set and then fails")
def row_wrong_type(job: Job) -> Found:
    """A row key that is no hash."""
    return {"type": job.type} if job.type not in {"none", "hash"} else None


@FAMILY.rule(
    BROKEN,
    "H11",
    "its row has no payload: a worker is handed nothing, and a producer's job of this id is refused as a duplicate",
    "emqctl remove {queue} {id}",
)
def ghost_row(job: Job) -> Found:
    """A row without payload."""
    if job.type != "hash" or job.has_payload or not job.is_sound_id:
        return None
    if job.is_passing_mark:
        return {"level": NOTE, "repair": None}
    is_flow = job.parent is not None or job.is_held or (job.count or b"0").lstrip(b"-0") != b""
    if is_flow:
        return {"hazard": "H5", "repair": None}
    is_guarded = not job.places or job.has_live_lease or job.has_lock_string
    return {"repair": "emqctl remove {queue} {id} --force"} if is_guarded else YES


@FAMILY.rule(BROKEN, "H34", "its attempts are {attempts}, no number: a claim takes it out of its set and then fails")
def bad_attempts(job: Job) -> Found:
    """Attempts that are no number."""
    return {"attempts": quoted(job.row["attempts"])} if job.has_bad_attempts else None


@FAMILY.rule(BROKEN, "H33", "its parent is no id: the worker that settles it dies, and the next one after each reap")
def bad_parent(job: Job) -> Found:
    """A link to a parent that cannot be one."""
    return None if branded.is_branded(job.row.get("parent", b"JOB00000000000")) else YES


@FAMILY.rule(NOTE, "H22", "its lock field never expires: EchoMQ's own remove refuses the job for ever", FIX)
def lock_field_without_ttl(job: Job) -> Found:
    """A lock field that does not expire; while a worker's lease or marker stands, one that will be taken away."""
    if "lock" not in job.row or job.lock_ttl_ms:
        return None
    is_held = job.has_lock_string or job.has_live_lease or not job.has_payload
    return {"repair": None} if is_held else YES


@FAMILY.rule(NOTE, None, "a worker's lock marker stands: changes of this job are refused until it expires")
def lock_string(job: Job) -> Found:
    """A lock marker beside a row."""
    return YES if job.has_lock_string and job.type != "none" else None


@FAMILY.rule(
    NOTE, "H13", "its lease lapsed before, and that is never forgotten: where one lapse is death, the next one is"
)
def lapsed_before(job: Job) -> Found:
    """A row that counts lapses, of a job that is not dead."""
    return YES if "stalled" in job.row and job.places and job.places != ("dead",) else None
