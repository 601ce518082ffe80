"""The screens of the dashboard: one file per screen, and one per widget."""
