"""What would be: changes of simulated, replayed and recorded jobs, of straggler traces, and steps drawn by chance."""
