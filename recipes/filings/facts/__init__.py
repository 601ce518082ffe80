"""Facts of a filing, each with its place in the text.

fact       a fact and its records
grounding  looks a value up in the text: exact, case and spaces folded, similar
spelling   dates and numbers as filings write them
rules      finds facts without a model: `facts_of`
sentences, cover_pages, ownership  the rules for prose, for SC 13D/G, for forms 3, 4 and 5
ollama     a client of Ollama's API
model      finds facts with a model, and keeps those that are in the text
"""
