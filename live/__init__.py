"""The live world: training for real on local processors, and recording what happened."""
