// SPDX-License-Identifier: MIT OR Apache-2.0

// Sleeps with time.Sleep: the thread waits on a futex until another thread of the runtime wakes it.
// The clean program sleeps in the kernel.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	noRight   = 77
	priority  = 20
	monotonic = 1
	absolute  = 1
	rttime    = 15
)

func call(number, first, second, third uintptr) {
	_, _, failed := syscall.RawSyscall(number, first, second, third)
	if failed == syscall.EPERM || failed == syscall.ENOMEM {
		os.Exit(noRight)
	} else if failed != 0 {
		os.Exit(1)
	}
}

//go:noinline
func touchStack() byte {
	var stack [256 << 10]byte
	for i := range stack {
		stack[i] = 1
	}
	return stack[len(os.Args)]
}

func main() {
	// Otherwise, the runtime sends signals to a thread that waits in the kernel.
	if os.Getenv("GODEBUG") == "" {
		os.Setenv("GODEBUG", "asyncpreemptoff=1")
		syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	hasFault := os.Args[1] == "fault"
	cpu, _ := strconv.Atoi(os.Args[2])
	set := uint64(1) << cpu
	limit := [2]uint64{1000000, 1000000}
	parameter := int32(priority)
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	// The program ends with the test.
	call(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	call(syscall.SYS_SETRLIMIT, rttime, uintptr(unsafe.Pointer(&limit)), 0)
	call(syscall.SYS_SCHED_SETAFFINITY, 0, 8, uintptr(unsafe.Pointer(&set)))
	call(syscall.SYS_MLOCKALL, 3, 0, 0)
	touchStack()
	call(syscall.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&parameter)))
	os.Stdout.WriteString("ready\n")
	var release syscall.Timespec
	call(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&release)), 0)
	for {
		if hasFault {
			time.Sleep(time.Millisecond)
			continue
		}
		release.Nsec += 1000000
		if release.Nsec >= 1000000000 {
			release.Nsec -= 1000000000
			release.Sec++
		}
		syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP, monotonic, absolute,
			uintptr(unsafe.Pointer(&release)), 0, 0, 0)
	}
}
