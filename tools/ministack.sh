#!/usr/bin/env bash
# A stranger's CloudFormation: cdk bootstrap, deploy, diff and destroy of the whole template against MiniStack, without Docker and without an account. It proves that
# the template and the commands of `make deploy`, `diff` and `destroy` are accepted; no run is played there (MiniStack's Distributed Map reports success for work that it
# did not do). Alarms with metric math are left out: MiniStack does not have it. Needs Python, npm and a synthesised cdk.out.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.ministack
port=${MINISTACK_PORT:-19101}
mkdir -p "$home"
[ -x "$home/venv/bin/ministack" ] || { "${PYTHON:-python3}" -m venv "$home/venv" && "$home/venv/bin/pip" -q install ministack==1.5.33; }
[ -x "$home/node_modules/.bin/cdk" ] || npm install --silent --no-audit --no-fund --prefix "$home" aws-cdk@2.1148.1
rm -rf "$home/cdk.out" && cp -r "$root/cdk.out" "$home/cdk.out"
"${PYTHON:-python3}" - "$home/cdk.out/Firn.template.json" <<'PYTHON'
import json, sys
template = json.load(open(sys.argv[1]))
resources = template["Resources"]
left_out = [k for k, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in r["Properties"]]
for k in left_out:
    del resources[k]
json.dump(template, open(sys.argv[1], "w"))
print("left out for want of metric math:", ", ".join(left_out))
PYTHON
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
BIND_HOST=127.0.0.1 IOT_MTLS_ENABLED=0 GATEWAY_PORT=$port LAMBDA_EXECUTOR=local PERSIST_STATE=0 "$home/venv/bin/ministack" >"$home/log" 2>&1 &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 60); do
  curl -sf "$AWS_ENDPOINT_URL/_ministack/health" >/dev/null && break
  sleep 1
done
cdk() { "$home/node_modules/.bin/cdk" "$@" --app "$home/cdk.out" --no-notices --ci; }
cdk bootstrap aws://000000000000/us-east-1 >"$home/bootstrap.log" 2>&1 || { tail -30 "$home/bootstrap.log"; exit 1; }
cdk deploy --require-approval never >"$home/deploy.log" 2>&1 || { tail -30 "$home/deploy.log"; exit 1; }
grep -E 'CREATE_COMPLETE +\| AWS::CloudFormation::Stack' "$home/deploy.log"
cdk diff --fail Firn >"$home/diff.log" 2>&1 || { echo "the deployed stack differs from its template"; tail -30 "$home/diff.log"; exit 1; }
cdk destroy --force Firn >"$home/destroy.log" 2>&1 || { tail -30 "$home/destroy.log"; exit 1; }
echo "bootstrap, deploy, diff and destroy were accepted"
