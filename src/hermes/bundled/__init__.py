"""The plugins that ship with the runtime, on the same contract as anyone's."""
