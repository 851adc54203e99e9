"""What linking dropped, repaired or guessed, in sentences."""

from __future__ import annotations

from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import LinkedTrace

_SENTENCES = {
    "events_without_times": "{} events of work lack a start or a duration and were left out",
    "events_with_absurd_times": "{} events have times beyond 73 years and were left out",
    "negative_durations": "{} negative durations were taken as 0",
    "steps_cut_at_the_next": "{} steps overlap the next one and were cut there",
    "straddling_events": "{} events of a thread end after the event around them; the time belongs to the later one",
    "unlinked_device_rows": "{} events of the device have no launch in the trace and depend on their stream only",
    "kernels_long_before_launch": "{} events of the device start more than 1 us before their launch: clocks disagree",
    "launches_with_equal_correlation": "{} events of the device have several calls with their correlation id",
    "events_overlapping_in_their_stream": "{} events of the device begin before the one ahead in their stream ends",
    "edges_rejected_source_ends_late": "{} waits were rejected: the work ends after the call that waited returned",
    "edges_rejected_circular": "{} edges were rejected since they close a circle",
    "sync_records_of_unknown_kind": "{} synchronisation records are of an unknown kind",
    "rows_without_times": "{} operators have no times: there is no device trace",
}


def warn(linked: LinkedTrace, notes: Notes) -> None:
    """Add a sentence for each count that matters."""
    for name, sentence in _SENTENCES.items():
        count = linked.counts.get(name, 0)
        if count:
            notes.warn(f"{linked.source}: {sentence.format(count)}")
    nodes = linked.counts.get("host_nodes", 0)
    matched = linked.counts.get("host_nodes_matched", 0)
    if "host_nodes_matched" in linked.counts and 2 * matched < nodes:
        message = "host and device trace seem to be of different runs"
        found = f"{matched} of {nodes} operators of the host trace in the device trace"
        notes.warn(f"{linked.source}: {message}; found {found}")
