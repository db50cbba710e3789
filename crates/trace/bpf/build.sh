#!/bin/sh
# Makes watch.bpf.o from watch.bpf.c; to be run after a change of it, with
# clang 14 (a test compares). The object is kept beside its source so that
# nobody needs clang to build the program.
set -eu
cd "$(dirname "$0")"
out="${1:-watch.bpf.o}"
"${CLANG:-clang}" -O2 -g -Wall -Werror -target bpf -mcpu=v3 \
  -fdebug-compilation-dir=/ -c watch.bpf.c -o "$out"
"${LLVM_STRIP:-llvm-strip}" -g "$out"
