#!/bin/sh
# Makes the .bpf.o from each .bpf.c, into the folder of its first argument; to be run
# after a change of one, with clang 14 (a test compares). Objects are kept beside their
# sources so that nobody needs clang to build the program.
set -eu
cd "$(dirname "$0")"
folder="${1:-.}"
for source in *.bpf.c; do
  out="$folder/${source%.c}.o"
  "${CLANG:-clang}" -O2 -g -Wall -Werror -target bpf -mcpu=v3 \
    -fdebug-compilation-dir=/ -c "$source" -o "$out"
  # Neither the kernel nor aya reads labels, or relocations of types: a third of the object.
  "${LLVM_STRIP:-llvm-strip}" -g --wildcard --strip-symbol 'LBB*' \
    --remove-section=.rel.BTF --remove-section=.rel.BTF.ext "$out"
done
