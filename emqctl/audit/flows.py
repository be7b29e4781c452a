"""Flows: parents that wait for exactly what is outstanding, and children whose parents are there."""

from __future__ import annotations

from emqctl import branded
from emqctl.audit.jobs import Job, number
from emqctl.audit.rules import BROKEN, FIX, NOTE, PERSON, STUCK, YES, Family, Found

FAMILY = Family()


@FAMILY.rule(
    BROKEN, "H5", "its parent has no row: when it is done, a job without payload appears under the parent's id", FIX
)
def child_without_parent(job: Job) -> Found:
    """A link to a parent without a row; one to another queue, or to what is no id, is for a person.

    A dead child whose parent went on without it, and is done, is as it should be until somebody brings it back.
    """
    if job.parent is None or job.parent.exists:
        return None
    is_cut = job.parent.is_here and branded.is_branded(job.row["parent"])
    return {"level": NOTE if job.places == ("dead",) else BROKEN, **({} if is_cut else {"repair": None})}


@FAMILY.rule(
    BROKEN,
    "H7",
    "its parent was told of its end ({told}), and it is not dead: when it ends again the parent is counted down "
    "twice, or killed",
)
def told_child_runs_again(job: Job) -> Found:
    """A child that runs, or will, though its parent has settled it."""
    if job.parent is None or not job.parent.told or not job.places or "dead" in job.places:
        return None
    told = " ".join(job.parent.told)
    return {"told": told, "hazard": "H8" if "failed" in job.parent.told else "H7" if job.parent.is_here else "H28"}


@FAMILY.rule(STUCK, None, "it waits for its children, and by its own count for none: it was never released", PERSON)
def held_parent_ready(job: Job) -> Found:
    """A held parent whose count is missing or at most 0."""
    return YES if job.type == "hash" and job.is_held and (number(job.count) or 0) < 1 else None


@FAMILY.rule(
    STUCK,
    "H8",
    "it waits for its children, and was told that one it could not do without has failed: it is released early or "
    "never",
    PERSON,
)
def held_parent_failed(job: Job) -> Found:
    """A held parent with failed children."""
    return YES if job.is_held and job.failed else None


@FAMILY.rule(
    BROKEN,
    "H6",
    "it does not wait for its children, and {count} are outstanding: it runs without them, and the last of them "
    "lets it wait once more",
)
def parent_runs_early(job: Job) -> Found:
    """A parent with children outstanding that is neither held nor dead by a child."""
    count = number(job.count) or 0
    if job.type != "hash" or count < 1 or job.is_held or job.is_dead_by_children:
        return None
    return {"count": count}
