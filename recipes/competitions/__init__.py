"""A fleet of volunteers' machines that shares one git repository and scrapes football competitions."""
