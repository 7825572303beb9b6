// Bundles the driver into one executable file: build/kairos-driver-word_count. The host runs a driver from the open file
// that it hashed, so everything has to be in that file.
import * as fs from "node:fs";
import * as esbuild from "esbuild";
import protobuf from "protobufjs";

const protos = ["../../../proto/kairos/driver/v1/driver.proto", "proto/health.proto"];

const proto = {
  name: "proto",
  setup(build) {
    build.onResolve({ filter: /^kairos:proto$/ }, () => ({ path: "proto", namespace: "proto" }));
    build.onLoad({ filter: /.*/, namespace: "proto" }, () => {
      const root = new protobuf.Root();
      root.resolvePath = (_, target) => target; // from here, not from the file that was read before
      root.loadSync(protos, { keepCase: true });
      return { contents: JSON.stringify(root.toJSON()), loader: "json" };
    });
  },
};

const common = { bundle: true, platform: "node", target: "node18", format: "cjs", logLevel: "warning", plugins: [proto] };

// Without --preserve-symlinks-main Node would look up the path of the open file and run what stands there now.
const banner = { js: "#!/usr/bin/env -S node --preserve-symlinks-main" };
const driver = "build/kairos-driver-word_count";
await esbuild.build({ ...common, entryPoints: ["src/main.ts"], outfile: driver, minify: true, legalComments: "none", banner });
fs.chmodSync(driver, 0o755);

await esbuild.build({ ...common, entryPoints: ["test/*.test.ts"], outdir: "build", outExtension: { ".js": ".cjs" } });
