#!/usr/bin/env bash
# Puts the sources of what the build needs besides CUDA and CMake into tests/gpu/packed, which git ignores and CMake
# prefers to what is installed (cmake/packed.cmake): Catch2, CLI11, nlohmann-json, Google Benchmark and fmt, as Debian 12
# has them. Run it where Debian's archive can be reached; the folder travels with the repository to the machine with the
# GPU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT

# Its own list of sources, so that the machine's stays as it is.
mkdir -p "$work/lists/partial" "$work/packed"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb-src [signed-by=$keyring] http://deb.debian.org/debian bookworm main" >"$work/sources.list"
options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
         -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
if ! apt-get "${options[@]}" update >"$work/log" 2>&1; then
  echo "pack.sh: Debian's archive does not answer: $(tail -n 1 "$work/log")" >&2
  exit 1
fi

# pack NAME SOURCE_PACKAGE PATH…: these paths of the upstream source, as packed/NAME.
pack() {
  local name=$1 package=$2
  shift 2
  mkdir -p "$work/$name/source"
  (cd "$work/$name" && apt-get "${options[@]}" source --download-only "$package" >"$work/log" 2>&1) ||
    { echo "pack.sh: the source of $package cannot be had: $(tail -n 1 "$work/log")" >&2; exit 1; }
  tar --extract --file "$work/$name/"*.orig.tar.* --directory "$work/$name/source" --strip-components 1
  mkdir -p "$work/packed/$name"
  (cd "$work/$name/source" && cp -r --parents "$@" "$work/packed/$name")
  echo "$name: $(basename "$work/$name/"*.orig.tar.*)"
}
pack catch2 catch2 single_include contrib LICENSE.txt
pack cli11 cli11 include LICENSE
pack json nlohmann-json3 include LICENSE.MIT
pack benchmark benchmark include src LICENSE
pack fmt fmtlib include LICENSE.rst

rm -rf "$here/packed"
mv "$work/packed" "$here/packed"
echo "tests/gpu/packed: $(du -sh "$here/packed" | cut -f1)"
