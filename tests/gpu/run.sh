#!/usr/bin/env bash
# Everything that only a GPU can show, in under eight minutes: tests/gpu/run.sh OUTDIR [BUILD_FOLDER]
# Needs nvcc, CMake, a C++ compiler and tests/gpu/packed (see pack.sh) or the packages that the README lists. Each part
# has a time limit; one that fails is reported and the others go on. OUTDIR gets summary.txt, summary.json, a log per
# part, and the JSON of the Llama and the benchmarks. Exit code: 0, 1 where a part failed, 2 where nothing could run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  echo "run.sh: $1" >&2
  exit 2
}
(($# == 1 || $# == 2)) || die "give the folder for the results: tests/gpu/run.sh OUTDIR [BUILD_FOLDER]"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
[[ -n $gpu ]] || die "no CUDA GPU here (nvidia-smi names none); without one: cmake --workflow --preset cuda"
mkdir -p "$1" || die "$1: the folder cannot be made"
out=$(cd "$1" && pwd)
build=${2:-$root/build/gpu}
budget=470   # seconds for all
if ! nvcc=$(command -v nvcc); then
  nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
  [[ -x $nvcc ]] || die "nvcc was not found: put it into PATH or set CUDA_HOME"
fi
export LC_ALL=C CUDACXX=$nvcc PATH=$PATH:$(dirname "$nvcc")

parts=() results=() seconds=() notes=()

# part NAME LIMIT COMMAND…: runs it for at most LIMIT seconds and no longer than the budget lasts. The last line that it
# writes to descriptor 3 is the part's note.
part() {
  local name=$1 limit=$2 begin=$SECONDS left=$((budget - SECONDS)) code result
  shift 2
  ((limit > left)) && limit=$left
  echo "=== $name"
  if ((limit <= 0)); then
    code=124
    : >"$out/$name.log" >"$out/$name.note"
  else
    timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1 3>"$out/$name.note"
    code=$?
  fi
  case $code in
    0) result=passed ;;
    77) result="left out" ;;
    124 | 137) result="out of time" ;;
    *) result="failed ($code)" ;;
  esac
  parts+=("$name") results+=("$result") seconds+=($((SECONDS - begin)))
  notes+=("$(tail -n 1 "$out/$name.note")")
  rm -f "$out/$name.note"
  echo "=== $name: $result, $((SECONDS - begin)) s"
}

# --- The parts; they run in a shell of their own, under `timeout`. Exit code 77: left out.

configure() {
  local generator="Unix Makefiles"
  command -v ninja >/dev/null && generator=Ninja
  cmake -S "$root" -B "$build" -G "$generator" -D CMAKE_BUILD_TYPE=Release -D HOSTOFFLOAD_CUDA=ON \
    -D HOSTOFFLOAD_BENCHMARKS=ON -D HOSTOFFLOAD_STATIC_CHECKS=OFF -D HOSTOFFLOAD_CUDA_HEADERS=toolkit \
    -D CMAKE_CUDA_ARCHITECTURES=native
}
compile() {  # what does not compile must not keep the rest from being built
  local go_on=-k
  grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja' "$build/CMakeCache.txt" && go_on=-k0
  cmake --build "$build" --parallel "$(nproc)" -- "$go_on"
}
device_tests() {  # the suite, or all but the suite
  ctest --test-dir "$build" -L gpu "$1" '^cuda_semantics' --parallel 4 --timeout 60 --output-on-failure \
    --no-tests=error --output-junit "$out/$2.xml" | tee "$out/$2.txt"
  local code=${PIPESTATUS[0]}
  sed -n 's/^\(.* tests passed, .*\)$/\1/p' "$out/$2.txt" >&3
  rm -f "$out/$2.txt"
  return "$code"
}
trainer() {  # llama, moe: every placement, and whether the bits are those of save
  local name=$1 equal
  [[ -x $build/bin/$name ]] || { echo "$name was not built" >&3; return 77; }
  "$build/bin/$name" --placement all --batch 4 --json "$out/$name.json" || return
  equal=$(grep -c '"bitwise_equal_to_save": true' "$out/$name.json")
  echo "$equal of $(grep -c '"placement"' "$out/$name.json") placements have the bits of save" >&3
  ! grep -q '"bitwise_equal_to_save": \(false\|null\)' "$out/$name.json" && ((equal > 0))
}
raw_trainers() {
  "$build/bin/raw_trainer" >"$out/raw.txt" && "$build/bin/raw_trainer_offload" >"$out/raw_offload.txt" || return
  cat "$out/raw.txt"
  [[ -s $out/raw.txt ]] && cmp "$out/raw.txt" "$out/raw_offload.txt" || return
  echo "losses and parameters have the same bits" >&3
  rm "$out/raw.txt" "$out/raw_offload.txt"
}
sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer was not found" >&3; return 77; }
  local program
  for program in minimal raw_trainer_offload; do
    compute-sanitizer --tool memcheck --error-exitcode 3 "$build/bin/$program" || return
  done
  sed -n 's/^=* *\(ERROR SUMMARY: .*\)$/\1/p' "$out/sanitizer.log" | tail -n 1 >&3
}
bench() {
  local name=$1
  shift
  [[ -x $build/bin/$name ]] || { echo "$name was not built" >&3; return 77; }
  "$build/bin/$name" "$@" --benchmark_out="$out/$name.json" --benchmark_out_format=json || return
  echo "$(grep -c '"run_type"' "$out/$name.json") results in $name.json" >&3
}

# "name seconds" of Google Benchmark's JSON, which has a key a line.
times_of() {
  awk -F'"' '
    $2 == "name" {name = $4}
    $2 == "real_time" {split($3, value, /[:,]/); time = value[2]}
    $2 == "time_unit" {
      unit["ns"] = 1e-9; unit["us"] = 1e-6; unit["ms"] = 1e-3; unit["s"] = 1
      printf "%s %.9g\n", name, time * unit[$4]
    }' "$1"
}
compare() {  # of the link: the virtual GPU's times for the same machine
  local machine
  machine=$(echo "$gpu" | tr '[:upper:]' '[:lower:]' | grep -o -w -E 'gb200|gb300|gh200|b200|h200|h100|a100' | head -n 1)
  [[ -n $machine ]] || { echo "no virtual machine stands for $gpu" >&3; return 77; }
  [[ -s $out/link.json ]] || { echo "no times of the link" >&3; return 77; }
  [[ -x $build/bin/link-virtual ]] || { echo "link-virtual was not built" >&3; return 77; }
  "$build/bin/link-virtual" --machine="$machine" --benchmark_out="$out/link_virtual.json" \
    --benchmark_out_format=json || return
  times_of "$out/link.json" | sort >"$out/measured.txt"
  times_of "$out/link_virtual.json" | sort >"$out/virtual.txt"
  join "$out/measured.txt" "$out/virtual.txt" >"$out/both.txt"
  rm -f "$out/measured.txt" "$out/virtual.txt"
  awk 'BEGIN {printf "%-60s %12s %12s %8s\n", "link, " "'"$machine"'", "measured us", "virtual us", "ratio"}
       {printf "%-60s %12.2f %12.2f %8.3f\n", $1, $2 * 1e6, $3 * 1e6, $2 / $3}' "$out/both.txt" | tee "$out/compare.txt"
  awk '$3 > 0 {ratio[++n] = $2 / $3}
       END {
         for (i = 2; i <= n; ++i) for (j = i; j > 1 && ratio[j] < ratio[j - 1]; --j) {
           t = ratio[j]; ratio[j] = ratio[j - 1]; ratio[j - 1] = t
         }
         if (n == 0) exit 1
         printf "measured over virtual: median %.3f, %.3f to %.3f of %d\n", ratio[int((n + 1) / 2)], ratio[1], ratio[n], n
       }' "$out/both.txt" >&3
  local code=$?
  rm -f "$out/both.txt"
  return "$code"
}

# --- Run and report

export root out build gpu
export -f configure compile device_tests trainer raw_trainers sanitizer bench times_of compare
in_shell() { part "$1" "$2" bash -c "set -o pipefail; $3"; }
SECONDS=0
in_shell configure 60 configure
in_shell compile 240 compile
in_shell semantics 60 'device_tests -R semantics'
in_shell tests 120 'device_tests -E tests'
in_shell llama 50 'trainer llama'
in_shell moe 40 'trainer moe'
in_shell raw_trainers 20 raw_trainers
in_shell sanitizer 40 sanitizer
in_shell link 40 'bench link'
in_shell overlap 30 'bench overlap'
in_shell host_cost 20 'bench host_cost'
in_shell compare 30 compare
in_shell step 60 'bench step'

quoted() {  # as a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\t'/ }"
}
failed=0
{
  echo "$gpu, $("$nvcc" --version | sed -n 's/^.*release \([0-9.]*\).*$/CUDA \1/p'), $(date -u +%Y-%m-%d), $SECONDS s"
  printf '%-14s %-12s %8s  %s\n' part result seconds note
  for i in "${!parts[@]}"; do
    printf '%-14s %-12s %8d  %s\n' "${parts[i]}" "${results[i]}" "${seconds[i]}" "${notes[i]}"
  done
} >"$out/summary.txt"
{
  printf '{\n  "gpu": %s,\n  "date": "%s",\n  "seconds": %d,\n  "parts": [\n' "$(quoted "$gpu")" \
    "$(date -u +%Y-%m-%d)" "$SECONDS"
  for i in "${!parts[@]}"; do
    comma=,
    ((i + 1 == ${#parts[@]})) && comma=
    printf '    {"part": "%s", "result": "%s", "seconds": %d, "note": %s}%s\n' "${parts[i]}" "${results[i]}" \
      "${seconds[i]}" "$(quoted "${notes[i]}")" "$comma"
  done
  printf '  ]\n}\n'
} >"$out/summary.json"
for result in "${results[@]}"; do
  [[ $result == passed || $result == "left out" ]] || failed=1
done
cat "$out/summary.txt"
exit "$failed"
