"""What is kept of requests and answers: exchanges, pages, failure bundles."""
