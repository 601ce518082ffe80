"""Reading HTML: elements by CSS selector, links and the jobs that follow them, structured data, forms."""
