#!/usr/bin/env bash
# A stranger's CloudFormation: cdk bootstrap, deploy, diff and destroy of the whole template against MiniStack, without Docker and without an account, and the
# event plumbing of the deployed stack (internal/local/cloud/ministack). It proves that the template and the commands of `make deploy`, `diff` and `destroy` are
# accepted, and that somebody else's EventBridge, SNS, SQS, Scheduler and Lambda understand the wiring; no run is played there (MiniStack's Distributed Map
# reports success for work that it did not do). Alarms with metric math are left out: MiniStack does not have it. Needs Python, npm and Node.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.ministack
port=${MINISTACK_PORT:-19101}
mkdir -p "$home"
[ -x "$home/venv/bin/ministack" ] || { "${PYTHON:-python3}" -m venv "$home/venv" && "$home/venv/bin/pip" -q install ministack==1.5.33; }
[ -x "$home/node_modules/.bin/cdk" ] || npm install --silent --no-audit --no-fund --prefix "$home" aws-cdk@2.1148.1
"$root/tools/synth.sh" -c warehouse=s3://lake/warehouse -c 'tables=db.*' -c mode=maintain -c sources=glue,s3 -c topics=arn:aws:sns:us-east-1:000000000000:commits "$@"
rm -rf "$home/cdk.out" && cp -r "$root/cdk.out" "$home/cdk.out"
# Programs for this machine take the place of those for arm64; they are built as `make e2e` builds them.
mkdir -p "$home/programs"
(cd "$root" && go build -tags lambda.norpc,nosqlite -buildvcs=false -o "$home/programs/" ./functions/{evaluate,schedule,plan,compact,commit,sweep,report})
"${PYTHON:-python3}" - "$home/cdk.out" "$home/programs" <<'PYTHON'
import json, shutil, sys
out, programs = sys.argv[1:]
path = out + "/Firn.template.json"
template = json.load(open(path))
resources = template["Resources"]
left_out = [k for k, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in r["Properties"]]
for k in left_out:
    del resources[k]
json.dump(template, open(path, "w"))
print("left out for want of metric math:", ", ".join(left_out))
files = json.load(open(out + "/Firn.assets.json"))["files"]
for r in resources.values():
    if r["Type"] == "AWS::Lambda::Function":
        name = r["Properties"]["Description"].removeprefix("Firn: ")
        code = r["Properties"]["Code"]["S3Key"].removesuffix(".zip")
        shutil.copy(f"{programs}/{name}", f"{out}/{files[code]['source']['path']}/bootstrap")
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
signed() { curl -sf -o /dev/null -H "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/$1/aws4_request, SignedHeaders=host, Signature=0" "${@:2}"; }
signed sns -d 'Action=CreateTopic&Version=2010-03-31&Name=commits' "$AWS_ENDPOINT_URL/" # what the owner of the warehouse has: a topic and a bucket
signed s3 -X PUT "$AWS_ENDPOINT_URL/lake"
cdk bootstrap aws://000000000000/us-east-1 >"$home/bootstrap.log" 2>&1 || { tail -30 "$home/bootstrap.log"; exit 1; }
cdk deploy --require-approval never >"$home/deploy.log" 2>&1 || { tail -30 "$home/deploy.log"; exit 1; }
grep -E 'CREATE_COMPLETE +\| AWS::CloudFormation::Stack' "$home/deploy.log"
(cd "$root" && go test -count=1 -timeout 5m -tags ministack ./internal/local/cloud/ministack) || { grep -v '" 200 ' "$home/log" | tail -30; exit 1; }
cdk diff --fail Firn >"$home/diff.log" 2>&1 || { echo "the deployed stack differs from its template"; tail -30 "$home/diff.log"; exit 1; }
cdk destroy --force Firn >"$home/destroy.log" 2>&1 || { tail -30 "$home/destroy.log"; exit 1; }
echo "bootstrap, deploy, event plumbing, diff and destroy were accepted"
