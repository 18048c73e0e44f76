"""The proof: real workers, real servers, real faults, and a checker that reads the histories."""
