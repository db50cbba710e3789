#!/usr/bin/env bash
# Runs `punctual check` for the GitHub action in this folder. Reads the inputs from INPUT_*, and
# writes the outputs, the step summary and an annotation as GitHub specifies. Exits with the code
# of punctual: 0 held, 3 broken, 4 not proven, 1 and 2 failed.
set -euo pipefail

for name in INPUT_ACCEPT_NOT_PROVEN INPUT_SUDO; do
  case ${!name} in
  true | false) ;;
  *)
    echo "::error title=punctual::${name#INPUT_} is '${!name}': use true or false"
    exit 2
    ;;
  esac
done

folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/punctual.XXXXXX")
program=("$INPUT_PROGRAM")
if [ "$INPUT_SUDO" = true ]; then
  program=(sudo -- "$INPUT_PROGRAM")
fi
if ! command -v "$INPUT_PROGRAM" >/dev/null; then
  echo "::error title=punctual::$INPUT_PROGRAM is not installed on this runner"
  exit 1
fi
program+=(--store "${INPUT_STORE:-$folder/punctual.db}" --color never)

options=(--quiet "--period=$INPUT_PERIOD" "--budget=$INPUT_BUDGET" "--duration=$INPUT_DURATION")
options+=("--max-late-seconds-per-day=$INPUT_MAX_LATE_SECONDS" "--load=$INPUT_LOAD")
options+=("--label=$INPUT_LABEL" "--output=$folder/punctual.html")
if [ -n "$INPUT_CPUS" ]; then
  options+=("--cpus=$INPUT_CPUS")
fi

code=0
"${program[@]}" check "${options[@]}" >"$folder/check.txt" 2>"$folder/errors.txt" || code=$?
# Prevents the runner from treating text in the output, such as a label, as a command.
token=$(basename "$folder")
echo "::stop-commands::$token"
cat "$folder/check.txt" "$folder/errors.txt"
echo "::$token::"

case $code in
0) verdict=held mark='✅ held' ;;
3) verdict=broken mark='❌ broken' ;;
4) verdict=not-proven mark='❔ not proven' ;;
*) verdict=failed mark="❌ failed (exit code $code)" ;;
esac

if [ "$verdict" != failed ]; then
  "${program[@]}" report last --output "$folder/punctual.xml" >/dev/null 2>&1
fi

# Uses four backquotes, so that an output line with three backquotes cannot end the block.
quoted() {
  printf '````text\n'
  cat "$1"
  printf '\n````\n'
}

{
  printf '## Real-time check: %s\n\n' "$mark"
  if [ -s "$folder/check.txt" ]; then quoted "$folder/check.txt"; fi
  if [ -s "$folder/errors.txt" ]; then quoted "$folder/errors.txt"; fi
  if [ "$verdict" != failed ] && "${program[@]}" report last --format markdown --output - \
    >"$folder/report.md"; then
    printf '\n<details><summary>Report of the recording</summary>\n\n'
    cat "$folder/report.md"
    printf '\n</details>\n'
  fi
} >"$folder/summary.md"

# GitHub refuses a summary of more than 1 MiB, and then shows none.
if [ "$(wc -c <"$folder/summary.md")" -lt 1000000 ]; then
  cat "$folder/summary.md" >>"$GITHUB_STEP_SUMMARY"
else
  printf '## Real-time check: %s\n\nThe report is too large for this page.\n' "$mark" \
    >>"$GITHUB_STEP_SUMMARY"
fi

{
  echo "verdict=$verdict"
  echo "exit-code=$code"
  echo "html=$folder/punctual.html"
  echo "junit=$folder/punctual.xml"
  echo "markdown=$folder/summary.md"
} >>"$GITHUB_OUTPUT"

if [ "$INPUT_SUDO" = true ]; then
  # Later steps of the job read the files as the runner's user.
  sudo chown -R "$(id -u):$(id -g)" "$folder"
fi

# The annotation has the verdict, which continues on indented lines, or the first error.
line=$(awk '/^[^ ]/ { on = ($1 == "verdict") } on { $1 = $1; print }' "$folder/check.txt" |
  sed 's/^verdict //' | paste -s -d ' ' -)
line=${line:-$(head -n 1 "$folder/errors.txt")}
line=${line//%/%25}
case $verdict in
held) ;;
not-proven)
  if [ "$INPUT_ACCEPT_NOT_PROVEN" = true ]; then
    echo "::warning title=punctual check::${line:-not proven}"
    exit 0
  fi
  echo "::error title=punctual check::${line:-not proven}"
  ;;
*) echo "::error title=punctual check::${line:-$mark}" ;;
esac
exit "$code"
