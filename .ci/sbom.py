"""Checks a CycloneDX file against `cargo tree` (standard input), and writes it without this machine's paths."""

import json
import os
import sys

source, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    bom = json.loads(file.read().replace(f"path+file://{os.getcwd()}", "path+file://."))

ours = bom["metadata"]["component"]
listed = {(part["name"], part["version"]) for part in [ours, *bom["components"]]}
# Lines like `smol v2.0.2` and `clientmcp-proto v0.1.0 (/path)`.
linked = {(name, version[1:]) for name, version, *_ in map(str.split, sys.stdin)}
if (bom["bomFormat"], ours["name"]) != ("CycloneDX", "clientmcp"):
    sys.exit(f"sbom: expected a CycloneDX file of clientmcp, got {bom['bomFormat']} of {ours['name']}")
if listed != linked:
    sys.exit(f"sbom: only in it: {sorted(listed - linked)}; only in cargo tree: {sorted(linked - listed)}")
unhashed = [part["name"] for part in bom["components"] if "hashes" not in part and part["name"] != "clientmcp-proto"]
if unhashed:
    sys.exit(f"sbom: expected the hash of each crate, {unhashed} have none")

with open(target, "w", encoding="utf-8") as file:
    json.dump(bom, file, indent=1, ensure_ascii=False)
    file.write("\n")
print(f"sbom: {len(bom['components'])} crates, as cargo tree has them, in {target}")
