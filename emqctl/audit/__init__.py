"""The audit: every broken invariant of the protocol, its hazard, what comes of it and what repairs it.

Rules are small functions, one module a family: ``places`` and ``rows`` and ``flows`` judge one id seen at one
moment (``jobs``), ``lanes`` a lane, ``times`` what is late, ``waits`` parents that wait in vain, ``leftovers``
and ``pumps`` what stays behind, ``whole`` a queue, ``servers`` the server. ``sweep`` goes through the keys;
``first`` is the cheap look that finds suspects.

Which rule shows a hazard of the protocol (6.4), and why none shows the others:

====  ==========================================================================================
H1    grouped_in_flat_pending gactive_mismatch
H2    dangling ghost_row gactive_mismatch
H3    gactive_mismatch
H4    held_parent_stuck
H5    child_without_parent ghost_row
H6    parent_runs_early
H7    told_child_runs_again
H8    told_child_runs_again in_two_places held_parent_failed
H9    dangling in_two_places
H10   dangling
H11   dangling ghost_row
H12   in_two_places lock_string
H13   lapsed_before
H14   held_parent_stuck
H15   held_parent_stuck
H16   lane_starved
H17   lane_on_ring_not_serviceable lane_on_ring_twice
H18   not shown: a claim that lands just after a pause leaves a job in flight as any other
H19   not shown: counters count events, and no row tells how often its job died or was brought back
H20   repeat_record_without_member orphan_subkeys dedup_dangling row_in_no_set
H21   not shown: the script that takes too much fails before it deletes anything
H22   lock_field_without_ttl ghost_row lock_fields_never_expire
H23   repeat_fired_twice two_pumps
H24   outbox_malformed_at held_parent_stuck
H25   dedup_dangling orphan_subkeys
H26   orphan_subkeys
H27   grouped_in_flat_pending gactive_mismatch
H28   told_child_runs_again
H29   dangling
H30   dangling
H31   ghost_row
H32   in_two_places
H33   bad_member bad_parent bad_row_id
H34   bad_attempts row_wrong_type row_in_no_set
H35   bad_limit bad_counter
H36   slot_migrating
====  ==========================================================================================
"""

from __future__ import annotations

from emqctl.audit.order import in_order
from emqctl.audit.sweep import Audit

__all__ = ["Audit", "in_order"]
