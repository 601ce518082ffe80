"""A replica of the part of EDGAR that this recipe reads, unfriendly as such sources are. All companies are made up.

world    the companies, the people, and what happened to them in 1998 and 2010
stories  the text of each filing, and the facts that a perfect reader finds in it
layouts  how the text is written: two kinds of HTML, plain text, XML; and the faults of the files
index    the lists of filings of a quarter
site     the server: `python -m filings.replica`
"""
