"""TorchLean's sessions: its operations by their names, eager or compiled."""
