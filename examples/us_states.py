"""Work that comes in partitions: five registers in each of the 51 states (50 and DC), shared out among workers.

Who would have which states, and then the work itself:

    longshore assign --workers 10 --partitions us-states
    longshore submit register --jobs-file examples/us_states.jsonl --run states
    longshore assign --workers 10 --run states
    longshore fleet examples/us_states.py --workers 10 --run states --until-done
    longshore status states

As a program it prints the jobs of the JSONL file, a line each, with the partition beside the payload.
"""

import asyncio
import json
import random

from longshore import Job, handler
from longshore.fleet.partitions.us_states import US_STATES

PARTITIONS = list(US_STATES)
REGISTERS = ("births", "companies", "courts", "lands", "licences")


@handler("register", timeout=30, retries=3)
async def register(job: Job) -> dict[str, object]:
    # Stands in for a visit to the register's site.
    await asyncio.sleep(random.uniform(0.01, 0.05))
    return {"state": job.partition, "register": job.payload["register"], "worker": job.worker}


if __name__ == "__main__":
    for code, name in US_STATES.items():
        for what in REGISTERS:
            print(json.dumps({"payload": {"state": name, "register": what}, "partition": code}))
