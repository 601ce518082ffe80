"""Prices of medicines from seven national registers: four by workers on any machine, three by one command."""
