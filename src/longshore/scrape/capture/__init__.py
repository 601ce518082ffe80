"""The capture of requests and responses: exchanges, stored pages, failure bundles."""
