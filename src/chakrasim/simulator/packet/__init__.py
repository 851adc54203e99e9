"""Networks of packets: hosts with queue pairs, switches with shared buffers, congestion control."""
