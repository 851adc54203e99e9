"""What ASTRA-sim's ns-3 front end is given, and the network that it describes."""
