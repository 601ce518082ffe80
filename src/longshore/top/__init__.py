"""The dashboard `longshore top`. This package computes the figures of any queue; `screens` shows them in a terminal."""
