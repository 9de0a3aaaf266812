// Lock a path of a repository and list its locks, with nothing but the .proto files.
//
//     npm install
//     export TOWPATH_LOCKS_ADDRESS=127.0.0.1:9002 TOWPATH_SERVICE_SECRET=... TOWPATH_TOKEN=...
//     node take_lock.js demo/assets scenes/opening.blend refs/heads/main
//
// TOWPATH_TLS_CA, TOWPATH_TLS_CERTIFICATE and TOWPATH_TLS_KEY name PEM files, where the services speak mutual TLS;
// TOWPATH_PROTO is the folder of the .proto files, when it is not the one of this repository.
// The exit status is 0 where the path is now locked, and 3 where somebody holds it already.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const env = process.env;
const address = env.TOWPATH_LOCKS_ADDRESS;
const [repository, path, ref = ""] = process.argv.slice(2);
if (!address || !repository || !path) {
  console.error("usage: TOWPATH_LOCKS_ADDRESS=ADDRESS node take_lock.js REPOSITORY PATH [REF]");
  process.exit(2);
}

const definition = protoLoader.loadSync(["towpath/access/v1/access_service.proto", "towpath/locks/v1/lock_service.proto"], {
  includeDirs: [env.TOWPATH_PROTO ?? fileURLToPath(new URL("../../proto", import.meta.url))],
  longs: String, // ids have 64 bits, and a number of JavaScript has 53
  enums: String,
  defaults: true,
});
const { towpath } = grpc.loadPackageDefinition(definition);

const credentials = env.TOWPATH_TLS_CA && !address.startsWith("unix:")
  ? grpc.credentials.createSsl(
      readFileSync(env.TOWPATH_TLS_CA),
      readFileSync(env.TOWPATH_TLS_KEY),
      readFileSync(env.TOWPATH_TLS_CERTIFICATE),
    )
  : grpc.credentials.createInsecure();
const locks = new towpath.locks.v1.LockService(address, credentials);
const access = new towpath.access.v1.AccessService(address, credentials);

const metadata = new grpc.Metadata({ waitForReady: true });
metadata.set("x-request-id", `example-${randomUUID()}`);
if (env.TOWPATH_SERVICE_SECRET) metadata.set("authorization", `Bearer ${env.TOWPATH_SERVICE_SECRET}`);

// Every call has a deadline, long enough for a service that restarts meanwhile.
function call(client, method, request) {
  return promisify(client[method]).call(client, request, metadata, { deadline: Date.now() + 15_000 });
}

async function main() {
  // LockService believes the ids that it is told: whose they are, and what the user may do, AccessService says.
  const { userId } = await call(access, "Authenticate", { token: env.TOWPATH_TOKEN });
  const question = { userId, repository, ref, permission: "PERMISSION_WRITE" };
  const { repositoryId } = await call(access, "CheckAccess", question);
  try {
    // One key for one intention: a repeat of this call would answer with the lock that the first one made.
    const { lock } = await call(locks, "CreateLock", { repositoryId, userId, path, idempotencyKey: randomUUID() });
    console.log(`${lock.path} is now locked by ${lock.ownerName}, lock ${lock.id}`);
  } catch (error) {
    if (error.code !== grpc.status.ALREADY_EXISTS) throw error;
    console.log(error.details);
    process.exitCode = 3;
  }
  let cursor = "";
  do {
    const page = await call(locks, "ListLocks", { repositoryId, cursor });
    for (const lock of page.locks) console.log([lock.path, lock.ownerName, lock.id].join("\t"));
    cursor = page.nextCursor;
  } while (cursor);
}

try {
  await main();
} catch (error) {
  console.error(`${grpc.status[error.code] ?? "error"}: ${error.details ?? error.message}`);
  process.exitCode = 1;
} finally {
  locks.close();
  access.close();
}
