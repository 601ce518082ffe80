"""The plain task routes, `/api/tasks`, for workers in any language."""
