"""Dispatch of turns: a surface hands a message over, a dispatcher decides who runs the turn, and when."""
