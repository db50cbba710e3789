#!/bin/sh
# Enrols one machine without Ansible. Usage, as root: enrol.sh PACKAGE CPUS [PROFILE]
set -eu

package=${1:?package, such as ./punctual_0.1.0-1_amd64.deb}
cpus=${2:?CPUs of the application, such as 2-3}
profile=${3:-control}

dpkg -i "$package"
punctual doctor --report-only
punctual tune enable "$profile" --cpus "$cpus"
punctual tune cmdline write "$profile" --cpus "$cpus" --dry-run
echo "To write the kernel's parameters: punctual tune cmdline write $profile --cpus $cpus"
echo "After the reboot: punctual tune boot status; punctual check --cpus $cpus"
