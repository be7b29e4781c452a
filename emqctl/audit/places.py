"""Where jobs stand: each in one place, with a row that says which."""

from __future__ import annotations

from emqctl.audit.jobs import Job, is_job_id, number
from emqctl.audit.rules import BROKEN, FIX, NOTE, YES, Family, Found, quoted
from emqctl.contradictions import STATE_OF

FAMILY = Family()
#: Hazard by which a member without a row comes about, by where it stands.
DANGLING_IN = {"pending": "H29", "active": "H11", "schedule": "H11", "dead": "H10", "lane": "H2"}


@FAMILY.rule(
    BROKEN,
    "H10",
    "no row exists under this id: no verb of EchoMQ takes it out, and what claims, reaps or promotes it makes "
    "a job without payload",
    "emqctl remove {queue} {id}",
)
def dangling(job: Job) -> Found:
    """A job's id in a set or lane, without any row key."""
    if job.type != "none" or not job.places or not is_job_id(job.id):
        return None
    return {"hazard": DANGLING_IN[job.places[0]]}


@FAMILY.rule(BROKEN, "H33", "this is no job's id: a worker that claims it dies, and the next one after each reap", FIX)
def bad_member(job: Job) -> Found:
    """A member of a set or lane that is no job's id; one of another kind, with a row, can be settled all the same."""
    if not job.places or is_job_id(job.id):
        return None
    return {"level": NOTE, "repair": None} if job.is_sound_id and job.type == "hash" else YES


@FAMILY.rule(
    BROKEN, "H12", "it stands in {where}: it may run twice, and one settlement leaves the other copy behind", FIX
)
def in_two_places(job: Job) -> Found:
    """One id in more than one set or lane."""
    if len(job.places) < 2:  # noqa: PLR2004
        return None
    found = {"hazard": _hazard_of_two(job), "where": " and ".join(job.places), "lane": job.foreign_lane or job.lane}
    return found if job.type == "none" or _has_a_right_place(job) else {**found, "repair": None}


def _has_a_right_place(job: Job) -> bool:
    """Tell whether the row says which copy to keep, and nobody else has a say."""
    is_named = job.row.get("state") in {STATE_OF[place].encode() for place in job.places}
    is_alone = job.parent is None and (number(job.count) or 0) < 1
    return is_named and is_alone and job.has_payload and not job.has_bad_attempts and not job.has_live_lease


def _hazard_of_two(job: Job) -> str:
    if job.count is not None:  # a parent
        return "H32" if "active" in job.places else "H8"
    return "H9" if set(job.places) == {"schedule", "dead"} else "H12"


@FAMILY.rule(BROKEN, None, "its row says {state}, and the place decides: whoever trusts the row is misled", FIX)
def state_mismatch(job: Job) -> Found:
    """The state of the row is not the word of the place."""
    state = job.row.get("state", b"")
    wrong = [place for place in job.places if STATE_OF[place].encode() != state]
    if job.type != "hash" or not job.is_sound_id or not wrong:
        return None
    is_clear = _has_a_right_place(job) if len(job.places) > 1 else job.has_payload and not job.is_held
    return {"state": quoted(state), **({} if is_clear else {"repair": None})}


@FAMILY.rule(BROKEN, "H34", "its row stands in no set or lane: nobody will ever run it; a person decides about it")
def row_in_no_set(job: Job) -> Found:
    """A row in no set or lane that does not wait for children."""
    if job.type != "hash" or not job.is_sound_id or job.places or job.is_held:
        return None
    if job.is_passing_mark:
        return {"level": NOTE, "hazard": None}
    return YES if job.has_bad_attempts else {"hazard": None}


@FAMILY.rule(
    BROKEN,
    "H1",
    "it belongs to a lane and waits in flat pending: no lane worker sees it, and a flat one bypasses the lane's "
    "pause and limit",
    "emqctl move {queue} {id} --to {lane}",
)
def grouped_in_flat_pending(job: Job) -> Found:
    """A job with a group in flat pending."""
    return {"lane": job.row["group"]} if "group" in job.row and "pending" in job.sets else None


@FAMILY.rule(BROKEN, None, "it waits in a lane that is not the one its row names: its slot is counted in the wrong one")
def group_mismatch(job: Job) -> Found:
    """A member of a lane whose row names another lane, or none."""
    return {"lane": job.foreign_lane} if job.foreign_lane is not None and job.type == "hash" else None
