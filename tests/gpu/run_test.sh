#!/usr/bin/env bash
# run.sh with tools and programs that only pretend: what it runs, what it makes of parts that fail, and what it writes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
real_cmake=$(command -v cmake)

fail() {
  echo "run_test.sh: $1" >&2
  exit 1
}
fake() {  # NAME, its script from standard input
  { echo '#!/usr/bin/env bash'; cat; } >"$work/tools/$1"
  chmod +x "$work/tools/$1"
}
mkdir "$work/tools"
fake nvidia-smi <<<'echo "NVIDIA H200"'
fake nvcc <<<'echo "Cuda compilation tools, release 13.0, V13.0.88"'
fake compute-sanitizer <<<'echo "========= ERROR SUMMARY: 0 errors"; "${@: -1}"'
fake ctest <<'END'
for ((i = 1; i <= $#; ++i)); do [[ ${!i} == --output-junit ]] && { next=$((i + 1)); echo "<testsuite/>" >"${!next}"; }; done
if [[ $BROKEN == *ctest* ]]; then echo "50% tests passed, 2 tests failed out of 4"; exit 8; fi
echo "100% tests passed, 0 tests failed out of 4"
END
# A build that leaves programs behind.
fake cmake <<'END'
if [[ $1 == -S ]]; then mkdir -p "$4/bin"; echo "CMAKE_GENERATOR:INTERNAL=Ninja" >"$4/CMakeCache.txt"; exit 0; fi
for program in llama minimal raw_trainer raw_trainer_offload link link-virtual overlap step; do
  cp "$FAKES/program" "$2/bin/$program"
done
END
fake program <<'END'
name=$(basename "$0")
for broken in $BROKEN; do
  if [[ $broken == "$name" ]]; then exit 9; fi
  if [[ $broken == "slow-$name" ]]; then exit 124; fi
done
equal=true
[[ $BROKEN == *other-bits* ]] && equal=false
[[ $name == llama ]] &&
  printf '{"rows": [\n{"placement": "save",\n"bitwise_equal_to_save": true},\n{"placement": "remat",\n"bitwise_equal_to_save": %s}]}\n' "$equal" >"${@: -1}"
time=20
[[ $name == link-virtual ]] && time=10
for argument; do
  if [[ $argument == --benchmark_out=* ]]; then
    for size in 4096 65536; do
      printf '    {\n      "name": "to_host/%s",\n      "run_type": "iteration",\n      "real_time": %s.5e+00,\n      "time_unit": "us"\n    },\n' \
        "$size" "$time"
    done >"${argument#*=}"
  fi
done
[[ $name == raw_trainer ]] && echo "step 1: loss 0x1p+0"
[[ $name == raw_trainer_offload && $BROKEN != *other-raw* ]] && echo "step 1: loss 0x1p+0"
exit 0
END

# run BROKEN EXPECTED_CODE: leaves the results in $work/out
run() {
  rm -rf "$work/out" "$work/build"
  local code=0
  BROKEN=$1 FAKES=$work/tools PATH=$work/tools:$PATH "$here/run.sh" "$work/out" "$work/build" >"$work/said" 2>&1 || code=$?
  ((code == $2)) || { cat "$work/said" >&2; fail "with \"$1\" broken the exit code is $code, not $2"; }
}
expect() {  # PART RESULT [NOTE]
  grep -q -E "^$1 +$2 +[0-9]+  .*${3:-}" "$work/out/summary.txt" ||
    { cat "$work/out/summary.txt" >&2; fail "part $1 is not: $2 ${3:-}"; }
}
json() {  # the value at this path of summary.json
  printf 'file(READ "%s" text)\nstring(JSON value GET "${text}" %s)\nmessage("${value}")\n' \
    "$work/out/summary.json" "$1" >"$work/json.cmake"
  "$real_cmake" -P "$work/json.cmake" 2>&1
}

run "" 0
for each in configure compile; do expect "$each" passed; done
expect semantics passed "100% tests passed"
expect tests passed "100% tests passed"
expect llama passed "2 of 2 placements have the bits of save"
expect raw_trainers passed "the same bits"
expect moe "left out" "moe was not built"
expect sanitizer passed "ERROR SUMMARY: 0 errors"
expect link passed "2 results in link.json"
expect host_cost "left out" "host_cost was not built"
expect compare passed "median 1.952, 1.952 to 1.952 of 2"
grep -q -E "^to_host/65536 +20.50 +10.50 +1.952$" "$work/out/compare.txt" || fail "compare.txt lacks a line"
[[ $(json gpu) == "NVIDIA H200" && $(json "parts 2 part") == semantics && $(json "parts 2 result") == passed ]] ||
  fail "summary.json is not as it should be"
head -n 1 "$work/out/summary.txt" | grep -q "^NVIDIA H200, CUDA 13.0, " || fail "the summary does not say what it ran on"

run "ctest overlap slow-step other-bits other-raw" 1
expect semantics "failed \(8\)" "50% tests passed, 2 tests failed"
expect llama "failed \(1\)" "1 of 2 placements"
expect raw_trainers "failed \(1\)"
expect overlap "failed \(9\)"
expect step "out of time"
expect sanitizer passed
expect compare passed
[[ $(json "parts 4 result") == "failed (1)" ]] || fail "summary.json does not tell of the failure"

run "link minimal" 1
expect sanitizer "failed \(9\)"
expect link "failed \(9\)"
expect compare "left out" "no times of the link"

fake nvidia-smi <<<'exit 9'
run "" 2
grep -q "^run.sh: no CUDA GPU here" "$work/said" || fail "without a GPU there is no line that says so"
[[ ! -e $work/out ]] || fail "without a GPU something was written"
echo "run.sh: as it should be"
