#!/usr/bin/env node
// A worker in JavaScript, for Node 18 and later. Write your work into `work`, and start it:
//
//   TASKMANAGER_API_URL=https://host:8000/api LONGSHORE_API_KEY=lsk_... node worker.mjs
//
// Ctrl-C lets the task under way finish; a second one gives it back. If the server is away, the worker waits for it.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.TASKMANAGER_API_URL ?? "http://127.0.0.1:8000/api";
const key = process.env.LONGSHORE_API_KEY;
const workerId = process.env.WORKER_ID ?? `${hostname()}-${process.pid}`;
const leaseSeconds = Number(process.env.LEASE_SECONDS ?? 60);
const pollSeconds = Number(process.env.POLL_INTERVAL ?? 10);

// The work for each type of task: returns the result, or throws. `signal` tells when to give up.
const work = {
  async add({ a, b }) {
    if (typeof a !== "number" || typeof b !== "number") throw new NeverRetry("a and b must be numbers");
    return { sum: a + b };
  },
  async wait({ seconds }, signal) {
    await sleep(seconds * 1000, undefined, { signal });
    return { waited: seconds };
  },
};

/** An error that another attempt would meet again. */
class NeverRetry extends Error {}

const stopping = new AbortController(); // claim nothing more
const leaving = new AbortController(); // give the task back

/** Post to the server. Waits for a server that is away, unless `signal` is aborted. */
async function post(path, body, signal) {
  for (;;) {
    const call = new AbortController();
    const abort = () => call.abort();
    const timer = setTimeout(abort, 60_000);
    signal?.addEventListener("abort", abort);
    try {
      const response = await fetch(`${url}/tasks/${path}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: call.signal,
      });
      const text = await response.text();
      if (response.status < 500 && response.status !== 429) {
        return { status: response.status, body: text ? JSON.parse(text) : null };
      }
      log(`the server does not answer (${response.status})`);
    } catch (error) {
      if (signal?.aborted) throw error;
      log(`the server does not answer (${error.cause?.code ?? error.message})`);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    await sleep(pollSeconds * 1000, undefined, { signal });
  }
}

/** Keep the lease of a task alive until `ended`; abort `attempt` if the task is lost, or the worker has to leave. */
async function renew(task, attempt, ended) {
  try {
    for (;;) {
      await sleep((leaseSeconds * 1000) / 3, undefined, { signal: ended });
      const body = { lease: task.lease, lease_seconds: leaseSeconds };
      const { status, body: answer } = await post(`${task.id}/renew`, body, ended);
      if (status === 409) return attempt.abort("lost");
      if (answer?.order) stopping.abort();
      if (answer?.order === "stop") leaving.abort();
    }
  } catch (error) {
    if (!ended.aborted) throw error;
  }
}

async function attempt(task) {
  log(`claimed task ${task.id}`);
  const attempt = new AbortController();
  const ended = new AbortController();
  const leave = () => attempt.abort("leave");
  leaving.signal.addEventListener("abort", leave);
  const renewal = renew(task, attempt, ended.signal);
  const began = Date.now();
  let verb, body;
  try {
    const result = await work[task.type](task.params, attempt.signal);
    [verb, body] = ["complete", { result, seconds: (Date.now() - began) / 1000 }];
  } catch (error) {
    const retryable = !(error instanceof NeverRetry);
    [verb, body] = ["fail", { error: String(error.message ?? error), traceback: error.stack ?? "", retryable }];
  }
  leaving.signal.removeEventListener("abort", leave);
  if (attempt.signal.reason === "lost") return log(`lost lease: task ${task.id} went to another worker`);
  if (attempt.signal.reason === "leave") [verb, body] = ["release", {}];
  const { status, body: answer } = await post(`${task.id}/${verb}`, { lease: task.lease, ...body });
  ended.abort();
  await renewal;
  if (status === 200) log(`${verb}: task ${task.id}`);
  else if (status === 409) log(`lost lease: task ${task.id} went to another worker`);
  else await post(`${task.id}/fail`, { lease: task.lease, error: answer.detail, retryable: false });
}

function log(message) {
  console.error(`${new Date().toISOString()} ${workerId}: ${message}`);
}

async function main() {
  if (!key) throw new Error("Set LONGSHORE_API_KEY to your key.");
  const claim = { worker_id: workerId, types: Object.keys(work), lease_seconds: leaseSeconds, wait_seconds: 20 };
  while (!stopping.signal.aborted) {
    const { status, body } = await post("claim", claim, stopping.signal).catch((error) => {
      if (stopping.signal.aborted) return { status: 204 };
      throw error;
    });
    if (status === 200) await attempt(body);
    else if (status === 410) break; // a person has asked this worker to end
    else if (status !== 204) throw new Error(`The server refuses this worker (${status}): ${body.detail}`);
  }
  log("stopping");
}

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => (stopping.signal.aborted ? leaving : stopping).abort());
}
main().catch((error) => {
  log(error.message);
  process.exitCode = 1;
});
