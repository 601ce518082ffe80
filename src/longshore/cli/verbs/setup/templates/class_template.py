"""The template of a `Worker` class: for those who open something once for many jobs, or who bring a class along."""

from __future__ import annotations

from longshore.cli.verbs.setup.templates.template import InitTemplate

_HANDLERS = '''"""The work on one order, as a class: it opens what all jobs share once."""

from longshore import ValidationError, Worker


class Orders(Worker):
    kinds = ("order",)
    timeout = 60
    retries = 3

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.prices = {"cup": 7.5, "plate": 9.0}  # a database, a model, a session: opened once in each process

    def process_task(self, task):
        item, number = task.params["item"], task.params["number"]
        if item not in self.prices:
            raise ValidationError(f"there is no price for {item}")
        return {"item": item, "total": self.prices[item] * number}
'''

_TEST = '''"""Classes are tested without a queue, a worker or a network."""

from longshore.testing import Completed, Failed, run_handler

from handlers import Orders


def test_the_total_is_the_price_times_the_number():
    assert run_handler(Orders, {"item": "cup", "number": 2}) == Completed({"item": "cup", "total": 15.0})


def test_an_unknown_item_fails_and_is_not_tried_again():
    outcome = run_handler(Orders, {"item": "fork", "number": 1})
    assert isinstance(outcome, Failed)
    assert not outcome.failure.retryable
'''

CLASS = InitTemplate(
    handlers=_HANDLERS,
    work="the work: a class that works on one order at a time",
    test=_TEST,
    inputs={"orders.jsonl": '{"item": "cup", "number": 2}\n{"item": "plate", "number": 1}\n'},
    input_words="what to work on",
    commands={"run handlers.py --jobs-file orders.jsonl": "do the work; results in results.jsonl"},
    submit="submit order --jobs-file orders.jsonl",
    about="`handlers.py` has the class that works on one order; `orders.jsonl` has an order on each line.",
    more="""A plain `process_task` runs in a process of its own, which is ended at the timeout. Write `async def
process_task` for work that waits for the network: `page = await task.kit.http.get(url)`. Two orders
with the same fields are one job; `identity` or a `"key"` on the line says otherwise.""",
)
