#!/bin/sh
# Builds a .bpf.o from each .bpf.c, in the folder of the first argument. Run it with clang 14
# after each change of a source (a test compares them). The objects are committed, so that
# building the program does not need clang.
set -eu
cd "$(dirname "$0")"
folder="${1:-.}"
for source in *.bpf.c; do
  out="$folder/${source%.c}.o"
  "${CLANG:-clang}" -O2 -g -Wall -Werror -target bpf -mcpu=v3 \
    -fdebug-compilation-dir=/ -c "$source" -o "$out"
  # Neither the kernel nor aya reads labels or type relocations, a third of the object.
  "${LLVM_STRIP:-llvm-strip}" -g --wildcard --strip-symbol 'LBB*' \
    --remove-section=.rel.BTF --remove-section=.rel.BTF.ext "$out"
done
