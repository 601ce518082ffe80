"""Reads submissions as EDGAR keeps them. Nothing here raises on malformed input; all that was not read is reported.

decode      bytes as text
submission  the SGML frame: header and documents; `read_submission`
header      the header: form, dates, companies
documents   the text of a document: HTML, plain text, XML
xml_tree    XML as a tree whose values know their place in the text
index       the lists of filings of a quarter
"""
