// graphile_worker.cjs URL [--schema-only]: run tasks that tell the journal when they started.
"use strict";
const fs = require("node:fs");
const { Logger, run, runMigrations } = require("graphile-worker");

const [connectionString, schemaOnly] = process.argv.slice(2);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

async function main() {
  if (schemaOnly) return runMigrations({ connectionString, logger });
  const journal = fs.openSync(process.env.BENCHMARK_JOURNAL, "r+");
  const moment = Buffer.alloc(8);
  const tick = ({ number }) => {
    moment.writeDoubleLE((performance.timeOrigin + performance.now()) / 1000);
    fs.writeSync(journal, moment, 0, 8, 8 * number);
  };
  const runner = await run({
    connectionString,
    logger,
    preset: {
      worker: {
        concurrentJobs: 24,
        pollInterval: 1000,
        maxPoolSize: 26,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    taskList: { tick },
  });
  await runner.promise;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
