"""The graph of all filings: companies, people, filings and events, and what is between them.

schema     the labels, their properties, and which relations may be between which nodes
rows       the rows of one filing
intervals  from when to when a person held a role, out of what the filings say
statements the Cypher for these rows, in the dialects of both graphs
bolt       Neo4j, or another server that speaks Bolt
embedded   a graph in a file, with LadybugDB
merge      `merge_filing`: into the graph of the settings
"""

from filings.graph.merge import check_graph, merge_filing, open_graph

__all__ = ["check_graph", "merge_filing", "open_graph"]
