// graphile-worker, as its page on performance says to set it up.
//
//   node graphile.mjs migrate URL          make its tables
//   node graphile.mjs drain URL            work; at SIGTERM, print [[nanoseconds, jobs], …] as JSON
//   node graphile.mjs latency URL FILE     append the nanoseconds from payload.at to the start of each task
import { appendFileSync } from "node:fs";
import { EventEmitter } from "node:events";
import { Logger, run, runMigrations } from "graphile-worker";

const [mode, connectionString, file] = process.argv.slice(2);
const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const preset = {
  worker: {
    connectionString,
    concurrentJobs: 24,
    maxPoolSize: 25,
    logger: quiet,
    // A local queue keeps several jobs from waiting for one another; a single one it can only hold up.
    ...(mode === "drain" ? batching : {}),
  },
};

if (mode === "migrate") {
  await runMigrations({ preset });
} else if (mode === "drain") {
  const events = new EventEmitter();
  const settled = [];
  let jobs = 0;
  const note = () => {
    settled.push([Number(process.hrtime.bigint()), jobs]);
    jobs = 0;
  };
  events.on("job:complete", () => {
    jobs += 1;
    if (jobs === 100) note();
  });
  const runner = await run({ preset, events, noHandleSignals: true, taskList: { page: async () => {} } });
  process.on("SIGTERM", async () => {
    await runner.stop();
    process.stdout.write(JSON.stringify(settled));
  });
} else {
  const page = async (payload) => {
    const waited = process.hrtime.bigint() - BigInt(payload.at);
    appendFileSync(file, `${waited}\n`);
  };
  const runner = await run({ preset, noHandleSignals: true, taskList: { page } });
  process.on("SIGTERM", () => runner.stop());
}
