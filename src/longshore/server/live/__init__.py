"""The live figures of a server: one reader takes the snapshots, and every viewer gets the same ones."""
